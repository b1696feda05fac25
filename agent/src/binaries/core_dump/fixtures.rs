//! Core dumps that tests write.

use super::notes::STATUS_BYTES;

/// A range of memory: its address, its size, its flags (`PF_R` 4, `PF_W` 2, `PF_X` 1) and the bytes that are dumped.
pub(crate) struct Range<'a> {
    pub(crate) start: u64,
    pub(crate) bytes: u64,
    pub(crate) flags: u32,
    pub(crate) dumped: &'a [u8],
}

/// A mapped part of a file: start, end, offset in pages, path.
pub(crate) type MappedPart<'a> = (u64, u64, u64, &'a str);

const HEADER: usize = 64;
const SEGMENT: usize = 56;

/// A core dump of threads with these ids, the first of which has received this signal.
pub(crate) fn core(
    tids: &[u32],
    signal: u16,
    ranges: &[Range<'_>],
    files: &[MappedPart<'_>],
) -> Vec<u8> {
    let notes = notes(tids, signal, files);
    let mut offset = HEADER + SEGMENT * (ranges.len() + 1);
    let mut file = vec![0; HEADER];
    file[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    let machine: u16 = if cfg!(target_arch = "aarch64") {
        183
    } else {
        62
    };
    put(&mut file, 16, &4_u16.to_le_bytes());
    put(&mut file, 18, &machine.to_le_bytes());
    put(&mut file, 32, &(HEADER as u64).to_le_bytes());
    let count = u16::try_from(ranges.len() + 1).unwrap_or(0);
    put(&mut file, 54, &56_u16.to_le_bytes());
    put(&mut file, 56, &count.to_le_bytes());
    let mut segment = |kind: u32, flags: u32, start: u64, dumped: usize, bytes: u64| {
        file.extend(kind.to_le_bytes());
        file.extend(flags.to_le_bytes());
        for word in [offset as u64, start, 0, dumped as u64, bytes, 1] {
            file.extend(word.to_le_bytes());
        }
        offset += dumped;
    };
    segment(4, 0, 0, notes.len(), 0);
    for range in ranges {
        segment(1, range.flags, range.start, range.dumped.len(), range.bytes);
    }
    file.extend(notes);
    for range in ranges {
        file.extend(range.dumped);
    }
    file
}

fn notes(tids: &[u32], signal: u16, files: &[MappedPart<'_>]) -> Vec<u8> {
    let mut notes = Vec::new();
    for (nth, tid) in tids.iter().enumerate() {
        let mut status = vec![0; STATUS_BYTES];
        put(&mut status, 12, &signal.to_le_bytes());
        put(&mut status, 32, &tid.to_le_bytes());
        note(&mut notes, 1, &status);
        if nth > 0 {
            continue;
        }
        let mut info = vec![0; 136];
        put(&mut info, 24, &tid.to_le_bytes());
        put(&mut info, 40, b"python3");
        put(&mut info, 56, b"python3 app.py ");
        note(&mut notes, 3, &info);
        let mut about_signal = vec![0; 128];
        put(&mut about_signal, 0, &u32::from(signal).to_le_bytes());
        put(&mut about_signal, 8, &1_u32.to_le_bytes());
        put(&mut about_signal, 16, &0x18_u64.to_le_bytes());
        note(&mut notes, 0x5349_4749, &about_signal);
        let executable = files.first().map_or(0, |first| first.0);
        let words = [[3, executable], [0, 0]];
        let auxiliary = words.as_flattened().iter();
        let auxiliary: Vec<u8> = auxiliary.flat_map(|word| word.to_le_bytes()).collect();
        note(&mut notes, 6, &auxiliary);
        let mut list = Vec::new();
        for word in [files.len() as u64, 4096] {
            list.extend(word.to_le_bytes());
        }
        for (start, end, offset, _) in files {
            for word in [start, end, offset] {
                list.extend(word.to_le_bytes());
            }
        }
        for (.., path) in files {
            list.extend(path.as_bytes());
            list.push(0);
        }
        note(&mut notes, 0x4649_4c45, &list);
    }
    notes
}

fn note(notes: &mut Vec<u8>, kind: u32, content: &[u8]) {
    let bytes = u32::try_from(content.len()).unwrap_or(0);
    for word in [5, bytes, kind] {
        notes.extend(word.to_le_bytes());
    }
    notes.extend(b"CORE\0\0\0\0");
    notes.extend(content);
    notes.resize(notes.len().next_multiple_of(4), 0);
}

fn put(into: &mut [u8], at: usize, bytes: &[u8]) {
    into[at..at + bytes.len()].copy_from_slice(bytes);
}
