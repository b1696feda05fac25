//! Finds or installs what the project is built and tested with, and prints what it uses.
//!
//! Invariants: what is there is used as it is; a second run changes nothing.

use std::process::Command;

use anyhow::{Context as _, Result, bail};
use build_bpf::toolchain::{self, Provider, Toolchain};
use build_bpf::{Tools, linker};
use xtask::architecture::Architecture;
use xtask::process::{cargo, find_program, succeeds};
use xtask::{cluster, packages, reference_tools, tools};

/// The distribution's compiler with the source of `core`.
const DEBIAN_RUST: [&str; 3] = ["rustc-web", "cargo-web", "rust-web-src"];

/// Finds or installs the toolchain and the linker of the BPF programs.
///
/// # Errors
///
/// With the commands to run by hand when something is missing and cannot be installed.
pub(crate) fn bpf() -> Result<Tools> {
    let tools = match Tools::discover() {
        Ok(tools) => tools,
        Err(_) => install_bpf()?,
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

/// Makes the programs that the tests start and that no package has as they need them: reference
/// tools, and the API server of a cluster.
///
/// # Errors
///
/// Naming the first that cannot be made.
pub(crate) fn reference_tools() -> Result<()> {
    reference_tools::ensure_all()?;
    cluster::ensure_programs()
}

/// Finds, installs or fetches the tools that the tests run.
///
/// # Errors
///
/// When one of them is missing and cannot be installed, naming its package.
pub(crate) fn test_programs() -> Result<()> {
    tools::ensure_all()
}

/// Finds or installs the C compiler and Rust's standard library for the architecture that this
/// machine does not have.
///
/// # Errors
///
/// When one of them is missing and cannot be installed.
pub(crate) fn cross_compiler() -> Result<()> {
    Architecture::other().ensure_compilers()
}

/// Finds or installs the C++ compiler that the fuzzers are built with.
///
/// # Errors
///
/// When it is missing and cannot be installed.
pub(crate) fn fuzzers() -> Result<()> {
    if find_program("c++").is_none() {
        packages::install(&["g++"]).context("libFuzzer needs a C++ compiler")?;
    }
    Ok(())
}

/// Finds or installs the formatter and the linters: those of cargo's toolchain, and those of the
/// toolchain of the BPF programs.
///
/// # Errors
///
/// When one of them is missing and cannot be installed.
pub(crate) fn linters(tools: &Tools) -> Result<()> {
    for (command, component, package) in [
        ("fmt", "rustfmt", "rustfmt-web"),
        ("clippy", "clippy", "rust-web-clippy"),
    ] {
        // The existence of the program is not enough: rustup's proxy for it always exists.
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
            "linting the BPF programs needs {}: install clippy for {provider}",
            clippy.display()
        );
    }
    println!("linter of the BPF programs: {}", clippy.display());
    Ok(())
}

/// Installs what is missing: first for the toolchains that are there, then the distribution's.
fn install_bpf() -> Result<Tools> {
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

/// Finds or builds the linker for one of the toolchains; [`None`] if there is neither an LLVM for any
/// of them nor a package of one.
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

/// Installs a component of a toolchain with rustup, by default of the active one; fails offline.
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
