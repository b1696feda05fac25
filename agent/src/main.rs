//! The command `agent`.

use std::process::ExitCode;

fn main() -> ExitCode {
    agent::main()
}
