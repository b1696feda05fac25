//! The BPF programs: they sample the threads that run, and track processes.
//!
//! A [trigger](triggers) starts a program. One that takes a sample runs its steps one after the
//! other:
//!
//! ```text
//! trigger ─► find_state ─► walk_frames ─► resolve_frames ─► walk_native_frames ─► name ─► sample
//! ```
//!
//! Each step is a *global* function, which the verifier checks once, however often a program calls
//! it: that allows long loops on every kernel. Such functions take and return only numbers; they
//! communicate through the per-processor [`values::Sampler`]. The order of the steps is that of
//! `agent_common::python::UnwindPython` and `agent_common::native::UnwindNative`.
//!
//! Invariants: a sample ends with exactly one record; records that could not be sent are counted.
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
mod kernel_functions;
mod kernel_memory;
mod log;
mod maps;
mod memory;
mod registers;
mod resident;
mod sample;
mod steps;
mod task;
mod threads;
mod triggers;
mod values;

#[cfg(not(test))]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

/// Only GPL-compatible programs may use the helpers that this one calls.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
