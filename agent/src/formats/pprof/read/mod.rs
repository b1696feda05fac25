//! Reads pprof files that the agent wrote and, where a person names them, those of other tools.
//!
//! What the format has no field for follows from how the agent writes: native and kernel frames have an
//! address, all others are Python frames or markers; the kernel, its modules and JIT code have mappings
//! with special names; labels, processes and losses are comments.
//!
//! Files of other tools may lack much of that: frames without address or mapping are taken for functions of an
//! interpreter, with file and line.
//!
//! Invariants: the bytes are untrusted; memory is bounded, and so are numbers: the sums of all samples
//! of a file fit into 63 bits.

mod comments;
mod error;
mod model;
mod outline;
mod types;
mod unpacked;

pub use self::{
    error::PprofReadError,
    unpacked::{PprofFile, PprofHeader, PprofProfile},
};
