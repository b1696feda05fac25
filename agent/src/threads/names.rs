//! The names of threads: the kernel's, and that of a `threading.Thread`.

use agent_common::{
    record::{Header, PythonUnwindStatus, RecordKind, Text, ThreadName},
    scratch::Scratch,
    visit::{ThreadDetails, ThreadVisit},
};
use zerocopy::IntoBytes as _;

use super::{process::VisitedProcess, walker::Walked};
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

/// The record of the name of a thread.
pub(super) fn record(
    visit: &ThreadVisit,
    details: &ThreadDetails,
    walked: &Walked,
    process: &VisitedProcess,
    scratch: &mut Scratch,
) -> Vec<u8> {
    let mut characters = Vec::new();
    let mut text = Text::default();
    let is_complete = walked.python_status == PythonUnwindStatus::COMPLETE;
    if is_complete
        && let Some(interpreter) = &process.interpreter
        && let Ok(Some((found, read))) =
            thread_name_text(&process.memory, scratch, &interpreter.layout, walked.root)
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
        tgid: visit.tgid,
        tid: visit.tid,
        root: walked.root_symbol,
        comm: details.comm,
        python: text,
        is_complete: u32::from(is_complete),
    };
    let mut record = Vec::with_capacity(bytes);
    record.extend_from_slice(head.as_bytes());
    record.extend_from_slice(&characters);
    record
}
