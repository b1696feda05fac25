//! What only Rust does to stacks: panics that unwind, closures, iterators, its own threads.

use std::{
    arch::asm,
    cell::RefCell,
    collections::{BTreeMap, HashMap},
    hint::black_box,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind, set_hook},
    sync::{Arc, Barrier, mpsc},
    thread,
};

/// A debugger takes this for a breakpoint of its own, so that no symbols are needed.
#[inline(always)]
fn stop() {
    // SAFETY: there is a debugger.
    unsafe { asm!("int3") }
}

#[inline(never)]
fn leaf(value: u64) -> u64 {
    stop();
    black_box(value)
}

struct Guard(u64);

impl Drop for Guard {
    fn drop(&mut self) {
        leaf(self.0);
    }
}

thread_local! {
    static OF_THREAD: RefCell<Option<Guard>> = const { RefCell::new(None) };
}

#[inline(never)]
fn recurse(depth: u64) -> u64 {
    let frame = black_box([depth; 20]);
    if depth == 0 {
        leaf(depth)
    } else {
        recurse(depth - 1) + frame[3]
    }
}

#[inline(never)]
fn panics(depth: u64) -> u64 {
    let _guard = Guard(depth);
    if depth == 0 {
        let values = black_box(vec![1_u64]);
        return values[black_box(7)];
    }
    panics(depth - 1) + 1
}

#[inline(never)]
fn with_a_large_frame(value: u8) -> u64 {
    let mut frame = black_box([value; 300_000]);
    frame[usize::from(value)] = 3;
    leaf(1) + black_box(&frame).iter().map(|byte| u64::from(*byte)).sum::<u64>()
}

#[inline(never)]
fn calls(functions: &[Box<dyn Fn(u64) -> u64>]) -> u64 {
    functions.iter().map(|function| function(2)).sum()
}

trait Shape {
    fn area(&self) -> u64;
}

impl Shape for Guard {
    fn area(&self) -> u64 {
        recurse(self.0)
    }
}

#[inline(never)]
fn sorts() -> u64 {
    let mut values: Vec<u64> = (0..200).map(|nth| nth * 7919 % 211).collect();
    let mut calls = 0;
    values.sort_by(|left, right| {
        calls += 1;
        if calls % 300 == 0 {
            stop();
        }
        left.cmp(right)
    });
    values.sort_unstable_by_key(|value| {
        calls += 1;
        if calls % 300 == 0 {
            stop();
        }
        value % 17
    });
    let counted: HashMap<String, u64> = values.iter().map(|n| (format!("{n:>5}"), *n)).collect();
    let ordered: BTreeMap<_, _> = counted.into_iter().collect();
    ordered.values().filter(|value| leaf(**value % 3) == 1).take(2).sum()
}

fn in_threads() {
    let barrier = Arc::new(Barrier::new(3));
    let (sender, receiver) = mpsc::channel();
    let threads: Vec<_> = (0..2)
        .map(|nth| {
            let (barrier, sender) = (Arc::clone(&barrier), sender.clone());
            thread::spawn(move || {
                OF_THREAD.with(|guard| *guard.borrow_mut() = Some(Guard(nth)));
                sender.send(recurse(nth)).unwrap();
                barrier.wait();
                panics(1);
            })
        })
        .collect();
    receiver.recv().unwrap();
    barrier.wait();
    for thread in threads {
        assert!(thread.join().is_err());
    }
}

fn main() {
    set_hook(Box::new(|_| {
        leaf(1);
    }));
    recurse(10);
    with_a_large_frame(2);
    let shape: Box<dyn Shape> = Box::new(Guard(3));
    black_box(shape).area();
    let step = 3;
    calls(&[Box::new(leaf), Box::new(move |value| leaf(value + step)), Box::new(recurse)]);
    sorts();
    stop();
    let payload = catch_unwind(|| panics(2)).unwrap_err();
    let _ = catch_unwind(AssertUnwindSafe(|| resume_unwind(payload)));
    in_threads();
}
