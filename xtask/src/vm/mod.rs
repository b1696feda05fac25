//! Runs the agent on other Linux kernels: Debian's, in QEMU, under software emulation.
//!
//! Invariants: needs neither root nor KVM, but root once to make the host on which packages are
//! installed; the guest's file system is made anew for each run, with this machine's own files, so
//! that programs that were built here run there, or with those of Debian for another architecture.

mod guest;
mod host;
mod kernel;
mod machine;
mod programs;
mod report;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::architecture::Architecture;
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

/// A kernel, and what runs on it.
#[derive(Clone, Copy, Debug)]
pub struct System<'a> {
    /// The kernel.
    pub kernel: Kernel,
    /// That of the kernel and of the program.
    pub architecture: Architecture,
    /// The agent, or another program to run.
    pub program: &'a Path,
    /// This machine's, of which the guest has one if its architecture is the same.
    pub interpreters: &'a [Interpreter],
}

impl System<'_> {
    fn machine(&self) -> Result<Machine> {
        Machine::new(self.kernel, self.architecture)
    }

    /// A guest with the program and Python in place.
    fn guest(&self) -> Result<Guest> {
        let name = self.program.file_name().context("name a file to run")?;
        let destination = Path::new("usr/bin").join(name);
        if !self.architecture.is_host() {
            let guest = Guest::with_programs(&programs::image(self.architecture)?)?;
            guest.copy(self.program, &destination)?;
            return Ok(guest);
        }
        let guest = Guest::new()?;
        guest.add_program(self.program, &destination)?;
        // The distribution's comes last in the list; it is like what most hosts have.
        let interpreter = self
            .interpreters
            .iter()
            .rfind(|interpreter| interpreter.root().is_none())
            .context("the guest needs a Python interpreter of this machine: install python3")?;
        guest.add_python(&interpreter.path)?;
        Ok(guest)
    }
}

/// Boots the system, runs the shell command `command` in it with the caller's standard output, and
/// returns its exit status.
///
/// # Errors
///
/// When the kernel cannot be downloaded or the guest does not finish the command.
pub fn run(system: &System<'_>, command: &str) -> Result<u8> {
    let guest = system.guest()?;
    guest.write("command", command)?;
    system.machine()?.boot(&guest, None, RUN_LIMIT)
}

/// Profiles a small Python program and checks that its call chain is found, in whole stacks.
///
/// # Errors
///
/// When the agent fails on this kernel, or its profile does not have the call chain.
pub fn check(system: &System<'_>) -> Result<()> {
    let guest = system.guest()?;
    guest.write("command", include_str!("../../vm/check"))?;
    guest.write("workload.py", include_str!("../../vm/workload.py"))?;
    let machine = system.machine()?;
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

/// Checks that `agent run` samples processors that go offline and come online.
///
/// # Errors
///
/// When it does not.
pub fn check_processors(system: &System<'_>) -> Result<()> {
    let guest = system.guest()?;
    guest.write("command", include_str!("../../vm/processors"))?;
    guest.write("hotplug.py", include_str!("../../vm/hotplug.py"))?;
    run_check(&system.machine()?, &guest, CHECK_LIMIT)
}

/// Checks that all events can be sampled; that a profile of the growth of memory has what the kernel counts,
/// which it does in other places since Linux 6.2; and that exceptions are recorded.
///
/// # Errors
///
/// When it does not.
pub fn check_events(system: &System<'_>) -> Result<()> {
    let guest = system.guest()?;
    guest.write("command", include_str!("../../vm/events"))?;
    guest.write("memory.py", include_str!("../../vm/memory.py"))?;
    guest.write("allocating.py", include_str!("../../vm/allocating.py"))?;
    guest.write("raising.py", include_str!("../../vm/raising.py"))?;
    run_check(&system.machine()?, &guest, CHECK_LIMIT)
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
    let machine = Machine::new(KERNEL_OF_HOST, Architecture::host())?;
    run_check(&machine, &guest, PACKAGES_LIMIT)
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
