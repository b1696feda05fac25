//! What to do about a process that may not be read.

use std::fs;

use rustix::process::geteuid;

use super::procfs::Process;

/// What to do about a process whose memory may not be read, to follow a colon.
///
/// The kernel asks for the right to attach to it as a debugger.
#[must_use]
pub fn attach_hint(pid: u32) -> String {
    let is_own = Process::open(pid).is_ok_and(|it| it.user() == Some(geteuid().as_raw()));
    let level = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").ok();
    hint(is_own, level.as_deref().map_or("0", str::trim))
}

fn hint(is_own: bool, level: &str) -> String {
    let also = if is_own && level != "0" {
        format!(", or set kernel.yama.ptrace_scope, which is {level}, to 0")
    } else {
        String::new()
    };
    format!(
        "run agent as root (sudo), or give it CAP_SYS_PTRACE (containers: --cap-add SYS_PTRACE, or SYS_PTRACE in \
         `capabilities`){also}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_level_is_named_where_it_is_why() {
        assert!(hint(true, "1").contains("ptrace_scope, which is 1, to 0"));
        for (is_own, level) in [(true, "0"), (false, "1")] {
            let hint = hint(is_own, level);
            assert!(hint.contains("--cap-add SYS_PTRACE"), "{hint}");
            assert!(!hint.contains("yama"), "{hint}");
        }
    }
}
