//! Files that the agent wrote, read again.
//!
//! What the format has no place for is told by what the encoder does: code has an address, and all
//! else is Python or stands for what is missing; the kernel, its modules and code made at run time
//! lie in mappings with names of their own; labels, processes and losses are comments.
//!
//! Invariants: the bytes are untrusted, whoever wrote them; what they take of memory is bounded, and
//! so are all numbers: the CPU time of all samples of a file has a place in 63 bits of nanoseconds.

mod comments;
mod error;
mod model;
mod outline;
mod unpacked;

pub use self::{
    error::PprofReadError,
    unpacked::{PprofFile, PprofHeader},
};
