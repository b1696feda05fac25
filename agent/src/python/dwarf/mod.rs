//! Layouts from the debugging information of an interpreter: for builds that no table knows.
//!
//! Invariant: a layout comes out only when every field was found and lies where the kernel half
//! can read it; what debugging information does not tell (what bits mean, which style is used)
//! is that of the table that it is based on.

mod error;
mod layout;
mod structures;

pub use error::Error;
pub use layout::layout;
