//! The bounded reading of a CPython process.

mod attribute;
mod code_cache;
mod code_object;
mod data_stack;
mod driver;
mod exception;
mod newest_state;
mod running_task;
mod runs;
mod stack;
mod symbol;
mod text;
mod thread_state;
mod thread_walk;
mod walk;
mod written;

pub use attribute::{AttributeName, Attributes, MAX_ATTRIBUTES};
pub use code_cache::{Revalidation, trusted_since};
pub use code_object::{
    CODE_OBJECT_RECORD_BYTES, CodeObjectRecord, HASH_STEPS, HASHED_WORDS, read_identity,
};
pub use driver::{FindState, PythonOutcome, UnwindPython};
pub use exception::raised_class;
pub use running_task::{read_running_task, read_task};
pub use runs::{PythonRun, PythonRuns};
pub use stack::{PythonStack, StackShape};
pub use symbol::{CodeSymbol, SymbolLookup};
pub use text::locate_text;
pub use thread_state::{
    SearchStep, ThreadStateSearch, collects_garbage, gil_holder, gil_holder_of_interpreter,
    is_attached, revalidate,
};
pub use thread_walk::{ProcessPointers, StateList, ThreadWalk, WalkPosition};
pub use walk::{PythonStep, PythonWalk, bytecode};
pub use written::written_part;
