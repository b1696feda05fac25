//! The format of BTF.
//!
//! The type section is gone through once, and the wanted types are found on the way; only the offsets of the types in it are
//! kept. Every access is checked, although the bytes are the kernel's.
//!
//! Format: the kernel's Documentation/bpf/btf.rst.

use super::error::Error;

/// The types of a kernel.
pub(super) struct Types<'a> {
    bytes: &'a [u8],
    strings: &'a [u8],
    /// Offset of each type in `types`; ids count from 1.
    starts: Vec<u32>,
    /// Those that are wanted, with their numbers.
    found: Vec<(Wanted, u32)>,
}

/// Kinds of types.
const INTEGER: u32 = 1;
pub(super) const STRUCTURE: u32 = 4;
pub(super) const FORWARD: u32 = 7;
pub(super) const TYPEDEF: u32 = 8;
pub(super) const FUNCTION: u32 = 12;
const PROTOTYPE: u32 = 13;

/// A type that is wanted: its kind and its name.
pub(super) type Wanted = (u32, &'static str);

/// Most nested structures, and most aliases of a type, that are resolved.
const MAX_DEPTH: usize = 8;

impl<'a> Types<'a> {
    /// Finds the types, of which some are wanted; [`None`] when one is malformed or of an unknown kind.
    pub(super) fn read(bytes: &'a [u8], wanted: &[Wanted]) -> Option<Self> {
        let (types, strings) = sections(bytes)?;
        let mut btf = Self {
            bytes: types,
            strings,
            starts: Vec::new(),
            found: Vec::new(),
        };
        let mut at = 0;
        while at < types.len() {
            let found = Type::read(types, at)?;
            btf.starts.push(u32::try_from(at).ok()?);
            let is_it =
                |(kind, name): &Wanted| *kind == found.kind && btf.is_name(found.name, name);
            if let Some(wanted) = wanted.iter().copied().find(is_it) {
                btf.found
                    .push((wanted, u32::try_from(btf.starts.len()).ok()?));
            }
            at += found.bytes()?;
        }
        Some(btf)
    }

    /// The wanted types of a kind that there are: numbers, which count from 1, and names.
    pub(super) fn found(&self, kind: u32) -> impl Iterator<Item = (u32, &'static str)> {
        let found = self.found.iter().copied();
        found.filter_map(move |((of, name), number)| (of == kind).then_some((number, name)))
    }

    /// Offset of a wanted type in the types: the first one of this name.
    fn named(&self, kind: u32, name: &str) -> Option<usize> {
        let (number, _) = self.found(kind).find(|(_, found)| *found == name)?;
        self.start(number)
    }

    /// Offset of the type with a number.
    fn start(&self, number: u32) -> Option<usize> {
        let index = (number as usize).checked_sub(1)?;
        Some(*self.starts.get(index)? as usize)
    }

    /// Offset in bytes of the field at the end of `path` in `structure`.
    pub(super) fn offset(
        &self,
        structure: &'static str,
        path: &[&'static str],
    ) -> Result<u32, Error> {
        let mut at = self.named(STRUCTURE, structure);
        let mut offset = 0;
        for &field in path {
            let missing = Error::Missing { structure, field };
            let member = at.and_then(|at| self.member(at, field, MAX_DEPTH));
            let (bits, kind) = member.ok_or(missing)?;
            offset += bits / 8;
            at = self.resolve(kind);
        }
        Ok(offset)
    }

    /// Which argument after the first one, from 0, of a tracepoint with this type of functions is the last one that is
    /// an integer, as none before it but the first is; 0 for none.
    ///
    /// Before Linux 5.18 there is none, in some of its kernels it is the second, and since then the last one.
    pub(super) fn integer_argument(&self, function: &str) -> u32 {
        /// The first one is data of the program; the next one is always an integer.
        const DATA: usize = 1;
        let Some(prototype) = self.prototype(function) else {
            return 0;
        };
        let Some(kind) = Type::read(self.bytes, prototype) else {
            return 0;
        };
        let is_integer = |index: &usize| {
            let parameter = prototype + Type::BYTES + index * PARAMETER_BYTES + 4;
            let of = word(self.bytes, parameter).and_then(|id| self.resolve(id));
            let of = of.and_then(|at| Type::read(self.bytes, at));
            of.is_some_and(|of| of.kind == INTEGER)
        };
        let last = (DATA + 1..kind.count).rev().find(is_integer);
        last.and_then(|index| u32::try_from(index - DATA).ok())
            .unwrap_or(0)
    }

    /// The prototype to a pointer to which the type `name` is an alias.
    fn prototype(&self, name: &str) -> Option<usize> {
        let alias = Type::read(self.bytes, self.named(TYPEDEF, name)?)?;
        let pointer = Type::read(self.bytes, self.resolve(alias.refers_to)?)?;
        let at = self.resolve(pointer.refers_to)?;
        (Type::read(self.bytes, at)?.kind == PROTOTYPE).then_some(at)
    }

    /// Bytes of a structure.
    pub(super) fn bytes(&self, structure: &'static str) -> Result<u32, Error> {
        let at = self.named(STRUCTURE, structure);
        let found = at.and_then(|at| Type::read(self.bytes, at));
        // Of a structure it is the size.
        let bytes = found.map(|kind| kind.refers_to);
        bytes.ok_or(Error::Missing {
            structure,
            field: "",
        })
    }

    /// Offset in bits and type id of a field of the structure at `at`, also of a field of an
    /// anonymous structure in it.
    fn member(&self, at: usize, field: &str, depth: usize) -> Option<(u32, u32)> {
        let kind = Type::read(self.bytes, at)?;
        if !kind.has_members() || depth == 0 {
            return None;
        }
        for index in 0..kind.count {
            let member = at + Type::BYTES + index * MEMBER_BYTES;
            let name = self.name(word(self.bytes, member)?)?;
            let member_type = word(self.bytes, member + 4)?;
            let bits = word(self.bytes, member + 8)?;
            // With bit fields in the structure the upper byte is the field's width.
            let bits = if kind.has_bit_fields {
                bits & 0xff_ffff
            } else {
                bits
            };
            if name == field.as_bytes() {
                return Some((bits, member_type));
            }
            if name.is_empty()
                && let Some(inner) = self.resolve(member_type)
                && let Some((inner_bits, found)) = self.member(inner, field, depth - 1)
            {
                return Some((bits + inner_bits, found));
            }
        }
        None
    }

    /// Offset of the type `id`, its typedefs and qualifiers resolved.
    fn resolve(&self, id: u32) -> Option<usize> {
        let mut id = id;
        for _ in 0..MAX_DEPTH {
            let at = self.start(id)?;
            let kind = Type::read(self.bytes, at)?;
            if !kind.is_alias() {
                return Some(at);
            }
            id = kind.refers_to;
        }
        None
    }

    /// Whether the name at `at` is `name`.
    fn is_name(&self, at: u32, name: &str) -> bool {
        let strings = self.strings.get(at as usize..);
        let rest = strings.and_then(|strings| strings.strip_prefix(name.as_bytes()));
        rest.is_some_and(|rest| rest.first() == Some(&0))
    }

    fn name(&self, at: u32) -> Option<&[u8]> {
        let strings = self.strings.get(at as usize..)?;
        strings.split(|byte| *byte == 0).next()
    }
}

/// The first word: the magic number and the version.
pub(super) const MAGIC: u32 = 0x1_eb9f;

/// Bytes of the header: five words after the first one.
pub(super) const HEADER_BYTES: u32 = 24;

const MEMBER_BYTES: usize = 12;
const PARAMETER_BYTES: usize = 8;

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
    refers_to: u32,
}

impl Type {
    const BYTES: usize = 12;

    fn read(types: &[u8], at: usize) -> Option<Self> {
        let info = word(types, at + 4)?;
        Some(Self {
            name: word(types, at)?,
            kind: info >> 24 & 0x1f,
            count: (info & 0xffff) as usize,
            has_bit_fields: info >> 31 == 1,
            refers_to: word(types, at + 8)?,
        })
    }

    /// A structure or a union.
    fn has_members(&self) -> bool {
        matches!(self.kind, STRUCTURE | 5)
    }

    /// Typedef, volatile, const, restrict, type tag.
    fn is_alias(&self) -> bool {
        matches!(self.kind, TYPEDEF..=11 | 18)
    }

    /// Bytes of the whole type; [`None`] for an unknown kind.
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

#[cfg(test)]
mod tests {
    use super::{Error, HEADER_BYTES, MAGIC, STRUCTURE, Types};

    /// BTF with `struct s { int a; int b: 3; struct { int: 32; int inner; }; alias named; }`,
    /// where `alias` is that inner structure.
    fn sample() -> Vec<u8> {
        let strings = b"\0int\0s\0a\0b\0inner\0named\0alias\0";
        let types: &[u32] = &[
            // 1: int
            1,
            1 << 24,
            4,
            32,
            // 2: typedef of 3
            23,
            8 << 24,
            3,
            // 3: anonymous struct
            0,
            4 << 24 | 2,
            8,
            0,
            1,
            0,
            11,
            1,
            32,
            // 4: struct s
            5,
            1 << 31 | 4 << 24 | 4,
            24,
            7,
            1,
            0,
            9,
            1,
            3 << 24 | 32,
            0,
            3,
            64,
            17,
            2,
            128,
        ];
        let type_bytes = u32::try_from(types.len() * 4).unwrap();
        let mut btf = vec![
            MAGIC,
            HEADER_BYTES,
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

    fn offset(btf: &[u8], path: &[&'static str]) -> Result<u32, Error> {
        let btf = Types::read(btf, &[(STRUCTURE, "s")]).ok_or(Error::Malformed)?;
        btf.offset("s", path)
    }

    #[test]
    fn fields_are_found_behind_other_types() {
        assert_eq!(offset(&sample(), &["a"]).unwrap(), 0);
        assert_eq!(offset(&sample(), &["b"]).unwrap(), 4);
        assert!(matches!(
            offset(&sample(), &["c"]),
            Err(Error::Missing { field: "c", .. })
        ));
    }

    #[test]
    fn fields_of_nested_structures_are_found() {
        // In the anonymous structure, and by a path through the one behind a typedef.
        assert_eq!(offset(&sample(), &["inner"]).unwrap(), 12);
        assert_eq!(offset(&sample(), &["named", "inner"]).unwrap(), 20);
    }

    #[test]
    fn truncated_bytes_are_an_error() {
        let btf = sample();
        for bytes in 0..btf.len() {
            assert!(offset(&btf[..bytes], &["b"]).is_err());
        }
    }
}
