//! Code of which the compiler inlines much, in modules, generic types, traits and closures.

use std::collections::{BTreeMap, HashMap};

mod shop {
    pub trait Total {
        fn total(&self) -> f64;
    }

    #[derive(Clone, Debug, PartialEq, PartialOrd)]
    pub struct Item {
        pub name: String,
        pub price: f64,
        pub count: i32,
    }

    impl Total for Item {
        fn total(&self) -> f64 {
            self.price * f64::from(self.count)
        }
    }

    pub struct Stock<T> {
        pub items: Vec<T>,
    }

    impl<T: Total + Clone + PartialOrd> Stock<T> {
        pub fn add(&mut self, item: T) {
            self.items.push(item);
        }

        #[inline(never)]
        pub fn total(&self) -> f64 {
            self.items.iter().map(Total::total).sum()
        }

        pub fn sort(&mut self) {
            self.items
                .sort_by(|one, other| one.total().total_cmp(&other.total()));
        }
    }
}

use shop::{Item, Stock, Total};

fn main() {
    let count = 1000 * i32::try_from(std::env::args().count()).unwrap();
    let mut stock = Stock { items: vec![] };
    let mut by_name: BTreeMap<String, Vec<Item>> = BTreeMap::new();
    let mut seen = HashMap::new();
    for at in 0..count {
        let item = Item {
            name: format!("item{}", at % 97),
            price: f64::from(at) * 0.5,
            count: at % 7,
        };
        by_name.entry(item.name.clone()).or_default().push(item.clone());
        *seen.entry(at % 13).or_insert(0) += 1;
        stock.add(item);
    }
    stock.sort();
    let names: Vec<String> = by_name.keys().cloned().collect();
    println!("{} {} {}", stock.total(), names.join(",").len(), seen.len());
    let first: Box<dyn Total> = Box::new(stock.items[0].clone());
    println!("{}", first.total());
}
