"""Tests, of which one is slow."""

import unittest


def total(orders):
    return sum(price * count for price, count in orders)


class Orders(unittest.TestCase):
    def test_an_order_has_a_total(self):
        self.assertEqual(total([(2, 3), (1, 1)]), 7)

    def test_many_orders_have_a_total(self):
        orders = [(price, 2) for price in range(100_000)]
        for _ in range(100):
            self.assertEqual(total(orders), 9_999_900_000)
