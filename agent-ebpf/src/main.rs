//! The kernel half: takes a sample of the thread that the clock interrupted.
//!
//! One program, [`triggers::clock::on_cpu`], runs the steps of a sample one after the other:
//!
//! ```text
//! whose tick? ─► find_thread ─► walk_frames ─► describe ─► settle ─► name ─► sample
//! ```
//!
//! Each step is a function of its own to the verifier too (a *global* function), which it
//! verifies once, however often the program calls it: that is what lets loops be long on every
//! kernel. Such functions take and give only numbers; what one leaves for the next is in the
//! per-processor [`values::Sampler`].
//!
//! Invariants: a sample ends with exactly one record, whatever happened on the way; what could
//! not be sent is counted.
#![no_std]
#![no_main]
#![allow(
    clippy::inline_always,
    reason = "a call costs registers and stack, and hides bounds from the verifier"
)]
#![allow(
    clippy::cast_possible_truncation,
    reason = "bounds are constants or masks; a checked conversion is one more branch to verify"
)]

mod code_locations;
mod code_objects;
mod current;
mod emit;
mod log;
mod maps;
mod memory;
mod registers;
mod sample;
mod steps;
mod task;
mod triggers;
mod values;

#[cfg(not(test))]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

/// The helpers that this program uses are only given to GPL-compatible programs.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
