//! The bytes of a record → a typed record.
//!
//! No I/O, no state. Every length is checked: the BPF programs are trusted, but not to be of the same
//! build.

use std::boxed::Box;

use crate::{
    limits::LEAF_FRAMES,
    record::{
        CodeObjectHead, Frame, Header, LockName, NativeFrame, NativeStackHead, RecordKind,
        StackHead, StackPage, Text, ThreadName, UnfinishedStack,
    },
};
use zerocopy::FromBytes;

use crate::decoded::{CodeRecord, Gap, LockRecord, NativeStack, Record, Stack, ThreadRecord};

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
        RecordKind::SAMPLE => head(bytes, short).map(Record::Sample),
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
        RecordKind::LOCK_NAME => {
            let (head, rest) = LockName::read_from_prefix(bytes).map_err(|_| short)?;
            let (name, _) = take(rest, head.name).ok_or(length)?;
            Ok(Record::LockName(LockRecord { head, name }))
        }
        RecordKind::LOCK_RELEASE => head(bytes, short).map(Record::LockRelease),
        RecordKind::EXCEPTION_NAME => head(bytes, short).map(Record::ExceptionName),
        RecordKind::RAISE => head(bytes, short).map(Record::Raise),
        RecordKind::TASK_NAME => head(bytes, short).map(Record::TaskName),
        RecordKind::STARTED_WAIT => {
            let started = head(bytes, short)?;
            Ok(Record::StartedWait(Box::new(started)))
        }
        RecordKind::ENDED_WAIT => head(bytes, short).map(Record::EndedWait),
        RecordKind::NEW_PAGE => head(bytes, short).map(Record::NewPage),
        RecordKind::GONE_PAGE => head(bytes, short).map(Record::GonePage),
        RecordKind::MOVED_MEMORY => head(bytes, short).map(Record::MovedMemory),
        RecordKind::PROCESS_EVENT => head(bytes, short).map(Record::ProcessEvent),
        RecordKind::ABSENT_PAGE => head(bytes, short).map(Record::AbsentPage),
        RecordKind::NATIVE_STACK => {
            let (head, frames) = NativeStackHead::read_from_prefix(bytes).map_err(|_| short)?;
            Ok(Record::NativeStack(
                native_stack(&head, frames).ok_or(length)?,
            ))
        }
        RecordKind::STACK_PAGE => StackPage::ref_from_prefix(bytes)
            .map(|(page, _)| Record::StackPage(page))
            .map_err(|_| short),
        RecordKind::UNFINISHED_STACK => UnfinishedStack::ref_from_prefix(bytes)
            .map(|(stack, _)| Record::UnfinishedStack(stack))
            .map_err(|_| short),
        RecordKind::WANTED_TABLE => head(bytes, short).map(Record::WantedTable),
        RecordKind(kind) => Err(Malformed::Kind(kind)),
    }
}

/// A record that is its head alone.
fn head<T: FromBytes>(bytes: &[u8], short: Malformed) -> Result<T, Malformed> {
    let (head, _) = T::read_from_prefix(bytes).map_err(|_| short)?;
    Ok(head)
}

fn code_object(
    bytes: &[u8],
    short: Malformed,
    length: Malformed,
) -> Result<CodeRecord<'_>, Malformed> {
    let (head, rest) = CodeObjectHead::read_from_prefix(bytes).map_err(|_| short)?;
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
    Some(Stack {
        hash: head.stack,
        frames: [leaf, older, newer].concat(),
        gap: (head.left_out != 0).then_some(Gap {
            after: leaf.len(),
            frames: head.left_out,
        }),
    })
}

fn native_stack(head: &NativeStackHead, bytes: &[u8]) -> Option<NativeStack> {
    let count = usize::try_from(head.frame_count).ok()?;
    let (frames, _) = <[NativeFrame]>::ref_from_prefix_with_elems(bytes, count).ok()?;
    Some(NativeStack {
        hash: head.stack,
        frames: frames.to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use std::{vec, vec::Vec};

    use crate::{
        limits::{LEAF_FRAMES, MAX_FRAMES, ROOT_FRAMES},
        record::{FrameKind, NativeKind, RecordKind, Text},
    };
    use proptest::prelude::*;

    use super::{Malformed, decode};
    use crate::decoded::{Gap, Record};

    /// A record of a kind, with its head.
    fn record(kind: RecordKind, rest: &[u8]) -> Vec<u8> {
        let mut bytes = kind.0.to_ne_bytes().to_vec();
        bytes.extend([0; 2]);
        bytes.extend(u32::try_from(rest.len() + 8).unwrap().to_ne_bytes());
        bytes.extend(rest);
        bytes
    }

    /// A stack of frames whose symbols count up from the leaf.
    fn stack(frames: usize, root_start: usize, left_out: u32) -> Vec<u8> {
        let mut rest = 7_u64.to_ne_bytes().to_vec();
        for number in [frames, root_start] {
            rest.extend(u16::try_from(number).unwrap().to_ne_bytes());
        }
        rest.extend(left_out.to_ne_bytes());
        for symbol in 0..frames as u64 {
            rest.extend(symbol.to_ne_bytes());
            rest.extend(4_u32.to_ne_bytes());
            let kind = if symbol == 1 {
                FrameKind::HIDDEN
            } else {
                FrameKind::PYTHON
            };
            rest.extend(kind.0.to_ne_bytes());
        }
        record(RecordKind::STACK, &rest)
    }

    fn symbols(bytes: &[u8]) -> (Vec<u64>, Option<Gap>) {
        match decode(bytes) {
            Ok(Record::Stack(stack)) => {
                let symbols = stack.frames.iter().map(|frame| frame.symbol).collect();
                (symbols, stack.gap)
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn frames_stand_leaf_first() {
        assert_eq!(symbols(&stack(4, 0, 0)), (vec![0, 1, 2, 3], None));
    }

    #[test]
    fn the_ring_of_root_frames_is_unrolled() {
        let (symbols, gap) = symbols(&stack(MAX_FRAMES, 3, 7));
        let leaf = LEAF_FRAMES as u64;
        let after = LEAF_FRAMES;
        assert_eq!(gap, Some(Gap { after, frames: 7 }));
        assert_eq!(symbols[LEAF_FRAMES], leaf + 3);
        assert_eq!(symbols[LEAF_FRAMES + ROOT_FRAMES - 4], leaf + 255);
        assert_eq!(symbols[LEAF_FRAMES + ROOT_FRAMES - 3], leaf);
        assert_eq!(symbols.last(), Some(&(leaf + 2)));
    }

    #[test]
    fn a_native_stack_is_as_it_was_sent() {
        let mut rest = 9_u64.to_ne_bytes().to_vec();
        rest.extend([2, 0, 0, 0, 0, 0, 0, 0]);
        for (address, of, kind) in [
            (0x1234_u64, 7_u32, NativeKind::FILE),
            (0, 3, NativeKind::PYTHON),
        ] {
            rest.extend(address.to_ne_bytes());
            rest.extend(of.to_ne_bytes());
            rest.extend(kind.0.to_ne_bytes());
        }
        let mut bytes = record(RecordKind::NATIVE_STACK, &rest);
        let Ok(Record::NativeStack(stack)) = decode(&bytes) else {
            panic!("{:?}", decode(&bytes));
        };
        assert_eq!(stack.hash, 9);
        let [code, python] = stack.frames[..] else {
            panic!("{stack:?}");
        };
        assert_eq!(
            (code.address, code.id_or_count, code.kind),
            (0x1234, 7, NativeKind::FILE)
        );
        assert_eq!((python.id_or_count, python.kind), (3, NativeKind::PYTHON));
        bytes[16] = 3;
        assert_eq!(decode(&bytes), Err(Malformed::Length { kind: 8 }));
    }

    #[test]
    fn a_code_object_has_its_texts_and_its_table() {
        let mut rest = 9_u64.to_ne_bytes().to_vec();
        for number in [12_u32, 6, 0] {
            rest.extend(number.to_ne_bytes());
        }
        for (kind, bytes) in [(1_u8, 3_u16), (2, 10)] {
            rest.extend([kind, 0]);
            rest.extend(bytes.to_ne_bytes());
        }
        rest.extend([3, 0, 0, 0]);
        rest.extend(b"abc\0\0\0\0\0");
        rest.extend(b"0123456789\0\0\0\0\0\0");
        rest.extend([1, 2, 3, 4, 5, 6]);
        let bytes = record(RecordKind::CODE_OBJECT, &rest);
        let Ok(Record::CodeObject(code)) = decode(&bytes) else {
            panic!("{:?}", decode(&bytes));
        };
        assert_eq!(code.head.first_line, 12);
        assert_eq!(code.name, b"abc");
        assert_eq!(code.file, b"0123456789");
        assert_eq!(code.line_table, [1, 2, 3, 4, 5, 6]);
        for bytes in [&bytes[..bytes.len() - 1], &bytes[..40]] {
            assert!(decode(bytes).is_err());
        }
    }

    #[test]
    fn a_lock_has_its_name() {
        let mut rest = 9_u64.to_ne_bytes().to_vec();
        rest.extend([Text::BYTES, 0, 3, 0, 0, 0, 0, 0]);
        rest.extend(b"abc\0\0\0\0\0");
        let bytes = record(RecordKind::LOCK_NAME, &rest);
        let Ok(Record::LockName(lock)) = decode(&bytes) else {
            panic!("{:?}", decode(&bytes));
        };
        assert_eq!((lock.head.lock, lock.name), (9, &b"abc"[..]));
        let cut = record(RecordKind::LOCK_NAME, &rest[..rest.len() - 8]);
        assert_eq!(decode(&cut), Err(Malformed::Length { kind: 10 }));
    }

    #[test]
    fn what_is_no_record_says_why() {
        assert_eq!(decode(&[1, 0]), Err(Malformed::Short(2)));
        let unknown = record(RecordKind(77), &[]);
        assert_eq!(decode(&unknown), Err(Malformed::Kind(77)));
        let short = record(RecordKind::SAMPLE, &[0; 47]);
        assert_eq!(decode(&short), Err(Malformed::Short(55)));
        let mut long = stack(2, 0, 0);
        long[16] = 3;
        assert_eq!(decode(&long), Err(Malformed::Length { kind: 2 }));
    }

    proptest! {
        #[test]
        fn any_bytes_are_decoded_or_refused(
            kind in 0_u16..23,
            rest in prop_oneof![
                proptest::collection::vec(any::<u8>(), 0..300),
                proptest::collection::vec(any::<u8>(), 4000..5000),
            ],
            cut in 0_usize..64,
        ) {
            let bytes = record(RecordKind(kind), &rest);
            let _ = decode(&bytes);
            let _ = decode(&bytes[..bytes.len() - cut.min(bytes.len())]);
        }
    }
}
