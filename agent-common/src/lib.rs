//! What the BPF programs and the agent share.
//!
//! * [`record`]: what travels through the ring buffer; with the feature `user` `decode`, its bytes →
//!   typed records;
//! * [`maps`]: keys and values of the maps that both use;
//! * [`layout`]: where the fields of an interpreter's structures and of the kernel's are;
//! * [`unwind`]: rules that find the caller of a native frame, and tables of them;
//! * [`visit`]: what passes record of threads;
//! * [`kernel_function`]: functions of the kernel that the programs call;
//! * [`thinning`]: which of many events are taken;
//! * [`limits`]: every bound that both rely on;
//! * [`python`] and [`native`]: the bounded walks of a thread's frames, generic over
//!   [`memory::UserMemory`], so that the very code the kernel runs is tested on the host.
//!
//! Invariants: no allocation, no panic, no unbounded loop; nothing read from a process is
//! trusted; nothing here depends on a CPython version, only offsets and capabilities.
#![no_std]
#![allow(
    clippy::inline_always,
    reason = "a call costs a BPF program registers and stack, and hides bounds from the verifier"
)]
#![allow(
    clippy::cast_possible_truncation,
    reason = "bounds are constants or masks; a checked conversion is one more branch to verify"
)]

#[cfg(any(test, feature = "user"))]
extern crate std;

pub mod cache_age;
pub mod counter;
#[cfg(feature = "user")]
pub mod decode;
#[cfg(feature = "user")]
pub mod decoded;
pub mod growth;
pub mod hash;
pub mod kernel_function;
pub mod layout;
pub mod limits;
pub mod maps;
pub mod memory;
pub mod native;
pub mod probe_argument;
pub mod python;
pub mod record;
pub mod sample_clock;
pub mod scratch;
pub mod stack_budget;
pub mod thinning;
pub mod unwind;
pub mod visit;
pub mod volatile;
