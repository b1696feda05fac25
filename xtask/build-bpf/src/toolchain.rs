//! Finds the Rust toolchains that can build the BPF programs: those with the source of `core`.
//!
//! Invariants: programs of a toolchain are called by absolute path, never through a proxy in
//! `PATH`, so that a distribution's toolchain works where rustup is installed too. Nothing here
//! changes the machine.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::{capture, find_program, is_executable};

/// The least `(major, minor)` version of the compiler, as declared by the workspace.
const MINIMUM_VERSION: &str = env!("CARGO_PKG_RUST_VERSION");

/// The installer of a toolchain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Provider {
    /// rustup, under this name.
    Rustup(String),
    /// The packages of the distribution.
    Distribution,
}

impl fmt::Display for Provider {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rustup(name) => write!(formatter, "rustup's {name}"),
            Self::Distribution => formatter.write_str("the distribution's Rust"),
        }
    }
}

/// A directory where a toolchain may be installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// What installed it.
    pub provider: Provider,
    /// The compiler's sysroot; its programs are in `bin/` below it.
    pub sysroot: PathBuf,
}

/// A toolchain that can build `core` for a target it does not ship.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Toolchain {
    /// Where it was found.
    pub place: Place,
    /// `(major, minor)` version of the compiler.
    pub version: (u32, u32),
    /// Major version of the LLVM whose bitcode the compiler writes.
    pub llvm: u32,
}

impl Toolchain {
    /// The absolute path of one of the toolchain's programs, which may not exist.
    #[must_use]
    pub fn program(&self, name: &str) -> PathBuf {
        self.place.sysroot.join("bin").join(name)
    }
}

/// All places where a toolchain may be, best first: rustup's active toolchain, its others, then
/// the distribution's.
#[must_use]
pub fn places() -> Vec<Place> {
    let mut places = find_program("rustup")
        .and_then(|rustup| capture(Command::new(rustup).args(["toolchain", "list", "-v"])).ok())
        .map(|list| rustup_places(&list))
        .unwrap_or_default();
    places.push(Place {
        provider: Provider::Distribution,
        sysroot: PathBuf::from("/usr"),
    });
    places
}

/// The usable toolchains of this machine, best first.
#[must_use]
pub fn find_all() -> Vec<Toolchain> {
    usable(places(), |rustc| {
        capture(Command::new(rustc).arg("-vV")).ok()
    })
}

/// Reads `rustup toolchain list -v`: one `NAME [(active, default)] PATH` per line.
fn rustup_places(list: &str) -> Vec<Place> {
    let mut places: Vec<(bool, Place)> = list
        .lines()
        .filter_map(|line| {
            let name = line.split_whitespace().next()?;
            let sysroot = Path::new(&line[line.find('/')?..]);
            let is_active = line.contains("(active");
            let place = Place {
                provider: Provider::Rustup(name.to_owned()),
                sysroot: sysroot.to_owned(),
            };
            Some((is_active, place))
        })
        .collect();
    places.sort_by_key(|(is_active, _)| !is_active);
    places.into_iter().map(|(_, place)| place).collect()
}

/// The toolchains among `places` that can build the BPF programs; `verbose_version` runs
/// `rustc -vV`.
fn usable(places: Vec<Place>, verbose_version: impl Fn(&Path) -> Option<String>) -> Vec<Toolchain> {
    places
        .into_iter()
        .filter_map(|place| {
            let has_source = place
                .sysroot
                .join("lib/rustlib/src/rust/library/core/src/lib.rs")
                .exists();
            let rustc = place.sysroot.join("bin/rustc");
            if !has_source
                || !is_executable(&rustc)
                || !is_executable(&place.sysroot.join("bin/cargo"))
            {
                return None;
            }
            let (version, llvm) = parse_verbose_version(&verbose_version(&rustc)?)?;
            (Some(version) >= major_minor(MINIMUM_VERSION)).then_some(Toolchain {
                place,
                version,
                llvm,
            })
        })
        .collect()
}

/// The compiler's `(major, minor)` and LLVM's major version.
fn parse_verbose_version(text: &str) -> Option<((u32, u32), u32)> {
    let field = |name| text.lines().find_map(|line| line.strip_prefix(name));
    let version = major_minor(field("release: ")?)?;
    let (llvm, _) = major_minor(field("LLVM version: ")?)?;
    Some((version, llvm))
}

fn major_minor(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.split('.').map(|part| part.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    /// A made-up sysroot with the given files below it, all of them executable.
    fn sysroot(files: &[&str]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        for file in files {
            let path = directory.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        directory
    }

    fn place(name: &str, sysroot: &Path) -> Place {
        Place {
            provider: Provider::Rustup(name.to_owned()),
            sysroot: sysroot.to_owned(),
        }
    }

    const SOURCE: &str = "lib/rustlib/src/rust/library/core/src/lib.rs";
    const CURRENT: &str = "rustc 1.95.0\nrelease: 1.95.0\nLLVM version: 22.1.2\n";

    #[test]
    fn a_toolchain_needs_the_source_of_core_and_both_programs() {
        let whole = sysroot(&[SOURCE, "bin/rustc", "bin/cargo"]);
        let no_source = sysroot(&["bin/rustc", "bin/cargo"]);
        let no_cargo = sysroot(&[SOURCE, "bin/rustc"]);
        let found = usable(
            vec![
                place("no source", no_source.path()),
                place("no cargo", no_cargo.path()),
                place("whole", whole.path()),
            ],
            |_| Some(CURRENT.to_owned()),
        );
        assert_eq!(
            found,
            [Toolchain {
                place: place("whole", whole.path()),
                version: (1, 95),
                llvm: 22,
            }]
        );
    }

    #[test]
    fn the_order_of_the_places_is_kept() {
        let first = sysroot(&[SOURCE, "bin/rustc", "bin/cargo"]);
        let second = sysroot(&[SOURCE, "bin/rustc", "bin/cargo"]);
        let found = usable(
            vec![place("first", first.path()), place("second", second.path())],
            |_| Some(CURRENT.to_owned()),
        );
        let providers: Vec<_> = found.iter().map(|found| &found.place.provider).collect();
        assert_eq!(
            providers,
            [
                &Provider::Rustup("first".to_owned()),
                &Provider::Rustup("second".to_owned())
            ]
        );
    }

    #[test]
    fn a_compiler_that_is_too_old_or_does_not_run_is_skipped() {
        let directory = sysroot(&[SOURCE, "bin/rustc", "bin/cargo"]);
        let with = |answer: Option<&str>| {
            usable(vec![place("one", directory.path())], |_| {
                answer.map(str::to_owned)
            })
        };
        assert_eq!(with(Some("release: 1.85.0\nLLVM version: 19.1.7\n")), []);
        assert_eq!(with(Some("release: 1.95.0\n")), []);
        assert_eq!(with(None), []);
        assert_eq!(
            with(Some("release: 1.97.0-nightly\nLLVM version: 22.1.4\n"))[0].version,
            (1, 97)
        );
    }

    #[test]
    fn rustups_active_toolchain_comes_first() {
        let list = "\
1.90.0-x86_64-unknown-linux-gnu /home/me/.rustup/toolchains/1.90.0
stable-x86_64-unknown-linux-gnu (active, default) /home/me/my toolchains/stable
nightly-x86_64-unknown-linux-gnu\t/home/me/.rustup/toolchains/nightly
no installed toolchains
";
        let sysroots: Vec<_> = rustup_places(list)
            .into_iter()
            .map(|place| place.sysroot)
            .collect();
        assert_eq!(
            sysroots,
            [
                "/home/me/my toolchains/stable",
                "/home/me/.rustup/toolchains/1.90.0",
                "/home/me/.rustup/toolchains/nightly"
            ]
            .map(PathBuf::from)
        );
    }
}
