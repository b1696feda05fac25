//! Completions of shells, from the definition of the command line.

use clap_complete::{Shell, generate};

use super::flags::command;

/// The script with which a shell completes the command line.
pub fn completions(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    let mut command = command();
    let name = command.get_name().to_owned();
    generate(shell, &mut command, name, &mut script);
    script
}
