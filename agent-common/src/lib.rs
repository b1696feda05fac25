//! What the kernel half and the user half must agree on.
//!
//! * [`record`]: what travels through the ring buffer;
//! * [`layout`]: where the fields of an interpreter's structures are, [`kernel`]: those of the
//!   kernel's;
//! * [`unwind`]: how native frames are left, and the tables that say it;
//! * [`limits`]: every bound that both halves rely on;
//! * [`walk`], [`thread`], [`code`] and what they are made of: the bounded reading of a CPython process, generic over
//!   [`memory::UserMemory`], so that the very code the kernel runs is tested on the host.
//!
//! Invariants: no allocation, no panic, no unbounded loop; nothing read from a process is
//! trusted; nothing here knows a CPython version, only offsets and capabilities.
#![no_std]
#![allow(
    clippy::inline_always,
    reason = "a call costs the kernel half registers and stack, and hides bounds from the verifier"
)]
#![allow(
    clippy::cast_possible_truncation,
    reason = "bounds are constants or masks; a checked conversion is one more branch to verify"
)]

#[cfg(test)]
extern crate std;

pub mod attribute;
pub mod code;
pub mod counter;
pub mod data_stack;
pub mod hash;
pub mod held;
pub mod kernel;
pub mod layout;
pub mod limits;
pub mod machine;
pub mod mappings;
pub mod maps;
pub mod memory;
pub mod native;
pub mod record;
pub mod runs;
pub mod scratch;
pub mod text;
pub mod thread;
pub mod trust;
pub mod unwind;
pub mod walk;
