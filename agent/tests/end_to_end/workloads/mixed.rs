//! Threads that sort, hash, allocate and call through traits and closures.

use std::{
    collections::{BTreeMap, HashMap},
    thread,
};

fn work(seed: u64) {
    let mut state = seed;
    loop {
        let mut numbers: Vec<String> = (0..500)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                format!("{:x}", state >> 40)
            })
            .collect();
        numbers.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        let counts: HashMap<&str, usize> =
            numbers.iter().enumerate().map(|(n, name)| (name.as_str(), n)).collect();
        let sorted: BTreeMap<_, _> = counts.iter().collect();
        std::hint::black_box(sorted.len());
    }
}

fn main() {
    thread::spawn(|| work(1));
    println!("ready");
    work(2);
}
