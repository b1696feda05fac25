//! Finds or installs what the project is built and tested with, and says what it found or did.
//!
//! Invariants: whatever is there is used as it is; each thing gives one line; a second run
//! changes nothing.

use std::process::Command;

use anyhow::{Result, bail};

use crate::cluster;
use crate::consumers;
use crate::kernel_half::Tools;
use crate::linker;
use crate::packages;
use crate::process::{cargo, find_program, succeeds};
use crate::toolchain::{self, Provider, Toolchain};
use crate::tools;

/// The distribution's compiler with the source of `core`.
const DEBIAN_RUST: [&str; 3] = ["rustc-web", "cargo-web", "rust-web-src"];

/// Finds or installs the toolchain and the linker of the kernel half.
///
/// # Errors
///
/// With the commands to run by hand when something is missing and cannot be installed.
pub fn kernel_half() -> Result<Tools> {
    let tools = match Tools::discover() {
        Ok(tools) => tools,
        Err(_) => install_kernel_half()?,
    };
    let Tools { toolchain, linker } = &tools;
    let (major, minor) = toolchain.version;
    println!(
        "toolchain: {} {major}.{minor} with LLVM {}, {}",
        toolchain.place.provider,
        toolchain.llvm,
        toolchain.program("rustc").display()
    );
    println!(
        "linker: bpf-linker {} with LLVM {}, {}",
        linker::VERSION,
        linker.llvm,
        linker.path.display()
    );
    Ok(tools)
}

/// Makes the programs that the tests start and that no package has as they need it: collectors, and
/// the API server of a cluster.
///
/// # Errors
///
/// Naming the first that cannot be made.
pub fn programs_of_others() -> Result<()> {
    consumers::ensure_all()?;
    cluster::ensure_programs()
}

/// Finds, installs or fetches the tools that the tests run.
///
/// # Errors
///
/// When one of them is missing and cannot be installed, naming its package.
pub fn test_programs() -> Result<()> {
    tools::ensure_all()
}

/// Finds or installs the formatter and the linters: cargo's own for the host's half, the
/// toolchain's own for the kernel half.
///
/// # Errors
///
/// When one of them is missing and cannot be installed.
pub fn linters(tools: &Tools) -> Result<()> {
    for (command, component, package) in [
        ("fmt", "rustfmt", "rustfmt-web"),
        ("clippy", "clippy", "rust-web-clippy"),
    ] {
        // It is not enough that the program is there: rustup's stand-in for it always is.
        if !succeeds(cargo().args([command, "--version"])) && !add_component(component, None) {
            packages::install(&[package])?;
        }
    }
    let clippy = tools.toolchain.program("cargo-clippy");
    let provider = &tools.toolchain.place.provider;
    if !clippy.exists() {
        match provider {
            Provider::Rustup(name) => {
                add_component("clippy", Some(name));
            }
            Provider::Distribution => packages::install(&["rust-web-clippy"])?,
        }
    }
    if !clippy.exists() {
        bail!(
            "linting the kernel half needs {}: install clippy for {provider}",
            clippy.display()
        );
    }
    println!("linter of the kernel half: {}", clippy.display());
    Ok(())
}

/// Installs what is missing: first to what is there already, then the distribution's toolchain.
fn install_kernel_half() -> Result<Tools> {
    let mut toolchains = toolchain::find_all();
    if toolchains.is_empty() && add_component("rust-src", None) {
        println!("added rust-src to rustup's active toolchain");
        toolchains = toolchain::find_all();
    }
    if let Some(tools) = complete(&toolchains)? {
        return Ok(tools);
    }
    let installed = packages::install(&DEBIAN_RUST);
    if let Some(tools) = complete(&toolchain::find_all())? {
        return Ok(tools);
    }
    let advice = format!(
        "no Rust toolchain of {} or later with the source of `core` and an LLVM to build \
         bpf-linker with: run `rustup component add rust-src` and install LLVM of the same \
         version with its development files, or on Debian run `apt-get install {} llvm-22-dev`",
        env!("CARGO_PKG_RUST_VERSION"),
        DEBIAN_RUST.join(" ")
    );
    match installed {
        Ok(()) => bail!(advice),
        Err(error) => Err(error.context(advice)),
    }
}

/// Finds or builds the linker for one of the toolchains; nothing if there is no LLVM for any of
/// them, nor a package of one.
fn complete(toolchains: &[Toolchain]) -> Result<Option<Tools>> {
    let linkers = linker::find_all()?;
    if let Some((toolchain, linker)) = linker::choose(toolchains, &linkers) {
        return Ok(Some(Tools {
            toolchain: toolchain.clone(),
            linker: linker.clone(),
        }));
    }
    let pairs = || {
        toolchains.iter().flat_map(|toolchain| {
            linker::fitting_llvm(toolchain).map(move |llvm| (toolchain, llvm))
        })
    };
    let installed = || {
        pairs().find_map(|(toolchain, llvm)| {
            linker::llvm_prefix(llvm).map(|prefix| (toolchain, llvm, prefix))
        })
    };
    let mut found = installed();
    if found.is_none() {
        let package = pairs()
            .map(|(_, llvm)| format!("llvm-{llvm}-dev"))
            .find(|package| packages::is_available(package));
        if let Some(package) = package {
            packages::install(&[&package])?;
            found = installed();
        }
    }
    let Some((toolchain, llvm, prefix)) = found else {
        return Ok(None);
    };
    println!(
        "building bpf-linker {} with LLVM {llvm}, once on this machine",
        linker::VERSION
    );
    let linker = linker::install(toolchain, llvm, &prefix)?;
    Ok(Some(Tools {
        toolchain: toolchain.clone(),
        linker,
    }))
}

/// Asks rustup for a component of a toolchain, else of the active one; fails offline.
fn add_component(component: &str, toolchain: Option<&str>) -> bool {
    let Some(rustup) = find_program("rustup") else {
        return false;
    };
    let mut command = Command::new(rustup);
    command.args(["component", "add", component]);
    if let Some(toolchain) = toolchain {
        command.args(["--toolchain", toolchain]);
    }
    succeeds(&mut command)
}
