//! The guest's root file system, which the kernel unpacks into memory: no disk, no modules.
//!
//! Invariant: files stand at the paths that they have on this machine, or on one of Debian that has the
//! architecture of the guest, so that programs find their libraries and Python its modules without
//! configuration.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context as _, Result};

use crate::libraries;
use crate::paths;
use crate::process::{capture, run};
use crate::tools;

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

/// A root file system under construction, removed when dropped.
#[derive(Debug)]
pub(super) struct Guest {
    scratch: PathBuf,
    /// An image that it is unpacked on top of.
    base: Option<PathBuf>,
}

impl Guest {
    /// One with an init process and busybox.
    pub(super) fn new() -> Result<Self> {
        let guest = Self::empty(None);
        for directory in ["bin", "dev", "proc", "sys", "tmp", "usr/bin"] {
            guest.make_directory(directory)?;
        }
        let busybox = tools::BUSYBOX.ensure()?;
        guest.add_program(&busybox, Path::new("bin/busybox"))?;
        guest.link("busybox", "bin/sh")?;
        guest.add_init()?;
        Ok(guest)
    }

    /// One with an init process and the programs of an image, among them busybox and Python.
    pub(super) fn with_programs(image: &Path) -> Result<Self> {
        let guest = Self::empty(Some(image.to_owned()));
        guest.make_directory("usr/bin")?;
        guest.add_init()?;
        Ok(guest)
    }

    fn add_init(&self) -> Result<()> {
        self.write("init", include_str!("../../vm/init"))?;
        make_executable(&self.path("init"))?;
        self.write("run-command", include_str!("../../vm/run-command"))
    }

    /// A Debian host whose init process is systemd, from its image.
    pub(super) fn debian(image: &Path) -> Result<Self> {
        const WANTED: &str = "etc/systemd/system/multi-user.target.wants";
        let guest = Self::empty(Some(image.to_owned()));
        guest.make_directory(WANTED)?;
        guest.link("/lib/systemd/systemd", "init")?;
        let unit = "etc/systemd/system/command.service";
        guest.write(unit, include_str!("../../vm/command.service"))?;
        guest.link("../command.service", &format!("{WANTED}/command.service"))?;
        guest.write("run-command", include_str!("../../vm/run-command"))?;
        Ok(guest)
    }

    fn empty(base: Option<PathBuf>) -> Self {
        static GUESTS: AtomicU32 = AtomicU32::new(0);
        let number = GUESTS.fetch_add(1, Ordering::Relaxed);
        let scratch = paths::target().join(format!("vm-{}-{number}", std::process::id()));
        Self { scratch, base }
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

    /// Makes a link at `destination`.
    pub(super) fn link(&self, target: impl AsRef<Path>, destination: &str) -> Result<()> {
        symlink(target, self.path(destination)).context("cannot make a link")
    }

    fn make_directory(&self, inside: &str) -> Result<()> {
        let path = self.path(inside);
        fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))
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
            .context("the interpreter does not print its path")?;
        let inside = Path::new(program.trim_start_matches('/'));
        self.add_program(Path::new(program), inside)?;
        self.copy_modules(Path::new(library))?;
        self.link(program, "usr/bin/python3")
    }

    /// Packs everything into the image that the kernel unpacks.
    pub(super) fn pack(&self) -> Result<PathBuf> {
        let image = self.scratch.join("image");
        let mut file = fs::File::create(&image)?;
        if let Some(base) = &self.base {
            // The kernel unpacks concatenated images one after the other.
            io::copy(&mut fs::File::open(base)?, &mut file)
                .with_context(|| format!("cannot copy {}", base.display()))?;
        }
        pack(&self.path(""), file)?;
        Ok(image)
    }

    fn path(&self, inside: impl AsRef<Path>) -> PathBuf {
        self.scratch.join("root").join(inside)
    }

    /// Copies a file to `destination`, a path without a leading slash.
    pub(super) fn copy(&self, source: &Path, destination: &Path) -> Result<()> {
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
        // A remainder is in the target directory, where `cargo clean` removes it.
        drop(fs::remove_dir_all(&self.scratch));
    }
}

/// Packs a directory as an image that a kernel unpacks, at the end of a file.
pub(super) fn pack(root: &Path, file: fs::File) -> Result<()> {
    run(Command::new("sh")
        .args(["-c", "find . | cpio -o -H newc --quiet --owner=0:0"])
        .current_dir(root)
        .stdout(file))
}

fn make_executable(path: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
        .with_context(|| format!("cannot make {} executable", path.display()))
}
