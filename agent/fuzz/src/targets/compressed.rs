//! Compressed sections: zlib and zstd, and an ELF file that is embedded with xz.

use agent::testing::binaries::elf::Elf;

use crate::{
    image::{Section, file},
    input::Input,
};

/// Most bytes of a section; a claim of more is refused.
const LIMIT: u64 = 16 << 20;

pub(super) fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let kind = input.byte();
    let claimed = input.number();
    let data = input.rest();
    if kind == 3 {
        let file = file(62, &[Section::new(".gnu_debugdata", data)]);
        let _ = Elf::read(file).map(|elf| elf.embedded().map(drop));
        return;
    }
    let mut contents = u64::from(kind).to_le_bytes().to_vec();
    contents.extend(u64::from(claimed).to_le_bytes());
    contents.extend(1_u64.to_le_bytes());
    contents.extend(data);
    let section = Section {
        name: ".debug_info",
        is_compressed: true,
        contents: &contents,
    };
    let Ok(elf) = Elf::read(file(62, &[section])) else {
        return;
    };
    if let Ok(contents) = elf.contents(".debug_info", LIMIT) {
        assert_eq!(contents.len() as u64, u64::from(claimed));
    }
}
