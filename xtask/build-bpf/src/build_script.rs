//! The build script of the agent.
//!
//! Invariant: the object is rebuilt whenever the BPF programs, the types that they share with the
//! agent, their dependencies or the tools change.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::paths::workspace;
use crate::strip::{Stripped, strip};
use crate::tools::Tools;

/// Names a ready object, which is used instead of building one.
const READY_OBJECT: &str = "AGENT_EBPF_OBJECT";

/// What the object is built from.
const INPUTS: [&str; 6] = [
    "Cargo.lock",
    "Cargo.toml",
    "agent-common/Cargo.toml",
    "agent-common/src",
    "agent-ebpf/Cargo.toml",
    "agent-ebpf/src",
];

/// Builds the BPF programs into the file `name` of `$OUT_DIR`, or takes what `AGENT_EBPF_OBJECT`
/// names, without debug information. Prints errors and warnings as instructions to cargo.
pub fn build_script(name: &str) {
    // Cargo fails the build for these lines alone; with a failing exit status it would bury them
    // under everything else that the script has printed.
    if let Err(error) = provide(name) {
        for line in format!("{error:#}").lines() {
            println!("cargo::error={line}");
        }
    }
}

fn provide(name: &str) -> Result<()> {
    for name in [READY_OBJECT, "HOME", "XDG_CACHE_HOME"] {
        println!("cargo::rerun-if-env-changed={name}");
    }
    let out_directory = PathBuf::from(env::var_os("OUT_DIR").context("run this through cargo")?);
    let object = match env::var_os(READY_OBJECT) {
        Some(ready) => {
            let ready = PathBuf::from(ready);
            rerun_if_changed(&ready);
            ready
        }
        None => build(&out_directory)?,
    };
    let whole = fs::read(&object).with_context(|| format!("cannot read {}", object.display()))?;
    // Whoever works on the programs sees their lines in the verifier's messages.
    let what = match env::var("PROFILE").as_deref() {
        Ok("debug") => Stripped::Dwarf,
        _ => Stripped::Lines,
    };
    let stripped = strip(&whole, what).unwrap_or_else(|error| {
        // It works as well with all that is in it.
        println!("cargo::warning=the BPF object is not stripped: {error:#}");
        whole
    });
    let destination = out_directory.join(name);
    fs::write(&destination, stripped)
        .with_context(|| format!("cannot write {}", destination.display()))?;
    Ok(())
}

fn build(out_directory: &Path) -> Result<PathBuf> {
    for input in INPUTS {
        rerun_if_changed(&workspace().join(input));
    }
    let tools = Tools::discover()?;
    rerun_if_changed(&tools.toolchain.program("rustc"));
    rerun_if_changed(&tools.linker.path);

    let architecture = env::var("CARGO_CFG_TARGET_ARCH").context("run this through cargo")?;
    let object = tools.build(&architecture, &shared(out_directory).join(&architecture))?;
    for line in object.warnings.lines() {
        println!("cargo::warning={line}");
    }
    Ok(object.path)
}

/// Where the programs are built, for all builds of the agent with this profile: some have other features and
/// thus another `out_directory`, which is below it.
fn shared(out_directory: &Path) -> PathBuf {
    let directory = out_directory.ancestors().nth(3).unwrap_or(out_directory);
    directory.join("bpf")
}

fn rerun_if_changed(path: &Path) {
    println!("cargo::rerun-if-changed={}", path.display());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_inputs_are_there() {
        for input in INPUTS {
            assert!(workspace().join(input).exists(), "{input}");
        }
    }
}
