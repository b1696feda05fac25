//! What profiles measure, one file per kind.
//!
//! Invariant: nothing else compares kinds; aggregation, formats, exporters and the summary take from a
//! [`Kind`] what differs.

pub mod cpu;
pub mod major_faults;
pub mod page_faults;

pub use self::cpu::KIND as CPU;

use agent_common::record::ProfileKind;

use super::kind::Kind;

impl Kind {
    /// Every kind.
    pub const ALL: &[&'static Self] = &[&cpu::KIND, &page_faults::KIND, &major_faults::KIND];

    /// The kind with a number.
    #[must_use]
    pub fn from_number(number: ProfileKind) -> Option<&'static Self> {
        Self::ALL.iter().copied().find(|kind| kind.number == number)
    }

    /// The kind with a [name](Self::name).
    #[must_use]
    pub fn from_name(name: &str) -> Option<&'static Self> {
        Self::ALL.iter().copied().find(|kind| kind.name == name)
    }

    /// Whether it is CPU time, which names of files do not mention.
    #[must_use]
    pub fn is_cpu(&self) -> bool {
        self.number == CPU.number
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// By these the reader of pprof recognizes a kind.
    fn types(kind: &Kind) -> Vec<(&'static str, &'static str)> {
        let types = kind.sample_types.iter();
        types.map(|of| (of.name, of.unit)).collect()
    }

    #[test]
    fn kinds_differ_in_what_identifies_them() {
        let all = Kind::ALL.iter();
        let numbers: BTreeSet<_> = all.clone().map(|kind| kind.number).collect();
        let names: BTreeSet<_> = all.clone().map(|kind| kind.name).collect();
        let series: BTreeSet<_> = all.map(|kind| kind.series_name).collect();
        let types: BTreeSet<Vec<_>> = Kind::ALL.iter().map(|kind| types(kind)).collect();
        let all = [numbers.len(), names.len(), series.len(), types.len()];
        assert_eq!(all, [Kind::ALL.len(); 4]);
    }

    #[test]
    fn names_are_found_and_fit_into_names_of_files() {
        for &kind in Kind::ALL {
            assert_eq!(Kind::from_name(kind.name), Some(kind));
            assert_eq!(Kind::from_number(kind.number), Some(kind));
            let is_plain = |c: char| c.is_ascii_lowercase() || c == '-';
            assert!(kind.name.chars().all(is_plain), "{}", kind.name);
        }
        assert_eq!(Kind::from_name("wall"), None);
        assert_eq!(Kind::from_number(ProfileKind(0)), None);
    }

    #[test]
    fn types_that_are_chosen_exist() {
        for kind in Kind::ALL {
            assert!(kind.default_type < kind.sample_types.len(), "{}", kind.name);
            assert!(kind.otlp_type < kind.sample_types.len(), "{}", kind.name);
        }
    }
}
