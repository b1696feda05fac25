//! The walk of a thread's native frames, and what it looks up on the way.

mod location;
mod machine;
mod mapping_search;
mod walk;

pub use location::{Code, Place};
pub use machine::{Machine, PROGRAM_COUNTER, REGISTERS};
pub use mapping_search::{MappingSearch, Mappings};
pub use walk::{MAX_ENTRIES, NativeStep, NativeWalk, Python};
