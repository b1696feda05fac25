//! A profile as the bytes of a file: one module per format.
//!
//! Invariants: the same profile gives the same bytes; whatever stands in a name, the file stays
//! well-formed; nothing is opened, read or sent here.

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
    encode::encode,
    format::Format,
    options::EncodeOptions,
    pprof::{PprofFile, PprofHeader, PprofReadError},
};
