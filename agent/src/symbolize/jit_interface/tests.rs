//! Lists and files in memory made here.

use std::collections::BTreeMap;

use proptest::prelude::{any, prop, proptest};

use super::*;

const AT_DESCRIPTOR: u64 = 0x1000;

/// Memory of a process: pieces by their addresses.
#[derive(Default)]
struct FakeMemory(BTreeMap<u64, Vec<u8>>);

impl ReadMemory for FakeMemory {
    fn read(&self, address: u64, into: &mut [u8]) -> io::Result<()> {
        let missing = || io::Error::from(io::ErrorKind::UnexpectedEof);
        let (start, piece) = self.0.range(..=address).next_back().ok_or_else(missing)?;
        let from = usize::try_from(address - start).unwrap();
        let bytes = piece.get(from..).and_then(|rest| rest.get(..into.len()));
        into.copy_from_slice(bytes.ok_or_else(missing)?);
        Ok(())
    }
}

impl FakeMemory {
    /// With a list of entries at these addresses, each of which is followed by the next one.
    fn with_list(entries: &[u64], file: impl Fn(u64) -> (u64, u64)) -> Self {
        let mut memory = Self::default();
        let first = entries.first().copied().unwrap_or_default();
        memory.0.insert(AT_DESCRIPTOR, words(&[1, 0, first]));
        for (nth, entry) in entries.iter().enumerate() {
            let next = entries.get(nth + 1).copied().unwrap_or_default();
            let (start, bytes) = file(*entry);
            memory.0.insert(*entry, words(&[next, 0, start, bytes]));
        }
        memory
    }
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// An object file whose code is at `address`, with one function 16 bytes from there.
fn object(address: u64, name: &str) -> Vec<u8> {
    const HEADER: usize = 64;
    let names = [b"\0", name.as_bytes(), b"\0"].concat();
    let symbols = [
        words(&[0; 3]),
        vec![1, 0, 0, 0, 2, 0, 1, 0],
        words(&[16, 32]),
    ]
    .concat();
    let at_names = HEADER + symbols.len();
    let at_sections = (at_names + names.len()).next_multiple_of(8);
    let mut file = vec![0; HEADER];
    file[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    // `e_type`, `e_machine`, `e_version`.
    file[16..24].copy_from_slice(&[1, 0, 62, 0, 1, 0, 0, 0]);
    file[40..48].copy_from_slice(&(at_sections as u64).to_le_bytes());
    // `e_ehsize`, `e_phentsize`, `e_phnum`, `e_shentsize`, `e_shnum`, `e_shstrndx`.
    file[52..64].copy_from_slice(&[64, 0, 56, 0, 0, 0, 64, 0, 4, 0, 0, 0]);
    file.extend(&symbols);
    file.extend(&names);
    file.resize(at_sections, 0);
    let section = |kind: u64, flags, address, offset: usize, bytes: usize, link| {
        words(&[
            kind << 32,
            flags,
            address,
            offset as u64,
            bytes as u64,
            link,
            8,
            24,
        ])
    };
    file.extend(section(0, 0, 0, 0, 0, 0));
    file.extend(section(1, 6, address, 0, 64, 0));
    file.extend(section(2, 0, 0, HEADER, symbols.len(), 3));
    file.extend(section(3, 0, 0, at_names, names.len(), 0));
    file
}

/// What is registered after a refresh.
fn refreshed(memory: &FakeMemory) -> JitInterface {
    let mut interface = JitInterface {
        descriptors: vec![AT_DESCRIPTOR],
        ..JitInterface::default()
    };
    interface.update(memory);
    interface
}

#[test]
fn functions_of_registered_files_are_found() {
    let [first, second] = [object(0x7000, "one"), object(0x9000, "_ZN4them3twoEx")];
    let mut memory = FakeMemory::with_list(&[0x2000, 0x3000], |entry| match entry {
        0x2000 => (0x10_0000, first.len() as u64),
        _ => (0x20_0000, second.len() as u64),
    });
    memory.0.insert(0x10_0000, first);
    memory.0.insert(0x20_0000, second);
    let mut interface = refreshed(&memory);
    let find = |interface: &JitInterface, address| interface.find(address);
    assert_eq!(find(&interface, 0x700f), None);
    assert_eq!(find(&interface, 0x7010).unwrap(), "one");
    assert_eq!(find(&interface, 0x702f).unwrap(), "one");
    assert_eq!(find(&interface, 0x7030), None);
    assert!(find(&interface, 0x9010).unwrap().starts_with("them::two"));

    // A file that was read is not read again, and one that is no longer registered is forgotten.
    memory.0.remove(&0x20_0000);
    memory.0.insert(AT_DESCRIPTOR, words(&[1, 0, 0x3000]));
    interface.update(&memory);
    assert_eq!(find(&interface, 0x7010), None);
    assert!(find(&interface, 0x9010).unwrap().starts_with("them::two"));
}

#[test]
fn a_list_that_leads_back_to_itself_ends() {
    let mut memory = FakeMemory::with_list(&[0x2000, 0x3000], |_| (0, 0));
    memory.0.insert(0x3000, words(&[0x2000, 0, 0, 0]));
    assert_eq!(registered(&memory, &[AT_DESCRIPTOR]).len(), 2);
}

#[test]
fn a_long_list_is_visited_in_part() {
    let entries: Vec<_> = (1..=MAX_ENTRIES as u64 + 5).map(|nth| nth << 16).collect();
    let memory = FakeMemory::with_list(&entries, |_| (8, 8));
    let files = registered(&memory, &[AT_DESCRIPTOR, AT_DESCRIPTOR]);
    assert_eq!(files.len(), MAX_ENTRIES);
}

#[test]
fn large_files_and_other_versions_are_left_out() {
    let mut memory = FakeMemory::with_list(&[0x2000], |_| (0, MAX_FILE_BYTES + 1));
    assert_eq!(registered(&memory, &[AT_DESCRIPTOR]), []);
    memory.0.insert(0x2000, words(&[0, 0, 0, 8]));
    assert_eq!(registered(&memory, &[AT_DESCRIPTOR]).len(), 1);
    memory.0.insert(AT_DESCRIPTOR, words(&[2, 0, 0x2000]));
    assert_eq!(registered(&memory, &[AT_DESCRIPTOR]), []);
}

proptest! {
    #[test]
    fn damaged_files_do_not_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..16),
        bytes in 0..1000_u64,
    ) {
        let mut file = object(0x7000, "name");
        for (at, byte) in changes {
            let at = at.index(file.len());
            file[at] = byte;
        }
        let mut memory = FakeMemory::with_list(&[0x2000], |_| (0x10_0000, bytes));
        memory.0.insert(0x10_0000, file);
        refreshed(&memory).find(0x7010);
    }
}
