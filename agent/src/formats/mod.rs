//! Encodes profiles and reads them again: one module per format.
//!
//! Invariants: the same profile gives the same bytes; no name makes a file malformed; nothing here does
//! I/O of its own.

mod encode;
mod folded;
mod format;
mod frame_text;
#[cfg(test)]
mod golden;
pub mod losses;
mod options;
mod pprof;
mod svg;

#[cfg(feature = "testing")]
pub use self::pprof::schema as pprof_schema;
pub use self::{
    encode::{EncodeError, encode},
    format::Format,
    options::EncodeOptions,
    pprof::{PprofFile, PprofHeader, PprofReadError},
};
