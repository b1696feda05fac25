//! Stubs of the procedure linkage table: each jumps to a function of another file, through a word
//! that the dynamic linker fills in.
//!
//! Stubs have no symbols. Like binutils and gdb, this reads the instructions of each stub for the
//! address of its word, and finds the function in the relocation of that word.

use std::collections::HashMap;

use goblin::elf::{
    header::{EM_AARCH64, EM_X86_64},
    reloc::{
        R_AARCH64_GLOB_DAT, R_AARCH64_IRELATIVE, R_AARCH64_JUMP_SLOT, R_X86_64_GLOB_DAT,
        R_X86_64_IRELATIVE, R_X86_64_JUMP_SLOT,
    },
};

use super::{error::Error, file::Elf, numbers::u32_at, source::Source};

/// The sections with stubs: for calls that are bound late, the same with a target for indirect
/// branches, and for functions whose address is taken too.
const SECTIONS: [&str; 3] = [".plt", ".plt.sec", ".plt.got"];

/// Most bytes of a section with stubs.
const MAX_BYTES: u64 = 4 << 20;

/// Most relocations that may be those of stubs.
const MAX_RELOCATIONS: usize = 1 << 18;

/// Least and most bytes of a stub.
const MIN_STUB: usize = 8;
const MAX_STUB: u64 = 24;

/// A stub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PltStub {
    /// First address before the load bias is added.
    pub address: u64,
    /// Its size.
    pub bytes: u64,
    target: Target,
}

/// What a stub jumps to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    /// A symbol, by its index in the table of exported symbols.
    Symbol(u32),
    /// What the function at this address returns.
    Resolved(i64),
}

impl<S: Source> Elf<S> {
    /// The stubs, sorted by address.
    ///
    /// # Errors
    ///
    /// When they cannot be read.
    pub fn plt_stubs(&self) -> Result<Vec<PltStub>, Error> {
        let word: fn(&[u8], u64) -> Option<u64> = match self.machine() {
            EM_X86_64 => word_of_x86_64,
            EM_AARCH64 => word_of_aarch64,
            _ => return Ok(Vec::new()),
        };
        let mut stubs = Vec::new();
        let mut targets = None;
        for name in SECTIONS {
            let Some(section) = self.section(name) else {
                continue;
            };
            let Some(offset) = section.file_offset else {
                continue;
            };
            let targets = match &targets {
                Some(targets) => targets,
                None => targets.insert(self.plt_targets()?),
            };
            let contents = self.bytes_at(name, offset, section.bytes, MAX_BYTES)?;
            let first = stubs.len();
            let mut into = 0;
            while let Some(code) = contents.get(into..).filter(|code| !code.is_empty()) {
                let address = section.address.saturating_add(into as u64);
                let target = word(code, address).and_then(|word| targets.get(&word));
                let Some(target) = target else {
                    into += 4;
                    continue;
                };
                stubs.push(PltStub {
                    address,
                    bytes: (code.len() as u64).min(MAX_STUB),
                    target: *target,
                });
                into += MIN_STUB;
            }
            // A stub ends where the next one starts.
            for index in first + 1..stubs.len() {
                let room = stubs[index].address - stubs[index - 1].address;
                let before = &mut stubs[index - 1];
                before.bytes = before.bytes.min(room);
            }
            // The last one is as long as the one before it.
            if let [.., before, last] = &mut stubs[first..] {
                last.bytes = last.bytes.min(before.bytes);
            }
        }
        stubs.sort_unstable_by_key(|stub| stub.address);
        Ok(stubs)
    }

    /// The name of a stub, as binutils and gdb show it.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub fn plt_name(&self, stub: &PltStub) -> Result<Option<Vec<u8>>, Error> {
        let mut name = match stub.target {
            Target::Symbol(index) => match self.dynamic_symbol_name(index)? {
                Some(name) if !name.is_empty() => name,
                _ => return Ok(None),
            },
            Target::Resolved(address) => format!("*ABS*+{address:#x}").into_bytes(),
        };
        name.extend(b"@plt");
        Ok(Some(name))
    }

    /// What words refer to, by their addresses.
    fn plt_targets(&self) -> Result<HashMap<u64, Target>, Error> {
        let (symbols, resolved) = match self.machine() {
            EM_AARCH64 => (
                [R_AARCH64_JUMP_SLOT, R_AARCH64_GLOB_DAT],
                R_AARCH64_IRELATIVE,
            ),
            _ => ([R_X86_64_JUMP_SLOT, R_X86_64_GLOB_DAT], R_X86_64_IRELATIVE),
        };
        let mut targets = HashMap::new();
        for table in self.relocation_tables()? {
            self.relocations(table, |relocation| {
                let target = if symbols.contains(&relocation.kind) && relocation.symbol != 0 {
                    Target::Symbol(relocation.symbol)
                } else if relocation.kind == resolved {
                    Target::Resolved(relocation.value.cast_signed())
                } else {
                    return;
                };
                if targets.len() < MAX_RELOCATIONS {
                    targets.insert(relocation.address, target);
                }
            })?;
        }
        Ok(targets)
    }
}

/// The address of the word that `code`, at `address`, jumps through.
fn word_of_x86_64(code: &[u8], address: u64) -> Option<u64> {
    // endbr64
    let start = if code.starts_with(&[0xf3, 0x0f, 0x1e, 0xfa]) {
        4
    } else {
        0
    };
    let jump = code.get(start..)?;
    // jmp [rip + displacement], with or without `bnd`
    let operand = match jump {
        [0xff, 0x25, ..] => start + 2,
        [0xf2, 0xff, 0x25, ..] => start + 3,
        _ => return None,
    };
    let displacement = i64::from(u32_at(code, operand).cast_signed());
    let next = address.checked_add(operand as u64 + 4)?;
    next.checked_add_signed(displacement)
}

/// As [`word_of_x86_64`].
fn word_of_aarch64(code: &[u8], address: u64) -> Option<u64> {
    // bti c
    let start = if u32_at(code, 0) == 0xd503_245f { 4 } else { 0 };
    let (adrp, ldr) = (u32_at(code, start), u32_at(code, start + 4));
    // adrp x16, page; ldr x17, [x16, #offset]
    if adrp & 0x9f00_001f != 0x9000_0010 || ldr & 0xffc0_03ff != 0xf940_0211 {
        return None;
    }
    let page = (adrp >> 29 & 3) | (adrp >> 5 & 0x7_ffff) << 2;
    // It has 21 bits, the highest is the sign.
    let page = i64::from((page << 11).cast_signed() >> 11) << 12;
    let offset = u64::from(ldr >> 10 & 0xfff) * 8;
    (address & !0xfff)
        .checked_add_signed(page)?
        .checked_add(offset)
}

#[cfg(test)]
mod tests {
    use super::{word_of_aarch64, word_of_x86_64};
    use proptest::prelude::{any, proptest};

    #[test]
    fn stubs_are_decoded() {
        let lazy = [0xff, 0x25, 0xe2, 0x2f, 0, 0, 0x68, 0, 0, 0, 0];
        assert_eq!(word_of_x86_64(&lazy, 0x1020), Some(0x1020 + 6 + 0x2fe2));
        let with_target = [0xf3, 0x0f, 0x1e, 0xfa, 0xff, 0x25, 0xf0, 0xff, 0xff, 0xff];
        assert_eq!(word_of_x86_64(&with_target, 0x1020), Some(0x101a));
        let bound = [0xf2, 0xff, 0x25, 1, 0, 0, 0];
        assert_eq!(word_of_x86_64(&bound, 0x1000), Some(0x1008));
        // push [rip + displacement]
        assert_eq!(word_of_x86_64(&[0xff, 0x35, 1, 0, 0, 0], 0x1000), None);

        // adrp x16, 0x1f000; ldr x17, [x16, #0xf98]
        let stub = [0xf000_00f0_u32, 0xf947_ce11]
            .map(u32::to_le_bytes)
            .concat();
        assert_eq!(word_of_aarch64(&stub, 0x630), Some(0x1ff98));
        let marked = [&0xd503_245f_u32.to_le_bytes(), &*stub].concat();
        assert_eq!(word_of_aarch64(&marked, 0x630), Some(0x1ff98));
        // adrp x16, -0x1000
        let stub = [0xf0ff_fff0_u32, 0xf940_0211]
            .map(u32::to_le_bytes)
            .concat();
        assert_eq!(word_of_aarch64(&stub, 0x5630), Some(0x4000));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(code in any::<[u8; 12]>(), address in any::<u64>()) {
            word_of_x86_64(&code, address);
            word_of_x86_64(&[&[0xff, 0x25], &code[..]].concat(), address);
            word_of_aarch64(&code, address);
        }
    }
}
