//! Which type of memory a sample is about, or what of it was written to: a marker as the leaf of the stack, from which the label follows.

use agent_common::record::MemoryType;

/// A type of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Memory {
    /// Pages of files.
    File,
    /// Memory of the process's own.
    Anonymous,
    /// Memory that processes share.
    Shared,
    /// Of memory that was written to, the reference count of a Python object.
    ReferenceCount,
    /// What the garbage collector keeps with a Python object.
    GcHeader,
    /// Contents of objects, and memory that is not Python's.
    Data,
}

/// A type, its number in records, its label and its marker.
type Row = (Memory, MemoryType, &'static str, &'static str);

const ROWS: [Row; 6] = [
    (Memory::File, MemoryType::FILE, "file", "[file memory]"),
    (
        Memory::Anonymous,
        MemoryType::ANONYMOUS,
        "anonymous",
        "[anonymous memory]",
    ),
    (
        Memory::Shared,
        MemoryType::SHARED,
        "shared",
        "[shared memory]",
    ),
    (
        Memory::ReferenceCount,
        MemoryType::REFERENCE_COUNT,
        "reference count",
        "[reference count]",
    ),
    (
        Memory::GcHeader,
        MemoryType::GC_HEADER,
        "gc header",
        "[gc header]",
    ),
    (Memory::Data, MemoryType::DATA, "data", "[data]"),
];

impl Memory {
    /// From its number in records; [`None`] for a sample that is not about memory.
    #[must_use]
    pub fn from_type(number: MemoryType) -> Option<Self> {
        let row = ROWS.iter().find(|(_, of, ..)| *of == number);
        row.map(|(memory, ..)| *memory)
    }

    /// From the name of its marker.
    #[must_use]
    pub fn from_marker(name: &str) -> Option<Self> {
        let row = ROWS.iter().find(|(.., marker)| *marker == name);
        row.map(|(memory, ..)| *memory)
    }

    /// Value of the label of its samples.
    #[must_use]
    pub fn label(self) -> &'static str {
        ROWS[self as usize].2
    }

    /// Whether it is what was written to, not a type of memory.
    #[must_use]
    pub fn is_written_part(self) -> bool {
        matches!(self, Self::ReferenceCount | Self::GcHeader | Self::Data)
    }

    /// Name of the marker that is the leaf of its stacks.
    #[must_use]
    pub fn marker(self) -> &'static str {
        ROWS[self as usize].3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_type_has_a_label_and_a_marker_of_its_own() {
        for (memory, number, label, marker) in ROWS {
            assert_eq!(Memory::from_type(number), Some(memory));
            assert_eq!(Memory::from_marker(marker), Some(memory));
            assert_eq!((memory.label(), memory.marker()), (label, marker));
            let is_type = marker == format!("[{label} memory]");
            assert!(is_type || marker == format!("[{label}]"), "{marker}");
        }
        assert_eq!(Memory::from_type(MemoryType::NONE), None);
        assert_eq!(Memory::from_marker("[gc]"), None);
    }
}
