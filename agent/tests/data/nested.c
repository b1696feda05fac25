// Functions inside functions, an extension of GCC, with functions inlined into both.
#include <stdio.h>

static inline long mixed(long value, long by) {
    value ^= value << 13;
    value ^= value >> 7;
    return value * by;
}

static inline long twice(long value, long by) { return mixed(mixed(value, by), by + 1); }

#define OUTER(number)                                                                             \
    __attribute__((noinline)) static long outer_##number(long count, long *last) {                \
        long sum = number;                                                                        \
        __attribute__((noinline)) long inner(long value) {                                        \
            sum += twice(value, number);                                                          \
            for (long i = 0; i < value % 5; i++)                                                  \
                sum -= mixed(sum, i);                                                             \
            return twice(sum, value);                                                             \
        }                                                                                         \
        for (long i = 0; i < count; i++)                                                          \
            *last += inner(i) + twice(*last, i);                                                  \
        return sum + mixed(*last, count);                                                         \
    }

OUTER(1)
OUTER(2)
OUTER(3)
OUTER(4)
OUTER(5)
OUTER(6)

int main(int count, char **arguments) {
    long last = count, sum = 0;
    for (long i = 0; i < 1000; i++)
        sum += outer_1(i, &last) + outer_2(i, &last) + outer_3(i, &last) + outer_4(i, &last) +
               outer_5(i, &last) + outer_6(i, &last) + twice(sum, i);
    printf("%ld %ld\n", sum, last);
    return 0;
}
