//! Runs the agent on other Linux kernels: Debian's, in qemu, under software emulation.
//!
//! Invariants: needs neither root nor KVM, but root once to make the host on which packages are
//! installed; the guest's file system is made anew for each run, with this machine's own files, so
//! that whatever was built here runs there. Only `x86_64`: both kernel and programs are the host's
//! architecture.

mod guest;
mod host;
mod kernel;
mod machine;
mod report;

use std::fs::{self, File};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::interpreters::Interpreter;
use guest::Guest;
pub use kernel::Kernel;
use machine::Machine;
use report::Report;

/// How long a command may take, with the boot, which takes about five seconds.
const RUN_LIMIT: Duration = Duration::from_secs(600);

/// How long a check may take, as long as it likes to load what takes no second elsewhere.
const CHECK_LIMIT: Duration = Duration::from_secs(300);

/// How long it may take to install packages and to see what their service does.
const PACKAGES_LIMIT: Duration = Duration::from_secs(1200);

/// The kernel under systemd and a package.
const KERNEL_OF_HOST: Kernel = Kernel::Newest;

/// Boots `kernel` with `program` and Python in place, runs the shell command `command` in it with
/// the caller's standard output, and returns its exit status.
///
/// # Errors
///
/// When the kernel cannot be fetched or the guest does not get to the end of the command.
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
/// When the agent fails on this kernel, or its profile is not what the program does.
pub fn check(kernel: Kernel, agent: &Path, interpreters: &[Interpreter]) -> Result<()> {
    let guest = guest(agent, interpreters)?;
    guest.write("command", include_str!("../../vm/check"))?;
    guest.write("workload.py", include_str!("../../vm/workload.py"))?;
    let machine = Machine::new(kernel)?;
    let (status, output) = command(&machine, &guest, CHECK_LIMIT)?;
    let report = Report::parse(&output)
        .with_context(|| format!("on {} the guest only said:\n{output}", machine.release()))?;
    if status != 0 {
        bail!(
            "on {} the agent ended with {status}:\n{}",
            machine.release(),
            report.messages
        );
    }
    let summary = report.judge()?;
    println!("{}: {summary}", machine.release());
    Ok(())
}

/// Checks that the agent of a host samples processors that come, go and return, on `kernel`.
///
/// # Errors
///
/// When it does not.
pub fn check_processors(kernel: Kernel, agent: &Path, interpreters: &[Interpreter]) -> Result<()> {
    let guest = guest(agent, interpreters)?;
    guest.write("command", include_str!("../../vm/processors"))?;
    guest.write("hotplug.py", include_str!("../../vm/hotplug.py"))?;
    prove(&Machine::new(kernel)?, &guest, CHECK_LIMIT)
}

/// Installs a package of the agent on a host that systemd runs, upgrades it to another one and
/// removes it again; checks that its service does what it should all that while.
///
/// # Errors
///
/// With what is not as it should be.
pub fn check_packages(first: &Path, second: &Path) -> Result<()> {
    let guest = Guest::debian(&host::image()?)?;
    guest.copy(first, Path::new("packages/first.deb"))?;
    guest.copy(second, Path::new("packages/second.deb"))?;
    let unit = "etc/systemd/system/workload.service";
    guest.write(unit, include_str!("../../vm/workload.service"))?;
    guest.write("workload.py", include_str!("../../vm/workload.py"))?;
    guest.write("command", include_str!("../../vm/service"))?;
    prove(&Machine::new(KERNEL_OF_HOST)?, &guest, PACKAGES_LIMIT)
}

/// Runs a command that ends with 0 when all is as it should be, and says what it has proved.
fn prove(machine: &Machine, guest: &Guest, limit: Duration) -> Result<()> {
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
    let status = machine.boot(guest, Some(&File::create(&path)?), limit)?;
    let output = fs::read(&path)?;
    Ok((status, String::from_utf8_lossy(&output).into_owned()))
}

fn guest(program: &Path, interpreters: &[Interpreter]) -> Result<Guest> {
    let guest = Guest::new()?;
    let name = program.file_name().context("name a file to run")?;
    guest.add_program(program, &Path::new("usr/bin").join(name))?;
    // The distribution's comes last in the list; it is like what most hosts have.
    let interpreter = interpreters
        .iter()
        .rfind(|interpreter| interpreter.root().is_none())
        .context("the guest needs an interpreter of this machine: install python3")?;
    guest.add_python(&interpreter.path)?;
    Ok(guest)
}
