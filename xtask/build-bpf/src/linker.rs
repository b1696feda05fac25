//! The pinned bpf-linker: which LLVM it must be built with, where it is kept, how it is built.
//!
//! Invariants: one build per LLVM version and machine, in the cache directory, whose name holds
//! both versions; a linker is only used when it starts and prints the pinned version.
//! LLVM reads the bitcode of older versions, so a linker fits every compiler whose LLVM is not
//! newer than its own.

use std::env;
use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::paths;
use crate::process::{capture, run};
use crate::toolchain::Toolchain;

/// The version of bpf-linker that the project is built with.
pub const VERSION: &str = "0.13.0";

/// The LLVM versions that bpf-linker of this version can be built with.
pub const SUPPORTED_LLVM: RangeInclusive<u32> = 21..=23;

/// An installed bpf-linker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Linker {
    /// The program.
    pub path: PathBuf,
    /// Major version of the LLVM it was built with.
    pub llvm: u32,
}

impl Linker {
    /// Where the linker built with this LLVM is kept, whether it exists or not.
    fn at(cache: &Path, llvm: u32) -> Self {
        Self {
            path: root(cache, llvm).join("bin/bpf-linker"),
            llvm,
        }
    }

    /// Whether the program starts, which needs its LLVM, and is the pinned version.
    fn works(&self) -> bool {
        capture(Command::new(&self.path).arg("--version"))
            .is_ok_and(|output| output == format!("bpf-linker {VERSION}"))
    }
}

/// The working linkers in the cache.
///
/// # Errors
///
/// When there is no cache directory.
pub fn find_all() -> Result<Vec<Linker>> {
    let cache = paths::cache()?;
    Ok(SUPPORTED_LLVM
        .map(|llvm| Linker::at(&cache, llvm))
        .filter(Linker::works)
        .collect())
}

/// The first toolchain that has a linker, with the linker whose LLVM is nearest to its own.
#[must_use]
pub fn choose<'a>(
    toolchains: &'a [Toolchain],
    linkers: &'a [Linker],
) -> Option<(&'a Toolchain, &'a Linker)> {
    toolchains.iter().find_map(|toolchain| {
        let linker = linkers
            .iter()
            .filter(|linker| linker.llvm >= toolchain.llvm)
            .min_by_key(|linker| linker.llvm)?;
        Some((toolchain, linker))
    })
}

/// The LLVM versions a linker for `toolchain` may be built with, best first.
pub fn fitting_llvm(toolchain: &Toolchain) -> impl Iterator<Item = u32> {
    let oldest = toolchain.llvm;
    SUPPORTED_LLVM.filter(move |&llvm| llvm >= oldest)
}

/// Where LLVM of this major version is installed with what is needed to link with it:
/// `$LLVM_PREFIX`, or where distributions put it.
#[must_use]
pub fn llvm_prefix(llvm: u32) -> Option<PathBuf> {
    let usual = [
        format!("/usr/lib/llvm-{llvm}"),
        format!("/usr/lib64/llvm{llvm}"),
        format!("/usr/lib/llvm{llvm}"),
        "/usr".to_owned(),
    ];
    env::var_os("LLVM_PREFIX")
        .map(PathBuf::from)
        .into_iter()
        .chain(usual.map(PathBuf::from))
        .find(|prefix| {
            ["lib", "lib64"].iter().any(|directory| {
                prefix
                    .join(directory)
                    .join(format!("libLLVM-{llvm}.so"))
                    .exists()
            })
        })
}

/// Builds the linker for `llvm`, which is installed at `prefix`, with `toolchain`.
///
/// # Errors
///
/// When the build fails or its result does not start.
pub fn install(toolchain: &Toolchain, llvm: u32, prefix: &Path) -> Result<Linker> {
    let cache = paths::cache()?;
    let root = root(&cache, llvm);
    fs::create_dir_all(&root).with_context(|| format!("cannot make {}", root.display()))?;
    // `--force`, because this is only called for a linker that is missing or does not start.
    let mut cargo = Command::new(toolchain.program("cargo"));
    cargo
        .args(["install", "bpf-linker", "--version", VERSION, "--locked"])
        .args(["--force", "--quiet", "--no-default-features", "--features"])
        .arg(format!("llvm-{llvm}"))
        .arg("--root")
        .arg(&root)
        .env("LLVM_PREFIX", prefix)
        .env("RUSTC", toolchain.program("rustc"))
        // Cargo warns of a directory that is not in PATH, and ours is never meant to be.
        .env("PATH", path_with(&root.join("bin"))?);
    for name in ["CARGO_TARGET_DIR", "CARGO_BUILD_TARGET", "RUSTFLAGS"] {
        cargo.env_remove(name);
    }
    // LLVM does the work; the rest is built in half of the time.
    for (name, value) in [("OPT_LEVEL", "1"), ("LTO", "off"), ("CODEGEN_UNITS", "2")] {
        cargo.env(format!("CARGO_PROFILE_RELEASE_{name}"), value);
    }
    run(&mut cargo)?;
    let linker = Linker::at(&cache, llvm);
    capture(Command::new(&linker.path).arg("--version"))?;
    Ok(linker)
}

fn root(cache: &Path, llvm: u32) -> PathBuf {
    cache.join(format!("bpf-linker-{VERSION}-llvm{llvm}"))
}

fn path_with(directory: &Path) -> Result<std::ffi::OsString> {
    let path = env::var_os("PATH").unwrap_or_default();
    let all = env::split_paths(&path).chain([directory.to_owned()]);
    env::join_paths(all).context("the cache directory's path contains a colon: set XDG_CACHE_HOME")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::toolchain::{Place, Provider};

    fn toolchain(name: &str, llvm: u32) -> Toolchain {
        Toolchain {
            place: Place {
                provider: Provider::Rustup(name.to_owned()),
                sysroot: PathBuf::from("/nowhere"),
            },
            version: (1, 95),
            llvm,
        }
    }

    fn linkers(llvm: &[u32]) -> Vec<Linker> {
        llvm.iter()
            .map(|&llvm| Linker::at(Path::new("/cache"), llvm))
            .collect()
    }

    fn chosen(toolchains: &[Toolchain], available: &[u32]) -> Option<(String, u32)> {
        let linkers = linkers(available);
        let (toolchain, linker) = choose(toolchains, &linkers)?;
        match &toolchain.place.provider {
            Provider::Rustup(name) => Some((name.clone(), linker.llvm)),
            Provider::Distribution => None,
        }
    }

    #[test]
    fn the_nearest_llvm_that_is_not_older_is_chosen() {
        let one = [toolchain("one", 22)];
        assert_eq!(chosen(&one, &[21, 22, 23]), Some(("one".into(), 22)));
        assert_eq!(chosen(&one, &[21, 23]), Some(("one".into(), 23)));
        assert_eq!(chosen(&one, &[21]), None);
        assert_eq!(
            chosen(&[toolchain("old", 20)], &[23, 21]),
            Some(("old".into(), 21))
        );
    }

    #[test]
    fn a_toolchain_too_new_for_every_linker_is_passed_over() {
        let two = [toolchain("nightly", 23), toolchain("stable", 22)];
        assert_eq!(chosen(&two, &[22]), Some(("stable".into(), 22)));
        assert_eq!(chosen(&two, &[22, 23]), Some(("nightly".into(), 23)));
    }

    #[test]
    fn a_linker_is_only_built_with_an_llvm_that_reads_the_compilers_bitcode() {
        let fitting = |llvm| fitting_llvm(&toolchain("any", llvm)).collect::<Vec<_>>();
        assert_eq!(fitting(20), [21, 22, 23]);
        assert_eq!(fitting(22), [22, 23]);
        assert_eq!(fitting(24), [0; 0]);
    }

    #[test]
    fn the_place_in_the_cache_names_both_versions() {
        assert_eq!(
            Linker::at(Path::new("/cache"), 22).path,
            Path::new("/cache/bpf-linker-0.13.0-llvm22/bin/bpf-linker")
        );
    }
}
