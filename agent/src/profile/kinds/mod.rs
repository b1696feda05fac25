//! What profiles measure, one file per kind.
//!
//! Invariant: nothing else compares kinds; aggregation, formats, exporters and the summary take from a
//! [`Kind`] what differs.

pub mod allocations;
pub mod copy_on_write;
pub mod cpu;
pub mod exceptions;
mod foreign;
pub mod gil;
pub mod gil_held;
pub mod growth;
pub mod in_use;
pub mod lock;
pub mod lock_release;
pub mod major_faults;
pub mod off_cpu;
pub mod page_faults;
pub mod peak;
pub mod run_queue;
pub mod tasks;
pub mod wall;

pub use self::{
    cpu::KIND as CPU,
    foreign::{ForeignTypes, foreign},
};

use agent_common::record::ProfileKind;

use super::kind::Kind;

impl Kind {
    /// Every kind.
    pub const ALL: &[&'static Self] = &[
        &cpu::KIND,
        &wall::KIND,
        &off_cpu::KIND,
        &run_queue::KIND,
        &gil::KIND,
        &gil_held::KIND,
        &lock::KIND,
        &lock_release::KIND,
        &tasks::KIND,
        &page_faults::KIND,
        &major_faults::KIND,
        &growth::KIND,
        &in_use::KIND,
        &peak::KIND,
        &copy_on_write::KIND,
        &allocations::KIND,
        &exceptions::KIND,
    ];

    /// Whether samples are recorded as this kind.
    #[must_use]
    pub fn is_recorded(number: ProfileKind) -> bool {
        Self::ALL.iter().any(|kind| kind.recorded_as() == number)
    }

    /// The kind with a [name](Self::name).
    #[must_use]
    pub fn from_name(name: &str) -> Option<&'static Self> {
        Self::ALL.iter().copied().find(|kind| kind.name == name)
    }

    /// Whether it is what processes grow by, of which it is known how much they have given back.
    #[must_use]
    pub fn is_growth(&self) -> bool {
        self.number == growth::KIND.number
    }

    /// Whether it is memory that is copied because it is written to.
    #[must_use]
    pub fn is_about_copies(&self) -> bool {
        self.number == copy_on_write::KIND.number
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

    use agent_common::record::WaitReason;

    use super::*;
    use crate::profile::{SampleType, TypeNaming};

    /// By these the reader of pprof recognizes a kind: the types of its values, and a comment.
    fn types(kind: &Kind) -> (Vec<(&'static str, &'static str)>, Option<&'static str>) {
        let types = kind.names.sample_types.iter();
        let types = types.map(|of| (of.name, of.unit)).collect();
        (types, kind.is_named_as_in_go().then_some(kind.name))
    }

    #[test]
    fn kinds_differ_in_what_identifies_them() {
        let all = Kind::ALL.iter();
        let numbers: BTreeSet<_> = all.clone().map(|kind| kind.number).collect();
        let names: BTreeSet<_> = all.clone().map(|kind| kind.name).collect();
        let types: BTreeSet<_> = all.map(|kind| types(kind)).collect();
        let all = [numbers.len(), names.len(), types.len()];
        assert_eq!(all, [Kind::ALL.len(); 3]);
        for naming in [TypeNaming::Pprof, TypeNaming::Parca, TypeNaming::Otlp] {
            let all = Kind::ALL.iter();
            let series: BTreeSet<_> = all.map(|kind| kind.names_in(naming).series).collect();
            assert_eq!(series.len(), Kind::ALL.len(), "{naming:?}");
        }
    }

    /// The key of the series of a kind in a collector.
    fn series(kind: &Kind, naming: TypeNaming) -> String {
        let names = kind.names_in(naming);
        let value = names.sample_types[kind.default_type];
        let period = names.period_type;
        format!(
            "{}:{}:{}:{}:{}",
            names.series, value.name, value.unit, period.name, period.unit
        )
    }

    #[test]
    fn names_are_those_that_collectors_know() {
        for (kind, pprof, parca) in [
            (
                &cpu::KIND,
                "process_cpu:cpu:nanoseconds:cpu:nanoseconds",
                "process_cpu:cpu:nanoseconds:cpu:nanoseconds",
            ),
            (
                &wall::KIND,
                "wall:wall:nanoseconds:wall:nanoseconds",
                "fgprof:time:nanoseconds:wallclock:nanoseconds",
            ),
            (
                &lock::KIND,
                "block:delay:nanoseconds:contentions:count",
                "block:delay:nanoseconds:contentions:count",
            ),
            (
                &lock_release::KIND,
                "mutex:delay:nanoseconds:contentions:count",
                "mutex:delay:nanoseconds:contentions:count",
            ),
            (
                &off_cpu::KIND,
                "offcpu:offcpu:nanoseconds:offcpu:nanoseconds",
                "parca_agent:wallclock:nanoseconds:samples:count",
            ),
        ] {
            assert_eq!(series(kind, TypeNaming::Pprof), pprof);
            assert_eq!(series(kind, TypeNaming::Parca), parca);
            assert_eq!(kind.has_names_of(TypeNaming::Parca), pprof != parca);
        }
        let otlp = |kind: &Kind| kind.names_in(TypeNaming::Otlp).sample_types[kind.otlp_type];
        assert_eq!(otlp(&cpu::KIND), SampleType::SAMPLES);
        assert_eq!(otlp(&wall::KIND), SampleType::value("wall", "nanoseconds"));
        let off_cpu = SampleType::value("off_cpu", "nanoseconds");
        assert_eq!(otlp(&off_cpu::KIND), off_cpu);
    }

    #[test]
    fn samples_of_passes_are_of_the_kinds_that_their_threads_were_in() {
        let of = |recorded, wait| {
            let has = |kind: &&&Kind| kind.has_samples(recorded, wait);
            let kinds = Kind::ALL.iter().filter(has);
            kinds.map(|kind| kind.name).collect::<Vec<_>>()
        };
        let wall = ProfileKind::WALL;
        assert_eq!(of(wall, WaitReason::NONE), ["wall"]);
        let waits_for_cpu = ["wall", "off-cpu", "run-queue"];
        assert_eq!(of(wall, WaitReason::RUNNABLE), waits_for_cpu);
        assert_eq!(of(wall, WaitReason::SLEEP), ["wall", "off-cpu"]);
        for (recorded, name) in [
            (ProfileKind::CPU, "cpu"),
            (ProfileKind::GIL, "gil"),
            (ProfileKind::GIL_HELD, "gil-held"),
            (ProfileKind::LOCK, "lock"),
        ] {
            assert_eq!(of(recorded, WaitReason::RUNNABLE), [name]);
            assert!(Kind::is_recorded(recorded));
        }
        for derived in [&off_cpu::KIND, &run_queue::KIND] {
            assert!(!Kind::is_recorded(derived.number));
        }
    }

    #[test]
    fn names_are_found_and_fit_into_names_of_files() {
        for &kind in Kind::ALL {
            assert_eq!(Kind::from_name(kind.name), Some(kind));
            let is_plain = |c: char| c.is_ascii_lowercase() || c == '-';
            assert!(kind.name.chars().all(is_plain), "{}", kind.name);
        }
        assert_eq!(Kind::from_name("gills"), None);
        assert!(!Kind::is_recorded(ProfileKind(0)));
    }

    #[test]
    fn types_that_are_chosen_exist() {
        for kind in Kind::ALL {
            let types = kind.names.sample_types.len();
            assert!(kind.default_type < types, "{}", kind.name);
            assert!(kind.otlp_type < types, "{}", kind.name);
        }
    }
}
