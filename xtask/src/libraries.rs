//! The shared libraries of a program.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::capture;

/// The libraries that it is linked with, and the loader; none for a static program.
#[must_use]
pub fn of(program: &Path) -> Vec<PathBuf> {
    // `ldd` fails for static programs.
    let libraries = capture(Command::new("ldd").arg(program)).unwrap_or_default();
    linked(&libraries).map(Path::to_owned).collect()
}

/// The libraries in what `ldd` prints: `NAME => PATH (ADDRESS)`, or `PATH (ADDRESS)` for the
/// loader.
fn linked(libraries: &str) -> impl Iterator<Item = &Path> {
    libraries.lines().filter_map(|line| {
        line.split_whitespace()
            .find(|word| word.starts_with('/'))
            .map(Path::new)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_and_the_loader_are_found() {
        let libraries = "\
\tlinux-vdso.so.1 (0x00007f2a1d570000)
\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f2a1d252000)
\t/lib64/ld-linux-x86-64.so.2 (0x00007f2a1d572000)
";
        let found: Vec<_> = linked(libraries).collect();
        assert_eq!(
            found,
            [
                Path::new("/lib/x86_64-linux-gnu/libc.so.6"),
                Path::new("/lib64/ld-linux-x86-64.so.2")
            ]
        );
        assert_eq!(linked("\tstatically linked\n").count(), 0);
    }
}
