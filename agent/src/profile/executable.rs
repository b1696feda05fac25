//! Executables that contain native and kernel code: files, the vDSO, the kernel, its modules, JIT code.

use std::{borrow::Cow, path::PathBuf};

/// A file, the vDSO, the kernel, a kernel module or anonymous memory with code in it.
///
/// It is shared by all processes that run it: addresses are those in the file's own address space,
/// before the load bias is added.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Executable {
    /// Path in the process's mount namespace; for a kernel module its name; else empty.
    pub path: PathBuf,
    /// GNU build ID in lower-case hexadecimal, where it has one.
    pub build_id: Option<String>,
    /// Its kind.
    pub kind: ExecutableKind,
    /// First address of its executable segment.
    pub start: u64,
    /// First address after it.
    pub limit: u64,
    /// Offset of `start` in the file, in bytes.
    pub file_offset: u64,
}

/// Kind of an [`Executable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ExecutableKind {
    /// A file: a program or a shared library.
    File,
    /// The code that the kernel maps into every process.
    Vdso,
    /// The kernel.
    Kernel,
    /// A kernel module, or a BPF program.
    KernelModule,
    /// Memory without a file behind it, such as JIT code; addresses are those in the process.
    Anonymous,
}

impl Executable {
    /// Short name: the file's name without its directory, or the kind in brackets.
    #[must_use]
    pub fn name(&self) -> Cow<'_, str> {
        let name = || match self.path.file_name() {
            Some(name) => name.to_string_lossy(),
            None => self.path.to_string_lossy(),
        };
        match self.kind {
            ExecutableKind::File => name(),
            ExecutableKind::Vdso => "[vdso]".into(),
            ExecutableKind::Kernel => "[kernel]".into(),
            ExecutableKind::KernelModule => format!("[{}]", name()).into(),
            ExecutableKind::Anonymous => "[jit]".into(),
        }
    }

    /// Whether its name is that of a Python interpreter (`python3.12`, `libpython3.12.so.1.0`).
    #[must_use]
    pub fn is_interpreter(&self) -> bool {
        if self.kind != ExecutableKind::File {
            return false;
        }
        let name = self.name();
        let after = name
            .strip_prefix("libpython")
            .or_else(|| name.strip_prefix("python"));
        after.is_some_and(|rest| rest.is_empty() || rest.starts_with(|c: char| c.is_ascii_digit()))
    }

    /// Whether it is the kernel or a kernel module.
    #[must_use]
    pub fn is_kernel(&self) -> bool {
        matches!(
            self.kind,
            ExecutableKind::Kernel | ExecutableKind::KernelModule
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn executable(kind: ExecutableKind, path: &str) -> Executable {
        Executable {
            path: path.into(),
            build_id: None,
            kind,
            start: 0,
            limit: 0,
            file_offset: 0,
        }
    }

    #[test]
    fn names_are_short() {
        let name = |kind, path| executable(kind, path).name().into_owned();
        assert_eq!(
            name(ExecutableKind::File, "/usr/lib/libc.so.6"),
            "libc.so.6"
        );
        assert_eq!(name(ExecutableKind::File, "/"), "/");
        assert_eq!(name(ExecutableKind::Vdso, ""), "[vdso]");
        assert_eq!(name(ExecutableKind::Kernel, ""), "[kernel]");
        assert_eq!(name(ExecutableKind::KernelModule, "ext4"), "[ext4]");
        assert_eq!(name(ExecutableKind::Anonymous, ""), "[jit]");
    }

    #[test]
    fn interpreters_are_recognized_by_name() {
        let is_interpreter = |path| executable(ExecutableKind::File, path).is_interpreter();
        for path in [
            "/usr/bin/python3.12",
            "/usr/bin/python",
            "/opt/python3.14t",
            "/usr/lib/libpython3.9.so.1.0",
            "/usr/lib/libpython2.7.so",
        ] {
            assert!(is_interpreter(path), "{path}");
        }
        for path in [
            "/usr/lib/python3.12/libc.so.6",
            "/usr/lib/libboost_python312.so",
            "/usr/bin/python-argcomplete",
            "",
        ] {
            assert!(!is_interpreter(path), "{path}");
        }
        assert!(!executable(ExecutableKind::KernelModule, "python3").is_interpreter());
    }
}
