//! The walk of a thread's native frames, and what it looks up on the way.

mod arch;
mod driver;
mod frame;
mod location;
mod mapping_search;
mod registers;
mod stack;
mod system_call;
mod walk;

pub use arch::{Arch, PROGRAM_COUNTER, REGISTER_COUNT};
pub use driver::{NativeOutcome, UnwindNative};
pub use frame::NativeStep;
pub use location::{CodeLocation, CodeLookup};
pub use mapping_search::{MappingSearch, Mappings};
pub use registers::Registers;
pub use stack::{MAX_ENTRIES, NativeStack};
pub use system_call::{MREMAP, SystemCall};
pub use walk::{NativePosition, NativeWalk, PythonFrames};
