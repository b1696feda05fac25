//! The names of threads: the kernel's, and that of a `threading.Thread`.

use agent_common::{
    layout::Layout,
    memory::UserMemory,
    record::{Header, PythonUnwindStatus, RecordKind, Text, ThreadName},
    scratch::Scratch,
};
use zerocopy::IntoBytes as _;

use super::walker::Walked;
use crate::python::remote::thread_name_text;

/// Time after which a name is read again, in nanoseconds.
const AGAIN_NS: u64 = 10_000_000_000;

/// The same of a thread that has Python, but not the whole stack: it may be about to begin.
const SOON_NS: u64 = 500_000_000;

/// When a name is to be read again that was read now with a stack of this status.
pub(super) fn due_ns(status: PythonUnwindStatus, now_ns: u64) -> u64 {
    let is_certain = matches!(
        status,
        PythonUnwindStatus::COMPLETE | PythonUnwindStatus::NO_PYTHON
    );
    now_ns + if is_certain { AGAIN_NS } else { SOON_NS }
}

/// A thread whose name is read.
pub(super) struct NamedThread {
    pub(super) tgid: u32,
    pub(super) tid: u32,
    /// The kernel's name of it.
    pub(super) comm: [u8; 16],
}

/// The record of the name of a thread with this stack, of Python code with this layout.
pub(super) fn record<M: UserMemory>(
    thread: &NamedThread,
    walked: &Walked,
    memory: &M,
    layout: Option<&Layout>,
    scratch: &mut Scratch,
) -> Vec<u8> {
    let mut characters = Vec::new();
    let mut text = Text::default();
    let is_complete = walked.python_status == PythonUnwindStatus::COMPLETE;
    if is_complete
        && let Some(layout) = layout
        && let Ok(Some((found, read))) = thread_name_text(memory, scratch, layout, walked.root)
    {
        text = found;
        characters = read;
    }
    characters.resize(text.words() * size_of::<u64>(), 0);
    let bytes = size_of::<ThreadName>() + characters.len();
    let head = ThreadName {
        header: Header {
            kind: RecordKind::THREAD_NAME,
            reserved: 0,
            bytes: u32::try_from(bytes).unwrap_or(0),
        },
        tgid: thread.tgid,
        tid: thread.tid,
        root: walked.root_symbol,
        comm: thread.comm,
        python: text,
        is_complete: u32::from(is_complete),
    };
    let mut record = Vec::with_capacity(bytes);
    record.extend_from_slice(head.as_bytes());
    record.extend_from_slice(&characters);
    record
}
