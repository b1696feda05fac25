//! Layouts from the debugging information of an interpreter, for builds without a table.
//!
//! Invariants: the result is a layout only when every field was found and is within the limits of
//! the BPF programs; what debugging information does not contain (meaning of bits, styles) is taken
//! from the table that the layout is based on.

mod error;
mod layout;
#[cfg(feature = "testing")]
mod members;
mod structures;

pub use error::Error;
pub use layout::layout;
#[cfg(feature = "testing")]
pub use members::offsets;
