//! What travels through the ring buffer, in the byte order of the machine.
//!
//! A stack and a code object travel once and are named by their hash afterwards. Numbers that
//! stand for a case are newtypes with constants: an unknown value survives the wire.

mod code_object;
mod exception;
mod header;
mod lock_name;
mod lock_release;
mod memory;
mod native_stack;
mod page;
mod process_event;
mod profile_kind;
mod request;
mod sample;
mod stack;
mod task_name;
mod text;
mod thread_name;
mod traced_wait;
mod unfinished_stack;
mod unwind_status;
mod wait;

pub use code_object::{CodeObjectHead, LineTableFormat};
pub use exception::{EXCEPTION_NAME_BYTES, ExceptionName, Raise};
pub use header::{Header, RecordKind};
pub use lock_name::LockName;
pub use lock_release::LockRelease;
pub use memory::MemoryType;
pub use native_stack::{NativeFrame, NativeKind, NativeStackHead};
pub use page::{GonePage, IS_HUGE, MovedMemory, NewPage, pages_of_huge};
pub use process_event::{ProcessEvent, ProcessEventKind};
pub use profile_kind::ProfileKind;
pub use request::{AbsentPage, WantedTable};
pub use sample::Sample;
pub use stack::{Frame, FrameKind, StackHead};
pub use task_name::{MAX_TASK_NAME_BYTES, TASK_NAME_BYTES, TaskName};
pub use text::Text;
pub use thread_name::ThreadName;
pub use traced_wait::{EndedWait, StartedWait};
pub use unfinished_stack::{StackPage, UnfinishedStack};
pub use unwind_status::{NativeUnwindStatus, PythonUnwindStatus};
pub use wait::WaitReason;
