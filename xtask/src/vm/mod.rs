//! Runs the agent on other Linux kernels: Debian's, in QEMU, under software emulation.
//!
//! Invariants: needs neither root nor KVM, but root once to make the host on which packages are
//! installed; the guest's file system is made anew for each run, with this machine's own files, so
//! that programs that were built here run there. Only on `x86_64`: kernel and programs have the
//! architecture of this machine.

mod guest;
mod host;
mod kernel;
mod machine;
mod report;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::interpreters::Interpreter;
use guest::Guest;
pub use kernel::Kernel;
use machine::Machine;
use report::Report;

/// Time limit of a command, including the boot, which takes about five seconds.
const RUN_LIMIT: Duration = Duration::from_secs(600);

/// Time limit of a check. Emulated, loading the BPF programs takes much longer than on a real machine, and two checks may
/// share its processors.
const CHECK_LIMIT: Duration = Duration::from_secs(600);

/// Time limit of installing packages and checking their service.
const PACKAGES_LIMIT: Duration = Duration::from_secs(1200);

/// The kernel of the host on which packages are installed.
const KERNEL_OF_HOST: Kernel = Kernel::Newest;

/// Boots `kernel` with `program` and Python in place, runs the shell command `command` in it with
/// the caller's standard output, and returns its exit status.
///
/// # Errors
///
/// When the kernel cannot be downloaded or the guest does not finish the command.
pub fn run(
    kernel: Kernel,
    program: &Path,
    interpreters: &[Interpreter],
    command: &str,
) -> Result<u8> {
    let guest = guest(program, interpreters)?;
    guest.write("command", command)?;
    Machine::new(kernel)?.boot(&guest, None, RUN_LIMIT)
}

/// Profiles a small Python program on `kernel` and checks that its call chain is found.
///
/// # Errors
///
/// When the agent fails on this kernel, or its profile does not have the call chain.
pub fn check(kernel: Kernel, agent: &Path, interpreters: &[Interpreter]) -> Result<()> {
    let guest = guest(agent, interpreters)?;
    guest.write("command", include_str!("../../vm/check"))?;
    guest.write("workload.py", include_str!("../../vm/workload.py"))?;
    let machine = Machine::new(kernel)?;
    let (status, output) = command(&machine, &guest, CHECK_LIMIT)?;
    let report = Report::parse(&output).with_context(|| {
        format!(
            "on {} the output of the guest is incomplete:\n{output}",
            machine.release()
        )
    })?;
    if status != 0 {
        bail!(
            "on {} the agent exited with status {status}:\n{}",
            machine.release(),
            report.messages
        );
    }
    let summary = report.judge()?;
    println!("{}: {summary}", machine.release());
    Ok(())
}

/// Checks on `kernel` that `agent run` samples processors that go offline and come online.
///
/// # Errors
///
/// When it does not.
pub fn check_processors(kernel: Kernel, agent: &Path, interpreters: &[Interpreter]) -> Result<()> {
    let guest = guest(agent, interpreters)?;
    guest.write("command", include_str!("../../vm/processors"))?;
    guest.write("hotplug.py", include_str!("../../vm/hotplug.py"))?;
    run_check(&Machine::new(kernel)?, &guest, CHECK_LIMIT)
}

/// Checks on `kernel` that all events can be sampled; that a profile of the growth of memory has what the kernel counts,
/// which it does in other places since Linux 6.2; and that exceptions are recorded.
///
/// # Errors
///
/// When it does not.
pub fn check_events(kernel: Kernel, agent: &Path, interpreters: &[Interpreter]) -> Result<()> {
    let guest = guest(agent, interpreters)?;
    guest.write("command", include_str!("../../vm/events"))?;
    guest.write("memory.py", include_str!("../../vm/memory.py"))?;
    guest.write("allocating.py", include_str!("../../vm/allocating.py"))?;
    guest.write("raising.py", include_str!("../../vm/raising.py"))?;
    run_check(&Machine::new(kernel)?, &guest, CHECK_LIMIT)
}

/// Installs a package of the agent on a host with systemd, upgrades it to another one and removes
/// it, and checks its service after each step. Before that it runs the agent with the `capabilities`
/// of a container.
///
/// # Errors
///
/// With the output of the check that failed.
pub fn check_packages(first: &Path, second: &Path, capabilities: &BTreeSet<String>) -> Result<()> {
    let guest = Guest::debian(&host::image()?)?;
    guest.copy(first, Path::new("packages/first.deb"))?;
    guest.copy(second, Path::new("packages/second.deb"))?;
    let unit = "etc/systemd/system/workload.service";
    guest.write(unit, include_str!("../../vm/workload.service"))?;
    guest.write("workload.py", include_str!("../../vm/workload.py"))?;
    // As `setpriv` expects them.
    let capabilities = capabilities
        .iter()
        .map(|name| format!("+{}", name.to_lowercase()));
    let capabilities: Vec<_> = capabilities.collect();
    guest.write("capabilities", &capabilities.join(","))?;
    guest.write("command", include_str!("../../vm/service"))?;
    run_check(&Machine::new(KERNEL_OF_HOST)?, &guest, PACKAGES_LIMIT)
}

/// Runs the guest's command, which prints what it has checked and exits with 0 if all is right.
fn run_check(machine: &Machine, guest: &Guest, limit: Duration) -> Result<()> {
    let (status, output) = command(machine, guest, limit)?;
    if status != 0 {
        bail!("on {}:\n{output}", machine.release());
    }
    println!("{}:\n{}", machine.release(), output.trim_end());
    Ok(())
}

/// Runs the guest's command; gives its exit status and its output.
fn command(machine: &Machine, guest: &Guest, limit: Duration) -> Result<(u8, String)> {
    let path = guest.scratch().join("output");
    let status = machine.boot(guest, Some(&File::create(&path)?), limit);
    let output = fs::read(&path)?;
    let output = String::from_utf8_lossy(&output).into_owned();
    let status = status.with_context(|| format!("the command printed:\n{output}"))?;
    Ok((status, output))
}

fn guest(program: &Path, interpreters: &[Interpreter]) -> Result<Guest> {
    let guest = Guest::new()?;
    let name = program.file_name().context("name a file to run")?;
    guest.add_program(program, &Path::new("usr/bin").join(name))?;
    // The distribution's comes last in the list; it is like what most hosts have.
    let interpreter = interpreters
        .iter()
        .rfind(|interpreter| interpreter.root().is_none())
        .context("the guest needs a Python interpreter of this machine: install python3")?;
    guest.add_python(&interpreter.path)?;
    Ok(guest)
}
