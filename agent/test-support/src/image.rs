//! Images: the memory that is read for the stacks of a process, with these stacks.
//!
//! A file is text, compressed with gzip (`zcat` shows it). First there are facts, one per line, a
//! name and a value separated by a space; then `stacks` and the stacks in the format of [`render`];
//! then `memory` and on each line an address and the bytes there, in hexadecimal:
//!
//! ```text
//! version 3.14.10
//! free_threaded false
//! machine x86_64
//! interpreters_head 0x9d1c80
//! gil_holder 0x0
//! stacks
//! thread 140229 -: 1 states, attached: false, end 1
//!     block    <string>    44    45
//! memory
//! 7fd1c0a4f010 00c0a4f0d17f0000
//! ```

use std::{
    cell::RefCell,
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    io::{Read as _, Write as _},
    ops::Bound,
    path::Path,
};

use agent::testing::python::{
    Version,
    remote::{Target, ThreadStack},
    versions::series_of,
};
use agent_common::{
    layout::Layout,
    memory::{Fault, UserAddr, UserMemory},
};
use flate2::{Compression, read::GzDecoder, write::GzEncoder};

use crate::scenarios::show;

/// Most bytes on a line.
const LINE_BYTES: usize = 64;

/// The facts that determine the layout of an interpreter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Its version.
    pub version: String,
    /// Whether it is a free-threaded build.
    pub is_free_threaded: bool,
    /// Its machine, as printed by `uname -m`.
    pub machine: String,
    /// Address of the pointer to the newest interpreter state.
    pub interpreters_head: u64,
    /// Address of the pointer to the thread state that holds the GIL, 0 where there is none.
    pub gil_holder: u64,
}

impl Facts {
    /// The layout of the table.
    pub fn layout(&self) -> Layout {
        let version = Version::from_literal(&self.version).unwrap();
        let series = series_of(version).unwrap();
        if self.is_free_threaded {
            series.free_threaded.unwrap()
        } else {
            series.layout
        }
    }

    /// Addresses and layout of the interpreter.
    pub fn target(&self) -> Target {
        Target {
            interpreters_head: UserAddr(self.interpreters_head),
            gil_holder: (self.gil_holder != 0).then_some(UserAddr(self.gil_holder)),
            layout: self.layout(),
        }
    }
}

/// Recorded memory.
#[derive(Debug)]
pub struct Image {
    /// The facts of the interpreter.
    pub facts: Facts,
    /// Its stacks, in the format of [`render`].
    pub stacks: String,
    /// Bytes by address; pieces neither touch nor overlap.
    pub pieces: BTreeMap<u64, Vec<u8>>,
}

impl Image {
    /// Reads the file at `path`.
    pub fn load(path: &Path) -> Self {
        let mut text = String::new();
        GzDecoder::new(fs::File::open(path).unwrap())
            .read_to_string(&mut text)
            .unwrap();
        let (head, memory) = text.split_once("memory\n").unwrap();
        let (facts, stacks) = head.split_once("stacks\n").unwrap();
        let facts: BTreeMap<_, _> = facts
            .lines()
            .map(|line| line.split_once(' ').unwrap())
            .collect();
        let address = |name| u64::from_str_radix(&facts[name][2..], 16).unwrap();
        let pieces = memory.lines().map(|line| {
            let (address, bytes) = line.split_once(' ').unwrap();
            (u64::from_str_radix(address, 16).unwrap(), from_hex(bytes))
        });
        Self {
            facts: Facts {
                version: facts["version"].to_owned(),
                is_free_threaded: facts["free_threaded"].parse().unwrap(),
                machine: facts["machine"].to_owned(),
                interpreters_head: address("interpreters_head"),
                gil_holder: address("gil_holder"),
            },
            stacks: stacks.to_owned(),
            pieces: joined(pieces),
        }
    }

    /// Writes the file at `path`.
    pub fn save(&self, path: &Path) {
        let facts = &self.facts;
        let mut text = format!(
            "version {}\nfree_threaded {}\nmachine {}\ninterpreters_head {:#x}\ngil_holder {:#x}\n\
             stacks\n{}memory\n",
            facts.version,
            facts.is_free_threaded,
            facts.machine,
            facts.interpreters_head,
            facts.gil_holder,
            self.stacks
        );
        for (start, bytes) in &self.pieces {
            for (address, bytes) in (*start..).step_by(LINE_BYTES).zip(bytes.chunks(LINE_BYTES)) {
                write!(text, "{address:x} ").unwrap();
                for byte in bytes {
                    write!(text, "{byte:02x}").unwrap();
                }
                text.push('\n');
            }
        }
        let mut file = GzEncoder::new(fs::File::create(path).unwrap(), Compression::best());
        file.write_all(text.as_bytes()).unwrap();
        file.finish().unwrap();
    }
}

impl UserMemory for Image {
    unsafe fn copy(&self, address: UserAddr, into: *mut u8, bytes: u32) -> Result<(), Fault> {
        if bytes == 0 {
            return Ok(());
        }
        let before = (Bound::Unbounded, Bound::Included(address.0));
        let (start, piece) = self.pieces.range(before).next_back().ok_or(Fault)?;
        let offset = usize::try_from(address.0 - start).map_err(|_| Fault)?;
        let end = offset.checked_add(bytes as usize).ok_or(Fault)?;
        let found = piece.get(offset..end).ok_or(Fault)?;
        // SAFETY: the caller guarantees `bytes` valid bytes at `into`, which are not this image's.
        unsafe { into.copy_from_nonoverlapping(found.as_ptr(), found.len()) };
        Ok(())
    }
}

/// A memory that records everything that is read of another one.
pub struct Recording<'a, M> {
    memory: &'a M,
    read: RefCell<Vec<(u64, Vec<u8>)>>,
}

impl<'a, M: UserMemory> Recording<'a, M> {
    /// Records what is read of `memory`.
    pub fn new(memory: &'a M) -> Self {
        Self {
            memory,
            read: RefCell::default(),
        }
    }

    /// The recorded bytes by address; pieces neither touch nor overlap.
    pub fn pieces(self) -> BTreeMap<u64, Vec<u8>> {
        joined(self.read.into_inner())
    }
}

impl<M: UserMemory> UserMemory for Recording<'_, M> {
    unsafe fn copy(&self, address: UserAddr, into: *mut u8, bytes: u32) -> Result<(), Fault> {
        let mut read = vec![0; bytes as usize];
        // SAFETY: `read` has this length.
        unsafe { self.memory.copy(address, read.as_mut_ptr(), bytes)? };
        // SAFETY: the caller guarantees `bytes` valid bytes at `into`; `read` is new.
        unsafe { into.copy_from_nonoverlapping(read.as_ptr(), read.len()) };
        self.read.borrow_mut().push((address.0, read));
        Ok(())
    }
}

/// Joins pieces that touch or overlap.
fn joined(pieces: impl IntoIterator<Item = (u64, Vec<u8>)>) -> BTreeMap<u64, Vec<u8>> {
    let mut pieces: Vec<_> = pieces.into_iter().collect();
    pieces.sort();
    let mut joined = BTreeMap::<u64, Vec<u8>>::new();
    for (address, bytes) in pieces {
        match joined.last_entry() {
            Some(mut last) if last.key() + last.get().len() as u64 >= address => {
                let overlap = last.key() + last.get().len() as u64 - address;
                let overlap = usize::try_from(overlap).unwrap().min(bytes.len());
                last.get_mut().extend_from_slice(&bytes[overlap..]);
            }
            _ => {
                joined.insert(address, bytes);
            }
        }
    }
    joined
}

fn from_hex(digits: &str) -> Vec<u8> {
    let (pairs, _) = digits.as_bytes().as_chunks::<2>();
    pairs
        .iter()
        .map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

/// Stacks as text.
pub fn render(stacks: &[ThreadStack]) -> String {
    let mut text = String::new();
    for stack in stacks {
        let (id, states) = (stack.thread_id, stack.states.len());
        let name = stack.name.as_deref().unwrap_or("-");
        let attached = stack.is_attached.unwrap();
        let end = stack.end.0;
        writeln!(
            text,
            "thread {id} {name}: {states} states, attached: {attached}, end {end}"
        )
        .unwrap();
        for (nth, frame) in show(stack).iter().enumerate() {
            if stack.gap == Some(nth) {
                writeln!(text, "\tframes that were left out").unwrap();
            }
            writeln!(text, "\t{frame}").unwrap();
        }
    }
    text
}
