//! The command line of `cargo xtask`; see `cargo xtask --help`.

mod commands;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use commands::{
    Results, bench, build, ci, demo, dependencies, fuzz, lint, record_fixtures, setup, soak, test,
    vm,
};
use xtask::architecture::Architecture;
use xtask::interpreters;
use xtask::vm::Kernel;

/// Build, test, measure and package the project
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Install the tools that build the project, once per machine
    Setup {
        /// Also install what the lint of the other architecture and the tests run
        #[arg(long)]
        tests: bool,
    },
    /// Build the agent in release mode
    Build {
        /// For machines of this architecture, as `uname -m` prints it [default: this machine's]
        #[arg(long)]
        architecture: Option<Architecture>,
    },
    /// Build the agent's Debian package
    Package {
        /// Version of the package [default: the agent's]
        #[arg(long)]
        version: Option<String>,
    },
    /// Build the package, an archive, lists of dependencies and checksums: what a release has
    Release,
    /// Build the agent's container image with buildah
    Image,
    /// Build the agent and profile a small Python program
    Demo,
    /// Measure overhead and accuracy of the agent and of py-spy, as root
    Bench(bench::Options),
    /// Run all tests, on this kernel and on others in virtual machines
    Test(test::Options),
    /// Check formatting and lints, and run all tests
    Ci {
        /// Lint only for this architecture; run only unit tests and one capture
        #[arg(long, conflicts_with_all = ["all_kernels", "all_versions"])]
        fast: bool,
        #[command(flatten)]
        tests: test::Options,
    },
    /// Fuzz the parsers of bytes from elsewhere
    Fuzz(fuzz::Options),
    /// Run the agent of a host on which everything comes and goes, as root
    Soak(soak::Options),
    /// Check licenses and sources of all dependencies
    Dependencies(dependencies::Options),
    /// Record the sessions that the golden tests replay, as root
    RecordFixtures,
    /// Format all crates
    Fmt {
        /// Check the formatting and change nothing
        #[arg(long)]
        check: bool,
    },
    /// Lint all crates, the BPF programs for their own target, and both for the other architecture
    Clippy,
    /// List the Python interpreters that the tests profile, and make missing ones
    ///
    /// Prints a line NAME<TAB>PATH for each.
    Interpreters,
    /// Run a command in virtual machines that have the agent and Python
    Vm {
        /// Boot only this kernel: 5.10, 6.1, 6.12 or newest; repeatable
        #[arg(long = "kernel", value_name = "KERNEL")]
        kernels: Vec<Kernel>,
        /// Emulate machines of this architecture, as `uname -m` prints it [default: this machine's]
        #[arg(long)]
        architecture: Option<Architecture>,
        /// Install this program instead of the agent
        #[arg(long)]
        program: Option<PathBuf>,
        /// A program with its arguments, or one shell command
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
}

fn main() -> ExitCode {
    // Printed here, because a backtrace is of no use to the reader of these messages.
    run(Arguments::parse().task).unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

fn run(task: Task) -> Result<ExitCode> {
    match task {
        Task::Setup { tests } => {
            setup::bpf()?;
            if tests {
                setup::test_programs()?;
                setup::reference_tools()?;
                print_interpreters()?;
                setup::cross_compiler()?;
            }
        }
        Task::Build { architecture } => {
            let architecture = architecture.unwrap_or_else(Architecture::host);
            println!("{}", build::agent_for(architecture)?.display());
        }
        Task::Package { version } => println!("{}", build::package(version.as_deref())?.display()),
        Task::Release => println!("{}", build::release()?.display()),
        Task::Image => println!("{}", build::image()?),
        Task::Demo => demo::profile_workload()?,
        Task::Bench(options) => bench::run(&options)?,
        Task::Test(options) => {
            return Ok(counted(|results| {
                let interpreters = results.step("setup of the tests", test::set_up)?;
                test::all(results, &options, interpreters)
            }));
        }
        Task::Ci { fast: true, .. } => return Ok(counted(ci::run_fast)),
        Task::Ci { tests, .. } => {
            return Ok(counted(|results| ci::run(results, &tests)));
        }
        Task::Fuzz(options) => fuzz::run(&options)?,
        Task::Soak(options) => soak::run(&options)?,
        Task::Dependencies(options) => dependencies::check(&options)?,
        Task::RecordFixtures => record_fixtures::record()?,
        Task::Fmt { check } => lint::format(check)?,
        Task::Clippy => lint::clippy()?,
        Task::Interpreters => print_interpreters()?,
        Task::Vm {
            kernels,
            architecture,
            program,
            command,
        } => {
            let architecture = architecture.unwrap_or_else(Architecture::host);
            let program = program.map_or_else(|| build::agent_for(architecture), Ok)?;
            let kernels = if kernels.is_empty() {
                &Kernel::ALL
            } else {
                &kernels[..]
            };
            return Ok(ExitCode::from(vm::run(
                kernels,
                architecture,
                &program,
                &command,
            )?));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs checks; an error that keeps them from running is counted as a failure.
fn counted(checks: impl FnOnce(&mut Results) -> Result<()>) -> ExitCode {
    let mut results = Results::default();
    if let Err(error) = checks(&mut results) {
        results.fail("setup", error);
    }
    if results.finish() {
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
