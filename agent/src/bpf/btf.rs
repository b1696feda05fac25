//! Offsets of fields of the running kernel's structures, from its BTF.
//!
//! The type section is read once, and the wanted structures are found on the way; only the offsets
//! of the types in it are kept, until the fields are found. Every access is checked, although the bytes are the kernel's.
//!
//! Format: the kernel's Documentation/bpf/btf.rst.

use std::{fs, io, path::Path};

use agent_common::layout::{KernelLayout, MAX_COUNTER_DISTANCE, ResidentLayout};

/// The kernel's BTF.
pub(super) const VMLINUX: &str = "/sys/kernel/btf/vmlinux";

/// Why the offsets cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel has no BTF, or it cannot be read.
    #[error(
        "{VMLINUX} cannot be read ({0}): agent needs a kernel built with CONFIG_DEBUG_INFO_BTF, \
         as all larger distributions build theirs since 2021"
    )]
    Unreadable(#[source] io::Error),
    /// The bytes are not in the documented format.
    #[error(
        "{VMLINUX} is malformed or of an unsupported BTF version: please report the kernel's version"
    )]
    Malformed,
    /// The kernel has no such structure or field.
    #[error("the kernel's BTF has no {structure}.{field}: please report the kernel's version")]
    Missing {
        /// Name of the structure.
        structure: &'static str,
        /// Name of the field.
        field: &'static str,
    },
}

/// The structures with the wanted fields.
const TASK: &str = "task_struct";
const MEMORY: &str = "mm_struct";
const SIGNAL: &str = "signal_struct";
const COUNTER: &str = "percpu_counter";
const MAP: &str = "bpf_array";

/// The type of the functions that the tracepoint `sched_switch` calls.
const SWITCH: &str = "btf_trace_sched_switch";

/// The offsets that the BPF programs need.
///
/// # Errors
///
/// [`Error`] when BTF cannot be read, or a structure or field has another name.
pub(super) fn kernel_layout() -> Result<KernelLayout, Error> {
    let bytes = fs::read(Path::new(VMLINUX)).map_err(Error::Unreadable)?;
    let btf =
        Btf::read(&bytes, &[TASK, MEMORY, SIGNAL, COUNTER, MAP, SWITCH]).ok_or(Error::Malformed)?;
    let task = |path| btf.offset(TASK, path);
    Ok(KernelLayout {
        thread_pointer: if cfg!(target_arch = "aarch64") {
            task(&["thread", "uw", "tp_value"])?
        } else {
            task(&["thread", "fsbase"])?
        },
        pid: task(&["pid"])?,
        tgid: task(&["tgid"])?,
        flags: task(&["flags"])?,
        switches: task(&["nvcsw"])?,
        memory: task(&["mm"])?,
        executable_pages: btf.offset(MEMORY, &["exec_vm"])?,
        signal: task(&["signal"])?,
        live_threads: btf.offset(SIGNAL, &["live"])?,
        stack: task(&["stack"])?,
        registers: 0,
        on_cpu: task(&["on_cpu"]).unwrap_or(0),
        state: task(&["__state"]).or_else(|_| task(&["state"]))?,
        start_time: task(&["start_time"])?,
        run_time: task(&["se", "sum_exec_runtime"])?,
        run_delay: task(&["sched_info", "run_delay"]).unwrap_or(0),
        earlier_run_time: task(&["se", "prev_sum_exec_runtime"]).unwrap_or(0),
        last_arrival: task(&["sched_info", "last_arrival"]).unwrap_or(0),
        last_queued: task(&["sched_info", "last_queued"]).unwrap_or(0),
        switch_state: btf.integer_argument(SWITCH),
        comm: task(&["comm"])?,
        resident: resident_layout(&btf).unwrap_or_default(),
    })
}

/// Where the counters of resident pages are.
fn resident_layout(btf: &Btf<'_>) -> Result<ResidentLayout, Error> {
    let page_bytes = u32::try_from(rustix::param::page_size()).unwrap_or_default();
    // Since Linux 6.2 an array of counters.
    let Ok(of_thread) = btf.offset(TASK, &["rss_stat", "count"]) else {
        let count = btf.offset(COUNTER, &["count"])?;
        let distance = btf.bytes(COUNTER)?;
        if distance > MAX_COUNTER_DISTANCE {
            // A kernel that is made to find errors in locks.
            return Ok(ResidentLayout::default());
        }
        return Ok(ResidentLayout {
            counters: btf.offset(MEMORY, &["rss_stat"])? + count,
            distance,
            of_thread: 0,
            of_processors: btf.offset(COUNTER, &["counters"])? - count,
            map_values: btf.offset(MAP, &["pptrs"])?,
            page_bytes,
        });
    };
    Ok(ResidentLayout {
        counters: btf.offset(MEMORY, &["rss_stat", "count"])?,
        distance: 8,
        of_thread,
        of_processors: 0,
        map_values: 0,
        page_bytes,
    })
}

/// The types of a kernel.
struct Btf<'a> {
    types: &'a [u8],
    strings: &'a [u8],
    /// Offset of each type in `types`; ids count from 1.
    starts: Vec<u32>,
    /// Offsets of the wanted structures.
    structures: Vec<(&'static str, usize)>,
}

/// Most nested structures, and most aliases of a type, that are resolved.
const MAX_DEPTH: usize = 8;

impl<'a> Btf<'a> {
    /// Finds the types, and those of the `wanted` structures; [`None`] when a type is malformed or
    /// of an unknown kind.
    fn read(bytes: &'a [u8], wanted: &[&'static str]) -> Option<Self> {
        let (types, strings) = sections(bytes)?;
        let mut btf = Self {
            types,
            strings,
            starts: Vec::new(),
            structures: Vec::new(),
        };
        let mut at = 0;
        while at < types.len() {
            let kind = Type::read(types, at)?;
            btf.starts.push(u32::try_from(at).ok()?);
            if kind.is_wanted()
                && let Some(name) = wanted.iter().find(|name| btf.is_name(kind.name, name))
            {
                btf.structures.push((name, at));
            }
            at += kind.bytes()?;
        }
        Some(btf)
    }

    /// Offset of a wanted structure in the types.
    fn structure(&self, name: &str) -> Option<usize> {
        let mut wanted = self.structures.iter();
        let found = wanted.find(|(wanted, _)| *wanted == name);
        found.map(|(_, at)| *at)
    }

    /// Offset in bytes of the field at the end of `path` in `structure`.
    fn offset(&self, structure: &'static str, path: &[&'static str]) -> Result<u32, Error> {
        let mut at = self.structure(structure);
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
    fn integer_argument(&self, function: &str) -> u32 {
        /// The first one is data of the program; the next one is always an integer.
        const DATA: usize = 1;
        let Some(prototype) = self.prototype(function) else {
            return 0;
        };
        let Some(kind) = Type::read(self.types, prototype) else {
            return 0;
        };
        let is_integer = |index: &usize| {
            let parameter = prototype + Type::BYTES + index * PARAMETER_BYTES + 4;
            let of = word(self.types, parameter).and_then(|id| self.resolve(id));
            let of = of.and_then(|at| Type::read(self.types, at));
            of.is_some_and(|of| of.kind == 1)
        };
        let last = (DATA + 1..kind.count).rev().find(is_integer);
        last.and_then(|index| u32::try_from(index - DATA).ok())
            .unwrap_or(0)
    }

    /// The prototype to a pointer to which the type `name` is an alias.
    fn prototype(&self, name: &str) -> Option<usize> {
        let alias = Type::read(self.types, self.structure(name)?)?;
        let pointer = Type::read(self.types, self.resolve(alias.refers_to)?)?;
        let at = self.resolve(pointer.refers_to)?;
        (Type::read(self.types, at)?.kind == 13).then_some(at)
    }

    /// Bytes of a structure.
    fn bytes(&self, structure: &'static str) -> Result<u32, Error> {
        let at = self.structure(structure);
        let found = at.and_then(|at| Type::read(self.types, at));
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
        let kind = Type::read(self.types, at)?;
        if !kind.has_members() || depth == 0 {
            return None;
        }
        for index in 0..kind.count {
            let member = at + Type::BYTES + index * MEMBER_BYTES;
            let name = self.name(word(self.types, member)?)?;
            let member_type = word(self.types, member + 4)?;
            let bits = word(self.types, member + 8)?;
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
            let at = *self.starts.get((id as usize).checked_sub(1)?)? as usize;
            let kind = Type::read(self.types, at)?;
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

const MAGIC: u32 = 0x1_eb9f;
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

    /// A structure or a typedef.
    fn is_wanted(&self) -> bool {
        matches!(self.kind, 4 | 8)
    }

    /// A structure or a union.
    fn has_members(&self) -> bool {
        matches!(self.kind, 4 | 5)
    }

    /// Typedef, volatile, const, restrict, type tag.
    fn is_alias(&self) -> bool {
        matches!(self.kind, 8..=11 | 18)
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
    use super::{Btf, Error, MAGIC, VMLINUX};

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

    fn offset(btf: &[u8], path: &[&'static str]) -> Result<u32, Error> {
        let btf = Btf::read(btf, &["s"]).ok_or(Error::Malformed)?;
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

    #[test]
    fn the_running_kernel_has_all_fields() {
        assert!(std::path::Path::new(VMLINUX).exists());
        let layout = super::kernel_layout().unwrap();
        assert!(layout.thread_pointer > 0 && layout.executable_pages > 0);
        assert!(layout.switches > layout.tgid);
        assert!([0, 1, 3].contains(&layout.switch_state));
    }
}
