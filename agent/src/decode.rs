//! The bytes of a record → a typed record.
//!
//! No I/O, no state. The kernel half is trusted to mean well and not to be of the same build:
//! every length is checked.

use agent_common::{
    limits::LEAF_FRAMES,
    record::{
        CodeObject, Frame, FrameKind, Header, RecordKind, Sample, StackHead, Text, ThreadName,
    },
};
use zerocopy::FromBytes as _;

use crate::record::{CodeRecord, Record, Stack, ThreadRecord};

/// Why some bytes are not a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// Fewer bytes than the head of the record.
    #[error("a record of {0} bytes is shorter than its head")]
    Short(usize),
    /// A kind that is not known.
    #[error("a record is of the unknown kind {0}")]
    Kind(u16),
    /// A length that points past the end of the record.
    #[error("a part of a record of kind {kind} goes past its end")]
    Length {
        /// The kind of record.
        kind: u16,
    },
}

/// Reads one record.
///
/// # Errors
///
/// [`Malformed`] says what is wrong with the bytes.
pub fn decode(bytes: &[u8]) -> Result<Record<'_>, Malformed> {
    let short = Malformed::Short(bytes.len());
    let (header, _) = Header::read_from_prefix(bytes).map_err(|_| short)?;
    let length = Malformed::Length {
        kind: header.kind.0,
    };
    // The ring buffer rounds nothing up: a record is as long as it says.
    let bytes = bytes.get(..header.bytes as usize).ok_or(length)?;
    match header.kind {
        RecordKind::SAMPLE => {
            let (sample, _) = Sample::read_from_prefix(bytes).map_err(|_| short)?;
            Ok(Record::Sample(sample))
        }
        RecordKind::STACK => {
            let (head, frames) = StackHead::read_from_prefix(bytes).map_err(|_| short)?;
            Ok(Record::Stack(stack(&head, frames).ok_or(length)?))
        }
        RecordKind::CODE_OBJECT => Ok(Record::CodeObject(code_object(bytes, short, length)?)),
        RecordKind::LINE_TABLE_PIECE => {
            Ok(Record::LineTablePiece(code_object(bytes, short, length)?))
        }
        RecordKind::THREAD_NAME => {
            let (head, rest) = ThreadName::read_from_prefix(bytes).map_err(|_| short)?;
            let (python, _) = take(rest, head.python).ok_or(length)?;
            Ok(Record::ThreadName(ThreadRecord { head, python }))
        }
        RecordKind(kind) => Err(Malformed::Kind(kind)),
    }
}

fn code_object(
    bytes: &[u8],
    short: Malformed,
    length: Malformed,
) -> Result<CodeRecord<'_>, Malformed> {
    let (head, rest) = CodeObject::read_from_prefix(bytes).map_err(|_| short)?;
    let (name, rest) = take(rest, head.name).ok_or(length)?;
    let (file, line_table) = take(rest, head.file).ok_or(length)?;
    Ok(CodeRecord {
        head,
        name,
        file,
        line_table,
    })
}

/// The characters of a text, and what comes after it and its padding.
fn take(bytes: &[u8], text: Text) -> Option<(&[u8], &[u8])> {
    let (padded, rest) = bytes.split_at_checked(text.words() * 8)?;
    Some((padded.get(..usize::from(text.bytes))?, rest))
}

fn stack(head: &StackHead, bytes: &[u8]) -> Option<Stack> {
    let count = usize::from(head.frame_count);
    let (frames, _) = <[Frame]>::ref_from_prefix_with_elems(bytes, count).ok()?;
    let (leaf, root) = frames.split_at(count.min(LEAF_FRAMES));
    let (newer, older) = root.split_at_checked(usize::from(head.root_start))?;
    let visible = |frame: &&Frame| frame.kind != FrameKind::HIDDEN;
    let mut in_order: Vec<Frame> = leaf.iter().filter(visible).copied().collect();
    let gap = (head.truncated != 0).then_some(in_order.len());
    in_order.extend(older.iter().chain(newer).filter(visible));
    Some(Stack {
        hash: head.stack,
        frames: in_order,
        gap,
    })
}
