//! Offsets of the running kernel's own structures, from its BTF.
//!
//! A reader of the little that is needed: the type section is gone through once, nothing is
//! kept. Format: the kernel's Documentation/bpf/btf.rst. The bytes are the kernel's, but every
//! access is checked all the same.

use std::{fs, io, path::Path};

/// Where the kernel shows its BTF.
pub(super) const VMLINUX: &str = "/sys/kernel/btf/vmlinux";

/// Why an offset is not known.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel shows no BTF, or it cannot be read.
    #[error(
        "{VMLINUX} cannot be read ({0}): agent needs a kernel built with CONFIG_DEBUG_INFO_BTF, \
         as all larger distributions build theirs since 2021"
    )]
    Unreadable(#[source] io::Error),
    /// Not the format that is documented.
    #[error("{VMLINUX} is not BTF that agent understands: please report the kernel's version")]
    Malformed,
    /// The kernel has no such structure or field.
    #[error("the kernel's BTF has no {structure}.{field}: please report the kernel's version")]
    Missing {
        /// The structure.
        structure: &'static str,
        /// Its field.
        field: &'static str,
    },
}

/// Offset of the thread pointer (`thread.fsbase` on x86-64, `thread.uw.tp_value` on aarch64) in
/// `task_struct`, in bytes.
///
/// # Errors
///
/// [`Error`], also when the kernel's structures have other names.
pub(super) fn thread_pointer_offset() -> Result<u64, Error> {
    let btf = fs::read(Path::new(VMLINUX)).map_err(Error::Unreadable)?;
    let path: &[(&'static str, &'static str)] = if cfg!(target_arch = "aarch64") {
        // `uw` is an anonymous structure whose first fields are these.
        &[("task_struct", "thread"), ("thread_struct", "uw")]
    } else {
        &[("task_struct", "thread"), ("thread_struct", "fsbase")]
    };
    let mut offset = 0;
    for (structure, field) in path {
        offset += field_offset(&btf, structure, field)?;
    }
    Ok(offset)
}

/// Offset of `field` in `structure`, in bytes.
fn field_offset(btf: &[u8], structure: &'static str, field: &'static str) -> Result<u64, Error> {
    let (types, strings) = sections(btf).ok_or(Error::Malformed)?;
    let mut at = 0;
    while at < types.len() {
        let kind = Type::read(types, at).ok_or(Error::Malformed)?;
        if kind.is_structure() && name(strings, kind.name) == Some(structure.as_bytes()) {
            for index in 0..kind.count {
                let member = at + Type::BYTES + index * MEMBER_BYTES;
                let member_name = word(types, member).ok_or(Error::Malformed)?;
                let bits = word(types, member + 8).ok_or(Error::Malformed)?;
                if name(strings, member_name) == Some(field.as_bytes()) {
                    // With bit fields in the structure the upper byte is the field's width.
                    let bits = if kind.has_bit_fields {
                        bits & 0xff_ffff
                    } else {
                        bits
                    };
                    return Ok(u64::from(bits / 8));
                }
            }
        }
        at += kind.bytes().ok_or(Error::Malformed)?;
    }
    Err(Error::Missing { structure, field })
}

const MAGIC: u32 = 0x1_eb9f;
const MEMBER_BYTES: usize = 12;

/// The type section and the string section.
fn sections(btf: &[u8]) -> Option<(&[u8], &[u8])> {
    let header_bytes = word(btf, 4)? as usize;
    if word(btf, 0)? & 0xff_ffff != MAGIC {
        return None;
    }
    let section = |at: usize| {
        let start = header_bytes.checked_add(word(btf, at)? as usize)?;
        btf.get(start..start.checked_add(word(btf, at + 4)? as usize)?)
    };
    Some((section(8)?, section(16)?))
}

/// The head of a type (`struct btf_type`).
struct Type {
    name: u32,
    kind: u32,
    count: usize,
    has_bit_fields: bool,
}

impl Type {
    const BYTES: usize = 12;

    fn read(types: &[u8], at: usize) -> Option<Self> {
        let info = word(types, at + 4)?;
        word(types, at + 8)?;
        Some(Self {
            name: word(types, at)?,
            kind: info >> 24 & 0x1f,
            count: (info & 0xffff) as usize,
            has_bit_fields: info >> 31 == 1,
        })
    }

    fn is_structure(&self) -> bool {
        self.kind == 4
    }

    /// Bytes of the whole type; [`None`] for a kind that is not known.
    fn bytes(&self) -> Option<usize> {
        let rest = match self.kind {
            // Pointer, forward, typedef, volatile, const, restrict, function, float, type tag.
            2 | 7..=12 | 16 | 18 => 0,
            // Integer, variable, declaration tag.
            1 | 14 | 17 => 4,
            // Array.
            3 => 12,
            // Structure, union, data section, 64-bit enumeration.
            4 | 5 | 15 | 19 => 12 * self.count,
            // Enumeration, function prototype.
            6 | 13 => 8 * self.count,
            _ => return None,
        };
        Some(Self::BYTES + rest)
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_ne_bytes(word.try_into().ok()?))
}

fn name(strings: &[u8], at: u32) -> Option<&[u8]> {
    strings.get(at as usize..)?.split(|byte| *byte == 0).next()
}

#[cfg(test)]
mod tests {
    use super::{Error, MAGIC, VMLINUX, field_offset};

    /// BTF with an integer, a typedef and `struct s { int a; int b: 3; }`.
    fn sample() -> Vec<u8> {
        let strings = b"\0int\0s\0a\0b\0";
        let types: &[u32] = &[
            1,
            1 << 24,
            4,
            32, // int
            0,
            8 << 24,
            1, // typedef
            5,
            1 << 31 | 4 << 24 | 2,
            8,
            7,
            1,
            0,
            9,
            1,
            3 << 24 | 32, // struct
        ];
        let type_bytes = u32::try_from(types.len() * 4).unwrap();
        let mut btf = vec![
            MAGIC,
            24,
            0,
            type_bytes,
            type_bytes,
            u32::try_from(strings.len()).unwrap(),
        ];
        btf.extend(types);
        let mut btf: Vec<u8> = btf.into_iter().flat_map(u32::to_ne_bytes).collect();
        btf.extend(strings);
        btf
    }

    #[test]
    fn fields_are_found_past_other_types() {
        assert_eq!(field_offset(&sample(), "s", "a").unwrap(), 0);
        assert_eq!(field_offset(&sample(), "s", "b").unwrap(), 4);
        assert!(matches!(
            field_offset(&sample(), "s", "c"),
            Err(Error::Missing { field: "c", .. })
        ));
    }

    #[test]
    fn cut_off_bytes_are_an_error() {
        let btf = sample();
        for bytes in 0..btf.len() {
            assert!(field_offset(&btf[..bytes], "s", "b").is_err());
        }
    }

    #[test]
    fn the_running_kernel_has_a_thread_pointer() {
        assert!(std::path::Path::new(VMLINUX).exists());
        assert!(super::thread_pointer_offset().unwrap() > 0);
    }
}
