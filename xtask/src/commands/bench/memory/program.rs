//! The programs that are measured, and what each is measured with.
//!
//! What has nothing to do in a program is left out: events of a kind that it has none of, and variants
//! of a tool where its usual form says enough.

use super::contender::Contender;

/// A program, and what it is measured with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Program {
    pub(super) name: &'static str,
    /// What is attached to it from outside.
    pub(super) outside: &'static [Contender],
    /// What it has in itself.
    pub(super) inside: &'static [Contender],
}

const GROWTH: Contender = Contender::Agent("growth");
const IN_USE: Contender = Contender::Agent("in-use");
const COPY_ON_WRITE: Contender = Contender::Agent("copy-on-write");
const ALLOC: Contender = Contender::Agent("alloc");
const EXCEPTIONS: Contender = Contender::Agent("exceptions");

/// All, in the order of the table.
pub(super) const CONTENDERS: [Contender; 11] = [
    GROWTH,
    IN_USE,
    COPY_ON_WRITE,
    ALLOC,
    EXCEPTIONS,
    Contender::PerfTrace,
    Contender::Tracemalloc(1),
    Contender::Tracemalloc(25),
    Contender::Memray,
    Contender::MemrayNative,
    Contender::MemrayAttach,
];

const OF_MEMORY: &[Contender] = &[GROWTH, IN_USE, ALLOC, Contender::PerfTrace];
const OF_PAGES: &[Contender] = &[GROWTH, IN_USE, COPY_ON_WRITE, ALLOC, Contender::PerfTrace];
const USUAL: &[Contender] = &[
    Contender::Tracemalloc(1),
    Contender::Tracemalloc(25),
    Contender::Memray,
];
const EVERY_FORM: &[Contender] = &[
    Contender::Tracemalloc(1),
    Contender::Tracemalloc(25),
    Contender::Memray,
    Contender::MemrayNative,
    Contender::MemrayAttach,
];

/// Programs that do what others do, then those that do one thing only, for which each tool is at its
/// worst.
pub(super) const PROGRAMS: [Program; 8] = [
    Program {
        name: "deep_single",
        outside: OF_MEMORY,
        inside: USUAL,
    },
    Program {
        name: "threads",
        outside: OF_MEMORY,
        inside: USUAL,
    },
    Program {
        name: "short_calls",
        outside: OF_MEMORY,
        inside: USUAL,
    },
    Program {
        name: "c_extensions",
        outside: &[GROWTH, IN_USE, ALLOC, EXCEPTIONS, Contender::PerfTrace],
        inside: EVERY_FORM,
    },
    Program {
        name: "fresh_memory",
        outside: OF_PAGES,
        inside: USUAL,
    },
    Program {
        name: "copied_memory",
        outside: OF_PAGES,
        inside: USUAL,
    },
    Program {
        name: "allocations",
        outside: OF_MEMORY,
        inside: EVERY_FORM,
    },
    Program {
        name: "exceptions",
        outside: &[EXCEPTIONS],
        inside: &[],
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_measured_has_a_row() {
        for program in PROGRAMS {
            let mut measured = program.outside.iter().chain(program.inside);
            assert!(measured.all(|contender| CONTENDERS.contains(contender)));
        }
    }
}
