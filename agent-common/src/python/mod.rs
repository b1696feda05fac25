//! The bounded reading of a CPython process.

mod attribute;
mod code_object;
mod data_stack;
mod runs;
mod text;
mod thread_state;
mod walk;

pub use attribute::{Attributes, MAX_ATTRIBUTES, Name};
pub use code_object::{DESCRIPTION_BYTES, Description, read_head};
pub use runs::{Run, Runs};
pub use text::locate_text;
pub use thread_state::{Search, SearchStep, gil_holder, is_attached, prove};
pub use walk::{CodeObjects, Shape, Symbol, Walk, WalkStep};
