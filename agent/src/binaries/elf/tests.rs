//! Tests with this test program and a library as the file, intact and corrupted.

use super::{
    Elf, Error, Placement, Source,
    numbers::{at_most, u64_at},
};
use proptest::prelude::{any, prop, proptest};
use std::{
    cell::Cell,
    fs,
    io::{self, Write as _},
    sync::LazyLock,
};

/// A symbol that is not exported.
#[unsafe(no_mangle)]
static AGENT_TEST_SYMBOL: [u8; 16] = *b"found by a test!";

/// The bytes of a library with few symbols, so that many broken copies can be tried.
static LIBRARY: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let path = maps
        .lines()
        .filter_map(|line| line.find('/').map(|at| &line[at..]))
        .filter(|path| path.contains(".so"))
        .min_by_key(|path| fs::metadata(path).map_or(u64::MAX, |metadata| metadata.len()))
        .unwrap();
    fs::read(path).unwrap()
});

/// Calls every query.
fn query<S: Source>(elf: &Elf<S>) {
    for name in ["malloc", "_PyRuntime", "__stack_chk_fail", ""] {
        let _ = elf.symbol(name);
        let _ = elf.section(name);
        let _ = elf.symbols_with_prefix(name);
    }
    let _ = elf.loaded_from(elf.frame_header().unwrap_or(0), 1 << 20);
    let _ = elf.soname();
    let _ = elf.build_id();
    for offset in [0, 0x1000, u64::MAX] {
        let mut bytes = [0; 8];
        let _ = elf.initial_bytes(offset, &mut bytes);
        for is_executable in [false, true] {
            let _ = elf.segments().load_bias(Placement {
                start: 0x7000_0000_0000,
                file_offset: offset,
                is_executable,
            });
        }
    }
    let _ = elf.scan_section(".rodata", 16, 1 << 20, |_| {});
    let _ = elf.scan_constants(16, 1 << 20, |_| {});
    let _ = elf.find_in_data([0; 8], 1 << 20);
}

#[test]
fn this_program_finds_its_own_symbols() {
    let file = fs::File::open("/proc/self/exe").unwrap();
    let elf = Elf::read(file).unwrap();
    let symbol = elf.symbol("AGENT_TEST_SYMBOL").unwrap().unwrap();
    assert_eq!(symbol.bytes, 16);
    let mut bytes = [0; 16];
    assert!(elf.initial_bytes(symbol.address, &mut bytes).unwrap());
    assert_eq!(bytes, AGENT_TEST_SYMBOL);
    assert_eq!(elf.symbol("AGENT_TEST_SYMBO").unwrap(), None);
    let prefixed = elf.symbols_with_prefix("AGENT_TEST_SYMBO").unwrap();
    assert_eq!(prefixed, [symbol]);
    let loaded = elf.loaded_from(symbol.address, 16).unwrap();
    assert_eq!(loaded, AGENT_TEST_SYMBOL);
    let code = elf.segments().code().next().unwrap();
    assert!(!code.is_empty() && !code.contains(&symbol.address));
    assert_eq!(elf.soname().unwrap(), None);

    // The address, by way of every mapping of this program.
    let address = (&raw const AGENT_TEST_SYMBOL) as u64;
    let maps = crate::process::maps::parse(&fs::read("/proc/self/maps").unwrap());
    let executable = std::env::current_exe().unwrap();
    let mut checked = 0;
    for mapping in maps {
        if mapping.file.is_some_and(|file| file.path == executable) && mapping.permissions.execute {
            let bias = elf.segments().load_bias(Placement {
                start: mapping.start,
                file_offset: mapping.file_offset,
                is_executable: true,
            });
            assert_eq!(bias, Some(address - symbol.address));
            checked += 1;
        }
    }
    assert!(checked > 0);
}

#[test]
fn the_c_library_exports_and_has_a_name() {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let path = maps
        .lines()
        .find(|line| line.contains("/libc.so.6") || line.contains("/ld-musl"))
        .map(|line| &line[line.find('/').unwrap()..])
        .unwrap();
    let elf = Elf::read(fs::File::open(path).unwrap()).unwrap();
    assert!(elf.exported_symbol("malloc").unwrap().is_some());
    assert_eq!(elf.exported_symbol("no such symbol").unwrap(), None);
    assert!(elf.soname().unwrap().is_some());
    assert!(elf.section(".text").is_some());
}

#[test]
fn other_files_are_errors() {
    let read = |bytes: &[u8]| Elf::read(bytes).unwrap_err();
    assert!(matches!(read(b""), Error::NotElf));
    assert!(matches!(read(&[0; 200]), Error::NotElf));
    let mut narrow = LIBRARY.clone();
    narrow[4] = 1;
    assert!(matches!(read(&narrow), Error::OtherClass));
}

#[test]
fn truncated_files_do_not_panic() {
    // Every length near a structure's border, then some.
    let library = &*LIBRARY;
    let borders = (0..256).chain((256..library.len()).step_by(library.len() / 200));
    for bytes in borders {
        if let Ok(elf) = Elf::read(&library[..bytes]) {
            query(&elf);
        }
    }
}

/// Counts what is read of a file.
struct Counted {
    file: fs::File,
    bytes: Cell<u64>,
}

impl Source for Counted {
    fn bytes(&self) -> io::Result<u64> {
        self.file.bytes()
    }

    fn fill(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        self.bytes.set(self.bytes.get() + into.len() as u64);
        self.file.fill(into, offset)
    }
}

#[test]
fn huge_sparse_files_are_not_read_completely() {
    const HUGE: u64 = 1 << 40;
    let mut header = LIBRARY[..64].to_vec();
    // Two program headers behind the file header, and no section headers.
    header[32..40].copy_from_slice(&64_u64.to_le_bytes());
    header[40..48].fill(0);
    header[56..58].copy_from_slice(&2_u16.to_le_bytes());
    header[60..64].fill(0);
    let (loaded, dynamic, readable_and_writable) = (1_u64, 2, 6 << 32);
    for kind in [loaded | readable_and_writable, dynamic] {
        for word in [kind, 0, 0, 0, HUGE, HUGE, 4096] {
            header.extend(word.to_le_bytes());
        }
    }
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&header).unwrap();
    file.set_len(HUGE).unwrap();
    let bytes = Cell::new(0);
    let elf = Elf::read(Counted { file, bytes }).unwrap();
    assert!(elf.exported_symbol("malloc").is_err());
    let found = elf.find_in_data(*b"xdebugpy", 1 << 20).unwrap();
    assert!(found.is_empty());
    query(&elf);
    assert!(elf.source.bytes.get() < 8 << 20);
}

proptest! {
    #[test]
    fn flipped_bits_do_not_panic(
        flips in prop::collection::vec((any::<prop::sample::Index>(), 0..8_u32), 1..20),
        near_headers in any::<bool>(),
    ) {
        let mut library = LIBRARY.clone();
        let section_headers = at_most(u64_at(&library, 40), library.len());
        for (place, bit) in flips {
            // Most of a file is code; the headers are what is parsed.
            let at = if near_headers {
                let at = place.index(1024 + library.len() - section_headers);
                if at < 1024 { at } else { section_headers + at - 1024 }
            } else {
                place.index(library.len())
            };
            library[at] ^= 1 << bit;
        }
        if let Ok(elf) = Elf::read(library.as_slice()) {
            query(&elf);
        }
    }

    #[test]
    fn random_bytes_behind_a_valid_start_do_not_panic(bytes in any::<Vec<u8>>()) {
        let mut file = LIBRARY[..20].to_vec();
        file.extend(bytes);
        file.resize(file.len().max(64), 0);
        if let Ok(elf) = Elf::read(file.as_slice()) {
            query(&elf);
        }
    }
}
