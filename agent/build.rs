//! Builds the kernel half into `$OUT_DIR/agent.bpf.o`, which the agent carries in itself.
//!
//! Invariants: rebuilt whenever the kernel half, the types both halves share, their
//! dependencies or the tools change; never installs anything. `AGENT_EBPF_OBJECT` names a ready
//! object to use instead, for packagers.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use xtask::anyhow::{Context as _, Result};
use xtask::kernel_half::Tools;
use xtask::paths::workspace;

fn main() {
    // Cargo fails the build for these lines alone; with a failing exit status it would bury them
    // under everything else that this script has printed.
    if let Err(error) = build() {
        for line in format!("{error:#}").lines() {
            println!("cargo::error={line}");
        }
    }
}

fn build() -> Result<()> {
    for name in ["AGENT_EBPF_OBJECT", "HOME", "XDG_CACHE_HOME"] {
        println!("cargo::rerun-if-env-changed={name}");
    }
    let out_directory = PathBuf::from(env::var_os("OUT_DIR").context("run this through cargo")?);
    let object = match env::var_os("AGENT_EBPF_OBJECT") {
        Some(ready) => {
            let ready = PathBuf::from(ready);
            rerun_if_changed(&ready);
            ready
        }
        None => compile(&out_directory)?,
    };
    let destination = out_directory.join("agent.bpf.o");
    fs::copy(&object, &destination).with_context(|| format!("cannot copy {}", object.display()))?;
    Ok(())
}

fn compile(out_directory: &Path) -> Result<PathBuf> {
    for input in [
        "Cargo.lock",
        "Cargo.toml",
        "agent-common/Cargo.toml",
        "agent-common/src",
        "agent-ebpf/Cargo.toml",
        "agent-ebpf/src",
    ] {
        rerun_if_changed(&workspace().join(input));
    }
    let tools = Tools::discover()?;
    rerun_if_changed(&tools.toolchain.program("rustc"));
    rerun_if_changed(&tools.linker.path);

    let architecture = env::var("CARGO_CFG_TARGET_ARCH").context("run this through cargo")?;
    let built = tools.build(&architecture, &out_directory.join("kernel-half"))?;
    for line in built.warnings.lines() {
        println!("cargo::warning={line}");
    }
    Ok(built.object)
}

fn rerun_if_changed(path: &Path) {
    println!("cargo::rerun-if-changed={}", path.display());
}
