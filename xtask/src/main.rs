//! The command line of the project's habits; see `cargo xtask --help`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use xtask::tally::Tally;
use xtask::vm::{self, Kernel};
use xtask::{bench, check, demo, image, interpreters, package, setup};

/// Builds, tests and shows the project.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    habit: Habit,
}

#[derive(Subcommand)]
enum Habit {
    /// Find or install what the project is built with
    Setup {
        /// Also what it is tested with
        #[arg(long)]
        tests: bool,
    },
    /// Build the agent's release binary
    Build,
    /// Build the agent's package for Debian and its kin
    Package {
        /// Give it this version instead of the agent's
        #[arg(long)]
        version: Option<String>,
    },
    /// Build the agent's container image, with buildah
    Image,
    /// Build the agent and profile a small Python program with it
    Demo,
    /// Measure what the agent costs and how right it is, beside py-spy; needs root
    Bench(bench::Options),
    /// Run all tests, on this kernel and in virtual machines on others
    Test(Kernels),
    /// Check formatting and lints, and run all tests
    Ci(Kernels),
    /// Format all crates
    Fmt {
        /// Only say whether they are formatted
        #[arg(long)]
        check: bool,
    },
    /// Lint the crates of the host and the kernel half, each for its target
    Clippy,
    /// Make and list all Python interpreters that the tests run, as NAME<TAB>PATH
    Interpreters,
    /// Run a command in virtual machines that have the agent and Python
    Vm {
        /// On this kernel (5.10, 6.1, 6.12, newest) instead of all of them
        #[arg(long = "kernel")]
        kernels: Vec<Kernel>,
        /// Put this program into the machine instead of the agent
        #[arg(long)]
        program: Option<PathBuf>,
        /// A program with its arguments, or one shell command
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
}

/// On which kernels besides this machine's.
#[derive(clap::Args)]
struct Kernels {
    /// Test on all kernels instead of the oldest and the newest
    #[arg(long)]
    all_kernels: bool,
}

impl Kernels {
    fn list(&self) -> &'static [Kernel] {
        if self.all_kernels {
            &Kernel::ALL
        } else {
            &Kernel::ENDS
        }
    }
}

fn main() -> ExitCode {
    // Printed here, because a backtrace says nothing to whom the sentence tells what to do.
    run(Arguments::parse().habit).unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

fn run(habit: Habit) -> Result<ExitCode> {
    match habit {
        Habit::Setup { tests } => {
            setup::kernel_half()?;
            if tests {
                setup::test_programs()?;
                setup::programs_of_others()?;
                print_interpreters()?;
            }
        }
        Habit::Build => println!("{}", check::build()?.display()),
        Habit::Package { version } => {
            println!("{}", package::build(version.as_deref())?.display());
        }
        Habit::Image => println!("{}", image::build()?),
        Habit::Demo => demo::run_demo()?,
        Habit::Bench(options) => bench::run(&options)?,
        Habit::Test(kernels) => {
            return Ok(counted(|tally| check::test(tally, kernels.list())));
        }
        Habit::Ci(kernels) => {
            return Ok(counted(|tally| {
                check::continuous_integration(tally, kernels.list())
            }));
        }
        Habit::Fmt { check } => check::format(check)?,
        Habit::Clippy => {
            let tools = setup::kernel_half()?;
            setup::linters(&tools)?;
            check::lint_host()?;
            check::lint_kernel_half(&tools)?;
        }
        Habit::Interpreters => print_interpreters()?,
        Habit::Vm {
            kernels,
            program,
            command,
        } => return run_in_machines(&kernels, program, &command),
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs checks; what keeps them from running at all is counted as one that failed.
fn counted(checks: impl FnOnce(&mut Tally) -> Result<()>) -> ExitCode {
    let mut tally = Tally::default();
    if let Err(error) = checks(&mut tally) {
        tally.check("setup", Err(error));
    }
    if tally.finish() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn print_interpreters() -> Result<()> {
    for interpreter in interpreters::all()? {
        println!("{interpreter}");
    }
    Ok(())
}

/// Ends with the first exit status that is not 0.
fn run_in_machines(
    kernels: &[Kernel],
    program: Option<PathBuf>,
    command: &[String],
) -> Result<ExitCode> {
    let program = program.map_or_else(check::build, Ok)?;
    let interpreters = interpreters::all()?;
    let kernels = if kernels.is_empty() {
        &Kernel::ALL
    } else {
        kernels
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
        let status = vm::run(kernel, &program, &interpreters, &command)?;
        if status != 0 {
            println!("linux {kernel}: ended with {status}");
            return Ok(ExitCode::from(status));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The word as a shell takes it literally.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}
