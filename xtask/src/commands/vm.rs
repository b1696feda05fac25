//! Runs a command in virtual machines.

use std::path::Path;

use anyhow::Result;
use xtask::architecture::Architecture;
use xtask::interpreters;
use xtask::vm::{self, Kernel, System};

/// Runs `command` on each of the kernels, and returns the first exit status that is not 0.
pub(crate) fn run(
    kernels: &[Kernel],
    architecture: Architecture,
    program: &Path,
    command: &[String],
) -> Result<u8> {
    let interpreters = if architecture.is_host() {
        interpreters::all()?
    } else {
        Vec::new()
    };
    let command = match command {
        [shell_command] => shell_command.clone(),
        words => words
            .iter()
            .map(|word| quoted(word))
            .collect::<Vec<_>>()
            .join(" "),
    };
    for &kernel in kernels {
        println!("linux {kernel}:");
        let system = System {
            kernel,
            architecture,
            program,
            interpreters: &interpreters,
        };
        let status = vm::run(&system, &command)?;
        if status != 0 {
            println!("linux {kernel}: exit status {status}");
            return Ok(status);
        }
    }
    Ok(0)
}

/// The word as a shell takes it literally.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}
