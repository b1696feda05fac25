//! Capabilities without which the agent works, and what profiles lack then.

use rustix::thread::{CapabilitySet, capabilities};

use super::rights::{kptr_restrict, paranoid_level};

/// What decides whether `/proc/kallsyms` shows addresses (`kallsyms_show_value` of the kernel).
#[derive(Clone, Copy, Debug)]
struct KernelSymbols {
    /// `kernel.kptr_restrict`.
    kptr_restrict: i32,
    /// `kernel.perf_event_paranoid`.
    paranoid: i32,
}

/// What profiles lack because of rights that this process does not have, each as a sentence with what to do; with
/// `with_native` they are to have native and kernel frames.
#[must_use]
pub fn missing_rights(with_native: bool) -> Vec<String> {
    let Ok(sets) = capabilities(None) else {
        return Vec::new();
    };
    let symbols = kptr_restrict().zip(paranoid_level());
    let symbols = symbols.map(|(kptr_restrict, paranoid)| KernelSymbols {
        kptr_restrict,
        paranoid,
    });
    missing(sets.effective, symbols, with_native)
}

fn missing(
    present: CapabilitySet,
    symbols: Option<KernelSymbols>,
    with_native: bool,
) -> Vec<String> {
    let mut sentences = Vec::new();
    let mut say = |name: &str, what: &str| {
        sentences.push(format!("{what}: give the agent {name}"));
    };
    // The other one allows to write as well.
    if !present.intersects(CapabilitySet::DAC_READ_SEARCH | CapabilitySet::DAC_OVERRIDE) {
        say(
            "CAP_DAC_READ_SEARCH",
            "interpreters, libraries and perf maps that only other users may read are left out",
        );
    }
    // `CAP_SYS_ADMIN` allows it too, and is out of effect or given up where these two allow the rest.
    let others = CapabilitySet::BPF | CapabilitySet::PERFMON;
    let has_admin = present.contains(CapabilitySet::SYS_ADMIN) && !present.contains(others);
    if !present.contains(CapabilitySet::CHECKPOINT_RESTORE) && !has_admin {
        say(
            "CAP_CHECKPOINT_RESTORE",
            "interpreters and libraries that were removed or replaced since their programs started, as by an upgrade, are \
             left out",
        );
    }
    if let Some(symbols) = symbols.filter(|_| with_native) {
        match symbols {
            KernelSymbols {
                kptr_restrict: 0,
                paranoid: ..=1,
            } => {}
            KernelSymbols {
                kptr_restrict: ..=1,
                ..
            } => {
                if !present.contains(CapabilitySet::SYSLOG) {
                    say("CAP_SYSLOG", "functions of the kernel have no names");
                }
            }
            KernelSymbols { .. } => sentences.push(
                "functions of the kernel have no names: set the sysctl kernel.kptr_restrict to 1"
                    .to_owned(),
            ),
        }
    }
    sentences
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symbols(kptr_restrict: i32, paranoid: i32) -> KernelSymbols {
        KernelSymbols {
            kptr_restrict,
            paranoid,
        }
    }

    #[test]
    fn each_right_that_is_missing_has_what_it_costs() {
        let all = CapabilitySet::all();
        assert!(missing(all, Some(symbols(1, 2)), true).is_empty());
        for (name, right) in [
            (
                "CAP_DAC_READ_SEARCH",
                CapabilitySet::DAC_READ_SEARCH | CapabilitySet::DAC_OVERRIDE,
            ),
            ("CAP_CHECKPOINT_RESTORE", CapabilitySet::CHECKPOINT_RESTORE),
            ("CAP_SYSLOG", CapabilitySet::SYSLOG),
        ] {
            let [sentence] = &missing(all - right, Some(symbols(1, 2)), true)[..] else {
                panic!("{name}");
            };
            assert!(
                sentence.ends_with(&format!(": give the agent {name}")),
                "{sentence}"
            );
        }
        // Others are as good.
        let admin = CapabilitySet::SYS_ADMIN | CapabilitySet::DAC_OVERRIDE;
        assert!(missing(admin, None, true).is_empty());
    }

    #[test]
    fn names_of_the_kernel_are_missed_only_where_it_hides_them() {
        let without = CapabilitySet::all() - CapabilitySet::SYSLOG;
        let count = |symbols, native| missing(without, symbols, native).len();
        assert_eq!(count(Some(symbols(0, 1)), true), 0);
        assert_eq!(count(Some(symbols(0, 2)), true), 1);
        assert_eq!(count(Some(symbols(1, -1)), true), 1);
        assert_eq!(count(Some(symbols(1, 2)), false), 0);
        assert_eq!(count(None, true), 0);
        let hidden = missing(CapabilitySet::all(), Some(symbols(2, 2)), true);
        assert!(hidden[0].contains("kernel.kptr_restrict"), "{hidden:?}");
    }
}
