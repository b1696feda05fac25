//! The guest's root file system, which the kernel unpacks into memory: no disk, no modules.
//!
//! Invariant: files stand at the paths that they have on this machine, so that programs find
//! their libraries and Python its own modules without being told.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::libraries;
use crate::paths;
use crate::process::{capture, find_program, run};

/// Parts of Python's library that are large and not needed to run a script.
const LEFT_OUT: [&str; 9] = [
    "config-",
    "dist-packages",
    "ensurepip",
    "idlelib",
    "lib2to3",
    "site-packages",
    "test",
    "tkinter",
    "turtledemo",
];

/// A root file system that is being put together; removed when dropped.
#[derive(Debug)]
pub(super) struct Guest {
    scratch: PathBuf,
}

impl Guest {
    /// One with the first process and the small programs of busybox.
    pub(super) fn new() -> Result<Self> {
        let scratch = paths::target().join(format!("vm-{}", std::process::id()));
        let guest = Self { scratch };
        for directory in ["bin", "dev", "proc", "sys", "tmp", "usr/bin"] {
            fs::create_dir_all(guest.path(directory))
                .with_context(|| format!("cannot make {}", guest.scratch.display()))?;
        }
        let busybox = find_program("busybox").context("install busybox-static")?;
        guest.add_program(&busybox, Path::new("bin/busybox"))?;
        guest.write("init", include_str!("../../vm/init"))?;
        make_executable(&guest.path("init"))?;
        symlink("busybox", guest.path("bin/sh")).context("cannot make a link")?;
        Ok(guest)
    }

    /// A directory for other files of this run.
    pub(super) fn scratch(&self) -> &Path {
        &self.scratch
    }

    /// Writes a text file at `destination`, a path without a leading slash.
    pub(super) fn write(&self, destination: &str, text: &str) -> Result<()> {
        let path = self.path(destination);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Copies a program to `destination`, and the shared libraries that it is linked with.
    pub(super) fn add_program(&self, program: &Path, destination: &Path) -> Result<()> {
        self.copy(program, destination)?;
        for library in libraries::of(program) {
            self.copy(&library, library.strip_prefix("/").unwrap_or(&library))?;
        }
        Ok(())
    }

    /// Copies an interpreter with its modules, and calls it `python3`.
    pub(super) fn add_python(&self, interpreter: &Path) -> Result<()> {
        let question = "import os, sys; print(os.path.realpath(sys.executable)); print(os.path.dirname(os.__file__))";
        let answer = capture(Command::new(interpreter).args(["-I", "-c", question]))?;
        let (program, library) = answer
            .split_once('\n')
            .context("the interpreter does not say where it is")?;
        let inside = Path::new(program.trim_start_matches('/'));
        self.add_program(Path::new(program), inside)?;
        self.copy_modules(Path::new(library))?;
        symlink(program, self.path("usr/bin/python3")).context("cannot make a link")
    }

    /// Packs everything into the image that the kernel unpacks.
    pub(super) fn pack(&self) -> Result<PathBuf> {
        let image = self.scratch.join("image");
        let file = fs::File::create(&image)?;
        run(Command::new("sh")
            .args(["-c", "find . | cpio -o -H newc --quiet --owner=0:0"])
            .current_dir(self.path(""))
            .stdout(file))?;
        Ok(image)
    }

    fn path(&self, inside: impl AsRef<Path>) -> PathBuf {
        self.scratch.join("root").join(inside)
    }

    fn copy(&self, source: &Path, destination: &Path) -> Result<()> {
        let destination = self.path(destination);
        if let Some(parent) = destination.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::copy(source, &destination)
            .with_context(|| format!("cannot copy {}", source.display()))?;
        Ok(())
    }

    fn copy_modules(&self, directory: &Path) -> Result<()> {
        for entry in fs::read_dir(directory)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if LEFT_OUT.iter().any(|left_out| name.starts_with(left_out)) {
                continue;
            }
            if path.is_dir() {
                self.copy_modules(&path)?;
            } else if path.is_file() {
                self.copy(&path, path.strip_prefix("/").unwrap_or(&path))?;
            }
        }
        Ok(())
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // What cannot be removed is in the target directory, where `cargo clean` removes it.
        drop(fs::remove_dir_all(&self.scratch));
    }
}

fn make_executable(path: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
        .with_context(|| format!("cannot make {} executable", path.display()))
}
