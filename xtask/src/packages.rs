//! Installs packages of the distribution, on Debian and its derivatives.
//!
//! Invariants: only missing packages are installed; the lists of packages are only updated when something
//! is to be installed, once; one thread at a time runs apt.

use std::process::Command;
use std::sync::{Mutex, OnceLock, PoisonError};

use anyhow::{Context as _, Result};

use crate::process::{as_root, capture, find_program, succeeds};

/// Installs the packages of `names` that are missing, and prints their names.
///
/// # Errors
///
/// With the command to run by hand when there is no apt, no right to use it, or it fails.
pub fn install(names: &[&str]) -> Result<()> {
    static APT: Mutex<()> = Mutex::new(());
    let _apt = APT.lock().unwrap_or_else(PoisonError::into_inner);
    let missing: Vec<_> = names.iter().filter(|name| !is_installed(name)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let advice = || {
        let list: Vec<_> = missing.iter().map(|name| **name).collect();
        format!("install by hand: {}", list.join(" "))
    };
    update().with_context(advice)?;
    let mut apt = apt_get().with_context(advice)?;
    apt.args(["install", "-y", "-qq", "--no-install-recommends"])
        .args(&missing);
    capture(&mut apt).with_context(advice)?;
    for name in missing {
        println!("installed package {name}");
    }
    Ok(())
}

/// Whether apt has a package of this name, with updated lists.
#[must_use]
pub fn is_available(name: &str) -> bool {
    update().is_ok()
        && capture(Command::new("apt-cache").args(["policy", name])).is_ok_and(|policy| {
            policy
                .lines()
                .any(|line| line.contains("Candidate:") && !line.contains("(none)"))
        })
}

/// Whether the package is installed.
#[must_use]
pub fn is_installed(name: &str) -> bool {
    capture(Command::new("dpkg-query").args(["-W", "-f", "${db:Status-Status}", name]))
        .is_ok_and(|status| status == "installed")
}

fn update() -> Result<()> {
    static UPDATED: OnceLock<bool> = OnceLock::new();
    let mut apt = apt_get()?;
    let is_updated = *UPDATED.get_or_init(|| succeeds(apt.args(["update", "-q"])));
    // Old lists may suffice, as on a machine where one of many sources is out of reach.
    if !is_updated {
        println!("warning: `apt-get update` failed; using the lists of its last run");
    }
    Ok(())
}

fn apt_get() -> Result<Command> {
    let apt = find_program("apt-get").context("there is no apt-get on this machine")?;
    let env = find_program("env").context("there is no env on this machine")?;
    // Through env, because sudo drops variables.
    let mut command = as_root(env, true)?;
    command.arg("DEBIAN_FRONTEND=noninteractive").arg(apt);
    // Another process may install something, as a test beside this one.
    command.args(["-o", "DPkg::Lock::Timeout=300"]);
    Ok(command)
}
