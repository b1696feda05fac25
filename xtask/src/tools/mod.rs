//! The tools that the tests compile with, compare with or profile, and where each comes from:
//!
//! | tool | source | version |
//! |---|---|---|
//! | gcc, g++, gdb, binutils, clang | the distribution's package, by its path in `/usr/bin` | of the distribution; clang 22 |
//! | Go, the oldest supported | Debian 12's package, unpacked in the cache | 1.19 |
//! | Go, the newest | the toolchain module of the Go module proxy, in the cache | pinned with its SHA-256 |
//! | Node.js | the npm registry, in the cache | pinned with its SHA-256 |
//! | rustc | the toolchain of the cargo that runs the tests | of the project |
//! | Python | [`crate::interpreters`] | one row each |
//! | reference tools, the API server, other kernels | [`crate::reference_tools`], [`crate::cluster`], [`crate::vm`] | of a release of Debian, or pinned |
//!
//! Invariant: none is looked up in `PATH`, so that a version which a user has installed neither
//! replaces nor changes what is tested.

mod distribution;
pub mod go;
mod node;

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use crate::process::is_executable;

pub use distribution::{
    ADDR2LINE, BUSYBOX, CLANG, CPIO, GCC, GDB, GXX, NM, OBJCOPY, OBJDUMP, Program, READELF, STRIP,
    XZ,
};
pub(crate) use distribution::{KUBECTL, OPENSSL, UNZIP};
pub use node::node;

/// Installs or fetches all of them, and prints where each is.
///
/// # Errors
///
/// Naming the first that is missing and cannot be installed.
pub fn ensure_all() -> Result<()> {
    for (program, path) in distribution::ensure_all()? {
        println!("{program}: {}", path.display());
    }
    for go in go::all()? {
        println!("go {}: {}", go.version(), go.root().display());
    }
    println!("node: {}", node()?.display());
    Ok(())
}

/// The Rust compiler beside the cargo that runs this program.
///
/// # Errors
///
/// When cargo does not run this program.
pub fn rustc() -> Result<PathBuf> {
    let cargo = env::var_os("CARGO").context("run this with cargo")?;
    let rustc = Path::new(&cargo).with_file_name("rustc");
    ensure!(
        is_executable(&rustc),
        "there is no {} beside cargo",
        rustc.display()
    );
    Ok(rustc)
}
