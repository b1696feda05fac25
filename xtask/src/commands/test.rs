//! Runs the tests, on this machine's kernel and in virtual machines on others.

use std::env::{self, consts::ARCH};
use std::path::Path;
use std::process::Command;
use std::{slice, thread};

use anyhow::{Context as _, Result, anyhow, bail};
use xtask::architecture::Architecture;
use xtask::interpreters::{self, Available, Interpreter};
use xtask::paths;
use xtask::process::{cargo, find_program, is_root, output, run};
use xtask::vm::{self, Kernel, System};

use super::{NamedCheck, Results, setup, soak};

/// The programs among the tests that compare with recordings and run in seconds.
const TEST_PROGRAMS: [&str; 6] = ["golden", "graph", "house", "native", "walk", "words"];

/// What is compiled for this machine as it is: the BPF programs are not, and the fuzzers are instrumented.
const PACKAGES: [&str; 3] = [
    "--workspace",
    "--exclude=agent-ebpf",
    "--exclude=agent-fuzz",
];

/// The program of the tests that profile real programs.
const PROFILING: &str = "end_to_end";

/// Threads that run its tests, more than there are tests: they wait for their turn on the machine, and those that share it
/// are to be there at the same time.
const PROFILING_THREADS: &str = "--test-threads=512";

/// The program with the test of the package, which spends minutes in a virtual machine.
const OF_PACKAGE: &str = "package";

/// All other programs of tests, by their names.
const OTHERS: [&str; 3] = ["[!ep]*", "e[!n]*", "p[!a]*"];

/// A check of the agent on a kernel.
type KernelCheck = fn(&System<'_>) -> Result<()>;

/// The checks on each kernel, by what their names end with.
const ON_KERNELS: [(&str, KernelCheck); 3] = [
    ("", vm::check),
    ("_processors", vm::check_processors),
    ("_events", vm::check_events),
];

/// Those on machines of the other architecture, and on which kernels.
const OF_OTHER_ARCHITECTURE: [(&str, KernelCheck, &[Kernel]); 2] = [
    ("", vm::check, &Kernel::ENDS),
    ("_events", vm::check_events, &Kernel::ENDS),
];

/// Virtual machines at a time: each spends much of its time on one processor.
const MACHINES: usize = 2;

/// A test of [`PROFILING`] that captures a profile.
const CAPTURE: &str = "call_tree::stacks_are_exactly_those_of_the_source";

/// Set where a machine must have every interpreter: one that is missing is a failure there.
const ALL_REQUIRED: &str = "AGENT_REQUIRE_ALL_INTERPRETERS";

/// Tests that need one of some interpreters, as those with a package manager.
const NEEDS: [(&str, &[&str]); 9] = [
    (
        "embedders::a_program_bundled_into_one_file_is_profiled",
        &["3.12"],
    ),
    (
        "embedders::a_program_that_was_compiled_is_profiled",
        &["3.12"],
    ),
    (
        "the_parts_equal_those_of_the_debugging_symbols",
        &["3.13-debug"],
    ),
    ("greenlets::", &["3.10", "3.11", "3.12", "3.13"]),
    (
        "jit::code_of_numba_has_the_names_of_its_functions",
        &["3.12"],
    ),
    (
        "jit::stacks_of_compiled_functions_are_complete",
        &["3.14-sid", "3.15-sid"],
    ),
    (
        "many_threads::the_busy_threads_among_many_are_found",
        &["3.7", "3.12"],
    ),
    (
        "native::code_generated_at_run_time_has_the_name_from_its_generator",
        &["3.8", "3.12"],
    ),
    (
        "the_image_profiles_python_in_another_container",
        &["3.13-trixie"],
    ),
];

/// What is tested.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Run tests that take long with every version of Python that they are for, not only with a few
    #[arg(long)]
    all_versions: bool,
    /// Test on all supported kernels instead of the oldest and the newest
    #[arg(long)]
    all_kernels: bool,
}

impl Options {
    /// The kernels of the virtual machines.
    fn kernels(&self) -> &'static [Kernel] {
        if self.all_kernels {
            &Kernel::ALL
        } else {
            &Kernel::ENDS
        }
    }
}

/// Makes what the tests run.
///
/// # Errors
///
/// When something but an interpreter cannot be made.
pub(crate) fn set_up() -> Result<Available> {
    setup::test_programs()?;
    Architecture::other().c_compiler()?;
    beside(setup::reference_tools, interpreters::available)
}

/// Compiles all tests and the agent that they run.
///
/// # Errors
///
/// When something does not compile.
pub(crate) fn compile() -> Result<()> {
    run(cargo()
        .args(["test", "--release", "--no-run"])
        .args(PACKAGES))
}

/// Runs every test, those on other kernels last, and adds them to `results`.
///
/// # Errors
///
/// When the tests cannot be started; what failed is in the results.
pub(crate) fn all(results: &mut Results, options: &Options, available: Available) -> Result<()> {
    let Available {
        found: interpreters,
        missing,
    } = available;
    for (name, error) in missing {
        if env::var_os(ALL_REQUIRED).is_some() {
            results.fail(&format!("interpreter_{name}"), error);
        } else {
            results.not_tested(name, &format!("{error:#}"));
        }
    }
    let mut skipped = Vec::new();
    for (test, any_of) in NEEDS {
        if !interpreters.iter().any(|it| any_of.contains(&&*it.name)) {
            results.not_tested(test, &format!("needs Python {}", any_of.join(" or ")));
            skipped.extend(["--skip", test]);
        }
    }
    let others = OTHERS.iter().flat_map(|names| ["--test", names]);
    let on_host = || -> Result<_> {
        let mut tests = on_host(&interpreters)?;
        if options.all_versions {
            tests.env(interpreters::ALL_VERSIONS, "1");
        }
        Ok(tests)
    };
    let of_other = thread::scope(|scope| -> Result<_> {
        // Most of these tests use one processor; beside those that profile nothing may run.
        let built = scope.spawn(|| Architecture::other().build_beside());
        results.cargo_test(
            on_host()?
                .args(PACKAGES)
                .args(["--no-fail-fast", "--lib", "--bins"])
                .args(others)
                .arg("--")
                .args(&skipped),
        )?;
        let name = format!("agent for {}", Architecture::other().name);
        results.step(&name, || match built.join() {
            Ok(built) => Ok(built),
            Err(_) => bail!("a thread panicked"),
        })
    })?;
    results.cargo_test(
        on_host()?
            .args(["--package", "agent", "--test", PROFILING, "--"])
            .arg(PROFILING_THREADS)
            .args(&skipped),
    )?;
    // The tests have made and run it.
    let agent = paths::agent_binary();
    soak::check(results, &agent);
    let mut package = on_host()?;
    // The longest one first.
    let mut in_machines: Vec<NamedCheck<'_>> = vec![(
        OF_PACKAGE.to_owned(),
        Box::new(move || test_of_package(&mut package)),
    )];
    for (name, check) in ON_KERNELS {
        for &kernel in options.kernels() {
            let system = System {
                kernel,
                architecture: Architecture::host(),
                program: &agent,
                interpreters: &interpreters,
            };
            in_machines.push(named(system, name, check));
        }
    }
    match &of_other {
        Ok(agent) => in_machines.extend(of_other_architecture(agent)),
        Err(error) => results.fail("agent_of_other_architecture", anyhow!("{error:#}")),
    }
    results.check_together("virtual machines", MACHINES, in_machines);
    if !options.all_versions {
        println!(
            "Tests that take long ran with a few versions of Python: \
             `cargo xtask test --all-versions` runs them with all."
        );
    }
    Ok(())
}

/// The checks of an agent for the other architecture.
fn of_other_architecture(agent: &Path) -> impl Iterator<Item = NamedCheck<'_>> {
    let checks = OF_OTHER_ARCHITECTURE.iter();
    checks.flat_map(move |(name, check, kernels)| {
        let systems = kernels.iter().map(move |&kernel| System {
            kernel,
            architecture: Architecture::other(),
            program: agent,
            interpreters: &[],
        });
        systems.map(|system| named(system, name, *check))
    })
}

/// A check of a system, with its name.
fn named<'a>(system: System<'a>, name: &str, check: KernelCheck) -> NamedCheck<'a> {
    let architecture = if system.architecture.is_host() {
        String::new()
    } else {
        format!("_{}", system.architecture.name)
    };
    let name = format!("linux_{}{architecture}{name}", system.kernel);
    (name, Box::new(move || check(&system)))
}

/// Runs the test of the package, and prints what it did only where it fails.
fn test_of_package(test: &mut Command) -> Result<()> {
    let output = output(test.args(["--package", "agent", "--test", OF_PACKAGE]))?;
    let printed = String::from_utf8_lossy(&output.stdout);
    if output.status.success() && !printed.contains("test result: ok. 0 passed") {
        return Ok(());
    }
    bail!("{printed}{}", String::from_utf8_lossy(&output.stderr));
}

/// Runs the tests that need no other programs, and one capture with the distribution's interpreter.
///
/// # Errors
///
/// When the tests cannot be started; what failed is in the results.
pub(crate) fn fast(results: &mut Results) -> Result<()> {
    let interpreter = results.step("setup of the tests", interpreters::distribution)?;
    let tests = || on_host(slice::from_ref(&interpreter));
    results.cargo_test(
        tests()?
            .args(PACKAGES)
            .args(["--no-fail-fast", "--lib", "--bins"])
            .args(TEST_PROGRAMS.iter().flat_map(|name| ["--test", name])),
    )?;
    results.cargo_test(
        tests()?
            .args(["--package", "agent", "--test", PROFILING])
            .args(["--", "--exact", CAPTURE]),
    )
}

/// `cargo test` with the right to load BPF programs, for these interpreters.
fn on_host(interpreters: &[Interpreter]) -> Result<Command> {
    let mut tests = cargo();
    tests.args(["test", "--release"]).env(
        interpreters::VARIABLE,
        interpreters::variable(interpreters)?,
    );
    if !is_root() {
        // Loading programs into the kernel needs root, compiling does not.
        let sudo = find_program("sudo").context("the tests need root: run them as root")?;
        let runner = format!("{} --preserve-env", sudo.display());
        let host = ARCH.to_uppercase();
        tests.env(
            format!("CARGO_TARGET_{host}_UNKNOWN_LINUX_GNU_RUNNER"),
            runner,
        );
    }
    Ok(tests)
}

/// Runs two functions at once, of which one mostly waits for the network while the other compiles,
/// and returns the result of the second.
fn beside<T>(first: fn() -> Result<()>, second: fn() -> Result<T>) -> Result<T> {
    thread::scope(|scope| {
        let first = scope.spawn(first);
        let result = second()?;
        match first.join() {
            Ok(first) => first.map(|()| result),
            Err(_) => bail!("a thread panicked"),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::{CAPTURE, NEEDS, OF_PACKAGE, OTHERS, PROFILING};
    use std::{fs, path::Path};

    /// Whether a program with several files has the test, or one of a single file has it, where its
    /// path has no module.
    fn exists(test: &str) -> bool {
        let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../agent/tests");
        let (module, function) = test.rsplit_once("::").unwrap_or(("", test));
        let mut programs = fs::read_dir(tests).unwrap().map(|entry| entry.unwrap());
        programs.any(|program| {
            let file = if module.is_empty() {
                program.path()
            } else {
                program.path().join(format!("{module}.rs"))
            };
            fs::read_to_string(file).is_ok_and(|source| {
                function.is_empty() || source.contains(&format!("fn {function}("))
            })
        })
    }

    #[test]
    fn every_program_of_tests_is_run_once() {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let tests = workspace.join("agent/tests");
        assert!(tests.join(format!("{OF_PACKAGE}.rs")).exists());
        assert!(tests.join(PROFILING).join("main.rs").exists());
        let of_packages = ["*/tests/*", "*/*/tests/*"].map(|it| workspace.join(it));
        let files = of_packages
            .iter()
            .flat_map(|it| glob::glob(&it.to_string_lossy()).unwrap());
        for file in files.map(Result::unwrap) {
            let is_program = file.extension().is_some_and(|it| it == "rs");
            if !is_program && !file.join("main.rs").exists() {
                continue;
            }
            let name = file.file_stem().unwrap().to_str().unwrap();
            let matches = |pattern: &&str| glob::Pattern::new(pattern).unwrap().matches(name);
            let among_others = OTHERS.iter().filter(|pattern| matches(pattern)).count();
            let is_alone = name == OF_PACKAGE || name == PROFILING;
            assert_eq!(
                among_others + usize::from(is_alone),
                1,
                "{}",
                file.display()
            );
        }
    }

    #[test]
    fn tests_that_are_named_exist() {
        let named = NEEDS.iter().map(|(test, _)| *test);
        for test in named.chain([CAPTURE]) {
            assert!(exists(test), "{test}");
        }
    }
}
