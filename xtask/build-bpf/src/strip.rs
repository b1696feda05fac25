//! Takes out of an object what is of no use once its programs are linked.
//!
//! DWARF is four fifths of it, and the lines of instructions are half of the rest. aya parses all of that at each start of
//! the agent, and hands the lines to the kernel, which keeps them. What stays is what the kernel needs: BTF, with the types
//! of functions.

use anyhow::{Context as _, Result};
use object::build::elf::{Builder, SectionData};
use object::elf::SHT_STRTAB;

/// How the names of sections begin that go: DWARF and its relocations.
const DEBUG: [&str; 2] = [".debug_", ".rel.debug_"];

/// The section with the types of functions and the lines of instructions, and its relocations.
const EXTENSION: &str = ".BTF.ext";
const EXTENSION_RELOCATIONS: &str = ".rel.BTF.ext";

/// What is taken out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stripped {
    /// DWARF alone: the verifier's messages have the lines of the source.
    Dwarf,
    /// The lines too.
    Lines,
}

/// The object without what is taken out.
pub(crate) fn strip(object: &[u8], what: Stripped) -> Result<Vec<u8>> {
    let mut builder = Builder::read(object).context("the linked object is no ELF file")?;
    for section in &mut builder.sections {
        let name = section.name.to_string();
        section.delete |= DEBUG.iter().any(|debug| name.starts_with(debug));
    }
    if what == Stripped::Lines {
        take_out_lines(&mut builder);
    }
    let has_names = |builder: &Builder<'_>| {
        let mut data = builder.sections.iter().map(|section| &section.data);
        data.any(|data| matches!(data, SectionData::SectionString))
    };
    if !has_names(&builder) {
        // LLVM has the names of sections in the table of symbols' names.
        let names = builder.sections.add();
        names.name = ".shstrtab".into();
        names.sh_type = SHT_STRTAB;
        names.data = SectionData::SectionString;
    }
    let mut stripped = Vec::new();
    builder
        .write(&mut stripped)
        .context("the stripped object cannot be written")?;
    Ok(stripped)
}

/// Takes the lines out of `.BTF.ext`, with the relocations of them. One that is not as LLVM writes it stays as it is.
fn take_out_lines(builder: &mut Builder<'_>) {
    let mut bytes_left = None;
    for section in &mut builder.sections {
        if section.name.to_string() == EXTENSION
            && let SectionData::Data(data) = &mut section.data
            && let Some(without) = without_lines(data)
        {
            bytes_left = Some(without.len() as u64);
            *data = without.into();
        }
    }
    let Some(bytes_left) = bytes_left else { return };
    for section in &mut builder.sections {
        if section.name.to_string() == EXTENSION_RELOCATIONS
            && let SectionData::Relocation(relocations) = &mut section.data
        {
            relocations.retain(|relocation| relocation.r_offset < bytes_left);
        }
    }
}

/// A `.BTF.ext` whose part with the lines, the last one, is empty.
///
/// Format: the kernel's Documentation/bpf/btf.rst.
fn without_lines(extension: &[u8]) -> Option<Vec<u8>> {
    const LINES: usize = 16;
    const LINES_BYTES: usize = 20;
    const RELOCATIONS: usize = 24;
    const RELOCATIONS_BYTES: usize = 28;

    let word = |at: usize| -> Option<u32> {
        let bytes = extension.get(at..at + 4)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?))
    };
    let header_bytes = word(4)?;
    let is_long = header_bytes > 24;
    let has_relocations = is_long && word(RELOCATIONS_BYTES)? != 0;
    let start = header_bytes.checked_add(word(LINES)?)? as usize;
    let end = start.checked_add(word(LINES_BYTES)? as usize)?;
    if has_relocations || end != extension.len() {
        return None;
    }
    let mut without = extension.get(..start)?.to_vec();
    without.get_mut(LINES_BYTES..LINES_BYTES + 4)?.fill(0);
    if is_long {
        // There are none: where the lines were, which is the end now.
        let lines = extension.get(LINES..LINES + 4)?;
        without
            .get_mut(RELOCATIONS..RELOCATIONS + 4)?
            .copy_from_slice(lines);
    }
    Some(without)
}

#[cfg(test)]
mod tests {
    use object::Endianness;
    use object::elf::{EM_BPF, ET_REL, SHT_PROGBITS};

    use super::*;

    /// `.BTF.ext` with eight bytes of functions and twelve of lines.
    fn extension() -> Vec<u8> {
        let header = [0x1_eb9f, 32, 0, 8, 8, 12, 20, 0];
        let words = header.into_iter().chain([1, 2, 3, 4, 5]);
        words.flat_map(u32::to_le_bytes).collect()
    }

    fn object() -> Vec<u8> {
        let mut builder = Builder::new(Endianness::Little, true);
        builder.header.e_type = ET_REL;
        builder.header.e_machine = EM_BPF;
        for name in ["perf_event", ".BTF", EXTENSION, ".debug_info", ".debug_str"] {
            let section = builder.sections.add();
            section.name = name.into();
            section.sh_type = SHT_PROGBITS;
            section.data = SectionData::Data(extension().into());
        }
        let names = builder.sections.add();
        names.name = ".shstrtab".into();
        names.sh_type = SHT_STRTAB;
        names.data = SectionData::SectionString;
        let mut object = Vec::new();
        builder.write(&mut object).unwrap();
        object
    }

    /// The sections with their bytes.
    fn sections(object: &[u8]) -> Vec<(String, usize)> {
        let builder = Builder::read(object).unwrap();
        let sections = builder.sections.iter();
        let bytes = |data: &SectionData<'_>| match data {
            SectionData::Data(data) => data.len(),
            _ => 0,
        };
        let sections = sections.map(|section| (section.name.to_string(), bytes(&section.data)));
        sections.collect()
    }

    #[test]
    fn only_dwarf_and_lines_go() {
        for (what, bytes) in [(Stripped::Dwarf, 52), (Stripped::Lines, 40)] {
            let stripped = sections(&strip(&object(), what).unwrap());
            let stripped: Vec<_> = stripped.iter().map(|(name, n)| (&**name, *n)).collect();
            assert_eq!(
                stripped,
                [
                    ("perf_event", 52),
                    (".BTF", 52),
                    (EXTENSION, bytes),
                    (".shstrtab", 0)
                ]
            );
        }
        assert!(strip(b"no ELF file", Stripped::Lines).is_err());
    }

    /// A part that is empty is not behind the end.
    #[test]
    fn all_parts_are_in_an_extension_without_lines() {
        let without = without_lines(&extension()).unwrap();
        let words: Vec<_> = without.chunks_exact(4).collect();
        let words = words
            .iter()
            .map(|it| u32::from_le_bytes((*it).try_into().unwrap()));
        let words: Vec<_> = words.collect();
        assert_eq!(words, [0x1_eb9f, 32, 0, 8, 8, 0, 8, 0, 1, 2]);
    }

    #[test]
    fn an_unknown_extension_stays_as_it_is() {
        assert!(without_lines(&extension()).is_some());
        // Cut, with more behind it, and with relocations behind the lines.
        let long = [extension(), vec![0]].concat();
        let mut relocated = extension();
        relocated[28] = 4;
        for changed in [&extension()[..50], &long, &relocated, &[]] {
            assert_eq!(without_lines(changed), None);
        }
    }
}
