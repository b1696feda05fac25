//! `CAP_SYS_ADMIN`, which Debian's and Ubuntu's kernels require for perf events above the level 2 of
//! `kernel.perf_event_paranoid`, whatever `CAP_PERFMON` allows elsewhere; all kernels require it for probes in programs.
//!
//! Invariants: the agent of a host has it in effect while it opens perf events or attaches probes, and at no other time;
//! where neither requires it, the agent gives it up for good.

use std::{fs, io};

use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};
use tracing::warn;

/// The level above which capabilities other than this one do not allow perf events.
const HIGHEST_OF_THE_KERNEL: i32 = 2;

/// Takes `CAP_SYS_ADMIN` out of effect, and gives it up where neither perf events nor probes require it.
///
/// Threads have capabilities of their own, which they inherit: it must run before there are others.
pub fn lower(has_probes: bool) {
    let Ok(sets) = capabilities(None) else {
        return;
    };
    // Where it stands for these two, they are needed all the time.
    let others = CapabilitySet::BPF | CapabilitySet::PERFMON;
    if !sets.permitted.contains(CapabilitySet::SYS_ADMIN) || !sets.effective.contains(others) {
        return;
    }
    let is_required = paranoid_level().is_none_or(|level| level > HIGHEST_OF_THE_KERNEL);
    if !is_required && !has_probes {
        give_up();
        return;
    }
    if let Err(error) = change(|sets| sets.effective.remove(CapabilitySet::SYS_ADMIN)) {
        warn!("CAP_SYS_ADMIN stays in effect: {error}");
    }
}

/// Gives up `CAP_SYS_ADMIN` in this thread and in those that it starts.
pub fn give_up() {
    let given_up = change(|sets| {
        for set in [
            &mut sets.effective,
            &mut sets.permitted,
            &mut sets.inheritable,
        ] {
            set.remove(CapabilitySet::SYS_ADMIN);
        }
    });
    if let Err(error) = given_up {
        warn!("CAP_SYS_ADMIN is not given up: {error}");
    }
}

/// Does something with `CAP_SYS_ADMIN` in effect, if this thread is permitted to have it.
pub(super) fn with_sys_admin<T>(run: impl FnOnce() -> T) -> T {
    let is_raised = capabilities(None).is_ok_and(|sets| {
        let has = |set: CapabilitySet| set.contains(CapabilitySet::SYS_ADMIN);
        has(sets.permitted) && !has(sets.effective)
    });
    let raised = is_raised && change(|sets| sets.effective |= CapabilitySet::SYS_ADMIN).is_ok();
    let result = run();
    if raised {
        // What was just raised can be lowered.
        let _ = change(|sets| sets.effective.remove(CapabilitySet::SYS_ADMIN));
    }
    result
}

fn change(change: impl FnOnce(&mut CapabilitySets)) -> io::Result<()> {
    let mut sets = capabilities(None)?;
    change(&mut sets);
    Ok(set_capabilities(None, sets)?)
}

/// `kernel.perf_event_paranoid`.
pub(super) fn paranoid_level() -> Option<i32> {
    level("perf_event_paranoid")
}

/// `kernel.kptr_restrict`.
pub(super) fn kptr_restrict() -> Option<i32> {
    level("kptr_restrict")
}

fn level(name: &str) -> Option<i32> {
    let level = fs::read_to_string(format!("/proc/sys/kernel/{name}")).ok()?;
    level.trim().parse().ok()
}

/// What to do about a level that forbids perf events.
pub(super) fn paranoid_hint() -> String {
    match paranoid_level() {
        Some(level) => hint(level),
        None => String::new(),
    }
}

fn hint(level: i32) -> String {
    if level <= HIGHEST_OF_THE_KERNEL {
        return String::new();
    }
    format!(
        ": kernel.perf_event_paranoid is {level}, at which this kernel requires CAP_SYS_ADMIN; give \
         it to the agent, which has it in effect only while it opens perf events (root on the host \
         has it; containers: --cap-add=SYS_ADMIN, or SYS_ADMIN in `capabilities`; systemd: \
         CAP_SYS_ADMIN in AmbientCapabilities and CapabilityBoundingSet), or set the level to 2 for \
         all programs with `sysctl kernel.perf_event_paranoid=2`"
    )
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    fn effective() -> bool {
        let sets = capabilities(None).unwrap();
        sets.effective.contains(CapabilitySet::SYS_ADMIN)
    }

    fn permitted() -> bool {
        let sets = capabilities(None).unwrap();
        sets.permitted.contains(CapabilitySet::SYS_ADMIN)
    }

    #[test]
    fn it_is_in_effect_only_while_it_is_used() {
        // Capabilities are those of a thread.
        let run = || {
            change(|sets| sets.effective.remove(CapabilitySet::SYS_ADMIN)).unwrap();
            let is_permitted = permitted();
            assert_eq!(with_sys_admin(effective), is_permitted);
            assert!(!effective());
            lower(true);
            assert!(!effective());
            assert_eq!(permitted(), is_permitted);
            lower(false);
            assert!(!effective());
            let is_required = paranoid_level().is_none_or(|level| level > HIGHEST_OF_THE_KERNEL);
            assert_eq!(permitted(), is_permitted && is_required);
            assert_eq!(with_sys_admin(effective), is_permitted && is_required);
        };
        thread::spawn(run).join().unwrap();
    }

    #[test]
    fn it_is_not_touched_where_it_is_in_effect() {
        let before = effective();
        assert_eq!(with_sys_admin(effective), before);
        assert_eq!(effective(), before);
    }

    #[test]
    fn the_hint_names_the_capability_and_the_level() {
        assert_eq!(hint(2), "");
        let hint = hint(3);
        assert!(
            hint.contains("is 3") && hint.contains("CAP_SYS_ADMIN"),
            "{hint}"
        );
        // Who is root in a container lacks it too.
        assert!(!hint.contains("run agent as root"), "{hint}");
    }
}
