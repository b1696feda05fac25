//! Some lines of a source file of a process.
//!
//! Invariants: a file is opened in the root directory of the process, and read only if its permissions let the user of
//! the process do so; what is read of it, and what is kept of a line,
//! is bounded.

use std::{
    collections::{BTreeSet, HashMap},
    path::Path,
};

use memchr::memchr2;

use super::source_root::SourceRoot;

/// Most bytes of a file that are read: lines after them are not found.
const MAX_BYTES: u64 = 4 << 20;

/// Most bytes of a line; an ellipsis stands for the others.
const MAX_LINE_BYTES: usize = 1000;

/// Byte order mark that a text in UTF-8 may start with.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// What is wanted of a file.
pub(super) struct SourceFile {
    /// Lines by their number, without those that are blank.
    lines: HashMap<u32, String>,
    may_have_changed: bool,
}

impl SourceFile {
    /// Reads the lines with these numbers, counted from 1; what is read is taken off `budget_bytes`.
    pub(super) fn read(
        root: &dyn SourceRoot,
        path: &str,
        numbers: &BTreeSet<u32>,
        budget_bytes: &mut u64,
    ) -> Option<Self> {
        // `<string>`, `<frozen runpy>` and so on are no files.
        if path.starts_with('<') {
            return None;
        }
        let file = root.open(Path::new(path))?;
        if !root.may_read(&file) {
            return None;
        }
        // Files of the kernel say so too, and some of them block, or are consumed by being read.
        if file.bytes().ok()? == 0 {
            return None;
        }
        let limit = MAX_BYTES.min(*budget_bytes);
        let contents = file.contents(limit).ok()?;
        *budget_bytes -= contents.len() as u64;
        let is_whole = (contents.len() as u64) < limit;
        Some(Self {
            lines: lines(&contents, is_whole, numbers),
            may_have_changed: root.has_changed(&file),
        })
    }

    /// A line without the blanks around it, which may be shortened.
    pub(super) fn line(&self, number: u32) -> Option<&str> {
        self.lines.get(&number).map(String::as_str)
    }

    /// Whether it may be another one than when the process was started.
    pub(super) fn may_have_changed(&self) -> bool {
        self.may_have_changed
    }
}

/// The lines with these numbers that are not blank; a last one without its end counts if the text is whole.
fn lines(text: &[u8], is_whole: bool, numbers: &BTreeSet<u32>) -> HashMap<u32, String> {
    let mut found = HashMap::new();
    let mut rest = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    for number in 1..=numbers.last().copied().unwrap_or(0) {
        let line = match split_line(rest) {
            Some((line, following)) => {
                rest = following;
                line
            }
            None if is_whole => std::mem::take(&mut rest),
            None => break,
        };
        if numbers.contains(&number)
            && let Some(line) = trimmed(line)
        {
            found.insert(number, line);
        }
        if rest.is_empty() {
            break;
        }
    }
    found
}

/// The first line without its end, and what follows; like Python, after any of `\n`, `\r\n`, `\r`.
fn split_line(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = memchr2(b'\n', b'\r', text)?;
    let (line, rest) = text.split_at(end);
    let rest = rest.strip_prefix(b"\r\n").unwrap_or(&rest[1..]);
    Some((line, rest))
}

/// A line without the blanks around it, shortened to [`MAX_LINE_BYTES`].
fn trimmed(line: &[u8]) -> Option<String> {
    let line = line.trim_ascii();
    let text = match line.get(..MAX_LINE_BYTES) {
        Some(head) if head.len() < line.len() => {
            let head = String::from_utf8_lossy(head);
            // A character that was cut.
            let head = head.trim_end_matches(char::REPLACEMENT_CHARACTER);
            format!("{head}…")
        }
        _ => String::from_utf8_lossy(line).trim().to_owned(),
    };
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;
    use crate::process::Process;

    fn found(text: &[u8], is_whole: bool) -> Vec<(u32, String)> {
        let numbers = (0..6).collect();
        let mut found: Vec<_> = lines(text, is_whole, &numbers).into_iter().collect();
        found.sort();
        found
    }

    fn line(number: u32, text: &str) -> (u32, String) {
        (number, text.to_owned())
    }

    #[test]
    fn lines_are_counted_as_python_counts_them() {
        let text = b"\xef\xbb\xbfimport os\r\n\r\n  x = 1\t \rreturn\n\xe9";
        let expected = [
            line(1, "import os"),
            line(3, "x = 1"),
            line(4, "return"),
            line(5, "\u{fffd}"),
        ];
        assert_eq!(found(text, true), expected);
        assert_eq!(found(text, false), expected[..3]);
        assert_eq!(found(b"", true), []);
        assert_eq!(found(b"\n", false), []);
    }

    #[test]
    fn a_long_line_is_shortened_between_characters() {
        let whole = "é".repeat(MAX_LINE_BYTES / 2);
        let long = format!("_{whole}\n  {whole}  \n");
        let shortened = format!("_{}…", "é".repeat(MAX_LINE_BYTES / 2 - 1));
        let expected = [line(1, &shortened), line(2, &whole)];
        assert_eq!(found(long.as_bytes(), true), expected);
    }

    #[test]
    fn what_is_read_of_files_is_bounded() {
        let process = Process::open(std::process::id()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("app.py");
        let file = fs::File::create(&path).unwrap();
        // Holes take no space on the disk.
        file.set_len(1 << 40).unwrap();
        let mut budget = MAX_BYTES + 10;
        let read = |path: &Path, budget: &mut u64| {
            SourceFile::read(&process, path.to_str().unwrap(), &[1].into(), budget)
        };
        let first = read(&path, &mut budget).unwrap();
        assert_eq!((first.line(1), budget), (None, 10));
        fs::write(&path, "12345678\n90").unwrap();
        let second = read(&path, &mut budget).unwrap();
        assert_eq!((second.line(1), budget), (Some("12345678"), 0));
        let third = read(&path, &mut budget).unwrap();
        assert_eq!((third.line(1), budget), (None, 0));
    }

    #[test]
    fn only_files_with_contents_are_read() {
        let process = Process::open(std::process::id()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe.py");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR, 0).unwrap();
        let read = |path: &str| SourceFile::read(&process, path, &[1].into(), &mut 10);
        let pipe = pipe.to_str().unwrap();
        for path in [pipe, "/dev/zero", "/proc/self/status", "/", "", "<string>"] {
            assert!(read(path).is_none(), "{path}");
        }
        // Tests run in the folder of the package.
        assert_eq!(read("Cargo.toml").unwrap().line(1), Some("[package]"));
    }
}
