//! Command lines and what becomes of them.

use std::{
    num::NonZeroU32,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::{Arg, CommandFactory as _};

use super::*;
use crate::{
    aggregate::{Filter, ThreadFilter},
    commands::{
        cli::options::{RecordOptions, Target},
        output::Destination,
        outputs::WantedOutput,
    },
    config::KEYS,
    formats::{EncodeOptions, Format, FunctionNames, Internals},
    profile::{
        CPU, Kind, LineNumbers, Period, RecordedExceptions,
        kinds::{exceptions, wall},
    },
    targets::selection::ProcessSelection,
};

fn options(arguments: &str) -> Result<RecordOptions, String> {
    let arguments = ["agent"].into_iter().chain(arguments.split_whitespace());
    let flags = Flags::try_parse_from(arguments).map_err(|error| error.to_string())?;
    RecordOptions::try_from(flags.record).map_err(|error| error.to_string())
}

fn by_pid(pid: u32) -> ProcessSelection {
    ProcessSelection {
        pids: vec![pid],
        ..ProcessSelection::default()
    }
}

#[test]
fn clap_finds_no_fault_with_the_flags() {
    Flags::command().debug_assert();
}

#[test]
fn a_process_is_all_that_is_needed() {
    assert_eq!(
        options("--pid 42"),
        Ok(RecordOptions {
            target: Target::Processes(by_pid(42)),
            children: false,
            duration: Some(Duration::from_secs(10)),
            kinds: vec![&CPU],
            rate: 99,
            wait_rate: None,
            filter: Filter::default(),
            trace_switches: false,
            exceptions: RecordedExceptions::Errors,
            native: true,
            outputs: vec![WantedOutput {
                destination: Destination::Unnamed,
                format: Format::Pprof,
            }],
            encoding: EncodeOptions::default(),
        })
    );
}

#[test]
fn the_name_of_the_command_may_be_left_out() {
    let command = |line: &str| {
        let flags = Flags::try_parse_from(line.split(' ')).map_err(|error| error.to_string())?;
        Command::try_from(flags).map_err(|error| error.to_string())
    };
    for options in ["-p 42 -o x.svg", "--subprocesses -d 1m -- python3 x.py"] {
        let named = command(&format!("agent record {options}"));
        assert_eq!(named, command(&format!("agent {options}")));
        assert!(matches!(named, Ok(Command::Record(_))), "{named:?}");
    }
    assert!(command("agent record").unwrap_err().contains("--pid"));
}

/// Whether a flag has an effect on a capture of an event.
type HasEffect = fn(&Kind) -> bool;

/// Each flag of a capture, and for which events it has an effect.
const RECORD_FLAGS: [(&str, HasEffect); 25] = [
    ("--pid 2", |_| true),
    ("--name web", |_| true),
    ("--unit web", |_| true),
    ("--container 3f2c", |_| true),
    ("--pod web", |_| true),
    ("--cgroup /web", |_| true),
    ("--children", |_| true),
    ("--duration 1s", |_| true),
    ("--rate 7", |kind| kind.period == Period::Rate),
    ("--wait-rate 7", Kind::is_of_passes),
    ("--no-native", |_| true),
    ("--gil", |kind| !kind.is_about_tasks()),
    ("--thread main", |_| true),
    ("--idle", |kind| {
        let events = ["wall", "off-cpu", "lock", "lock-release", "tasks"];
        events.contains(&kind.name)
    }),
    ("--trace-switches", Kind::needs_stacks_of_passes),
    ("--all-exceptions", |kind| kind.name == "exceptions"),
    ("--output x.svg", |_| true),
    ("--format svg", |_| true),
    ("--function-names module", |_| true),
    ("--internals", |_| true),
    ("--no-internals", |_| true),
    ("--function", |_| true),
    ("--nolineno", |_| true),
    ("--full-filenames", |_| true),
    ("--threads", |_| true),
];

#[test]
fn no_flag_of_a_capture_is_ignored() {
    for &kind in Kind::ALL {
        let capture = |flag| options(&format!("--pid 1 --event {} {flag}", kind.name));
        let without = capture("").unwrap();
        for (flag, has_effect) in RECORD_FLAGS {
            let name = flag.split(' ').next().unwrap();
            match capture(flag) {
                Ok(with) => {
                    assert!(has_effect(kind), "{} {flag}", kind.name);
                    assert_ne!(with, without, "{} {flag}", kind.name);
                }
                Err(error) => {
                    assert!(!has_effect(kind), "{} {error}", kind.name);
                    let expected = format!("{name} is about ");
                    assert!(error.starts_with(&expected), "{error}");
                    assert!(error.ends_with(", or leave it out"), "{error}");
                }
            }
        }
    }
    // One of several events is enough.
    let line =
        "--pid 1 -e alloc,lock,exceptions,cpu --rate 7 --wait-rate 7 --idle --all-exceptions";
    assert!(options(line).is_ok());
    let error = options("--pid 1 --no-native --internals").unwrap_err();
    assert!(error.contains("drop --no-native"), "{error}");
}

#[test]
fn every_flag_of_a_capture_is_in_the_table() {
    let mut command = Flags::command();
    command.build();
    // Each capture has an event; what is so by default, or about a program.
    let others = ["help", "version", "event", "native", "user"];
    let flags = command.get_arguments().filter_map(Arg::get_long);
    for flag in flags.filter(|flag| !others.contains(flag)) {
        let mut known = RECORD_FLAGS.iter();
        let is_it = |line: &str| {
            line.strip_prefix("--")
                .is_some_and(|it| it.split(' ').next() == Some(flag))
        };
        assert!(known.any(|(line, _)| is_it(line)), "{flag}");
    }
}

#[test]
fn switches_are_traced_for_waits() {
    let traced = |line: &str| options(line).map(|options| options.trace_switches);
    assert_eq!(traced("--pid 42 -e wall --trace-switches"), Ok(true));
    assert_eq!(traced("--pid 42 -e cpu,lock --trace-switches"), Ok(true));
    let refused = traced("--pid 42 --trace-switches").unwrap_err();
    assert!(refused.contains("--event wall"), "{refused}");
}

#[test]
fn everything_can_be_chosen() {
    assert_eq!(
        options(
            "-p 42 -c -d 1m30s -e cpu,wall,exceptions -r 499 --wait-rate 20 -o x.pb.gz -f svg -t -g --no-native --idle \
             --all-exceptions --thread main --function-names module --no-internals"
        ),
        Ok(RecordOptions {
            target: Target::Processes(by_pid(42)),
            children: true,
            duration: Some(Duration::from_secs(90)),
            kinds: vec![&CPU, &wall::KIND, &exceptions::KIND],
            rate: 499,
            wait_rate: NonZeroU32::new(20),
            filter: Filter {
                gil_only: true,
                thread: Some(ThreadFilter::Name("main".to_owned())),
                idle: true,
            },
            trace_switches: false,
            exceptions: RecordedExceptions::All,
            native: false,
            outputs: vec![WantedOutput {
                destination: Destination::File("x.pb.gz".into()),
                format: Format::Svg,
            }],
            encoding: EncodeOptions {
                threads: true,
                function_names: FunctionNames::Module,
                internals: Internals::Hidden,
                ..EncodeOptions::default()
            },
        })
    );
}

#[test]
fn the_last_word_on_internals_counts() {
    let internals = |arguments: &str| {
        let options = options(&format!("-p 1 {arguments}"));
        options.map(|options| options.encoding.internals)
    };
    assert_eq!(internals("--internals"), Ok(Internals::Shown));
    assert_eq!(internals("--no-internals"), Ok(Internals::Hidden));
    assert_eq!(
        internals("--no-internals --internals"),
        Ok(Internals::Shown)
    );
    assert_eq!(
        internals("--internals --no-internals"),
        Ok(Internals::Hidden)
    );
}

#[test]
fn frames_have_lines_of_their_functions_or_none() {
    let encoding = |arguments: &str| {
        let options = options(&format!("-p 1 {arguments}"));
        options.map(|options| options.encoding)
    };
    let with = |line_numbers, full_file_names| {
        Ok(EncodeOptions {
            line_numbers,
            full_file_names,
            ..EncodeOptions::default()
        })
    };
    assert_eq!(encoding(""), with(LineNumbers::Current, false));
    assert_eq!(encoding("-F"), with(LineNumbers::First, false));
    assert_eq!(encoding("--function"), with(LineNumbers::First, false));
    assert_eq!(
        encoding("--nolineno --full-filenames"),
        with(LineNumbers::Hidden, true)
    );
    let error = encoding("--nolineno --function").unwrap_err();
    assert!(error.contains("cannot be used with"), "{error}");
}

#[test]
fn the_last_word_on_native_frames_counts() {
    let native = |arguments: &str| {
        let options = options(&format!("-p 1 {arguments}"));
        options.map(|options| options.native)
    };
    assert_eq!(native(""), Ok(true));
    assert_eq!(native("--native"), Ok(true));
    assert_eq!(native("--no-native"), Ok(false));
    assert_eq!(native("--no-native --native"), Ok(true));
    assert_eq!(native("--native --no-native"), Ok(false));
    assert_eq!(native("--no-native --native --no-native"), Ok(false));
}

#[test]
fn a_program_has_the_rest_of_the_line() {
    let program = |arguments| options(arguments).map(|options| options.target);
    assert_eq!(
        program("-r 499 -- python3 -c pass --pid 7"),
        Ok(Target::Program {
            program: "python3".into(),
            arguments: ["-c", "pass", "--pid", "7"].map(Into::into).to_vec(),
            user: None,
        })
    );
    let user = |arguments| match options(arguments).map(|options| options.target) {
        Ok(Target::Program { user, .. }) => user.map(|user| (user.user, user.group)),
        _ => None,
    };
    assert_eq!(user("--user 12:34 -- true"), Some((12, 34)));
    assert!(options("--user 12:34 --pid 1").is_err());
    assert!(options("--user 12:x -- true").is_err());
    let duration = |arguments| options(arguments).map(|options| options.duration);
    assert_eq!(duration("-- true"), Ok(None));
    assert_eq!(duration("-d 5 -- true"), Ok(Some(Duration::from_secs(5))));
    assert!(options("--pid 1 -- true").is_err());
    assert!(options("python3 script.py").is_err());
    let error = options("-o - -- true").unwrap_err();
    assert!(
        error.contains("standard output belongs to the program"),
        "{error}"
    );
}

#[test]
fn the_doctor_examines_a_process_or_the_host() {
    let doctor = |arguments: &str| {
        let arguments = ["agent", "doctor"].into_iter().chain(arguments.split(' '));
        let flags = Flags::try_parse_from(arguments).map_err(|error| error.to_string())?;
        Command::try_from(flags).map_err(|error| error.to_string())
    };
    let options = |config| {
        Ok(Command::Doctor(DoctorOptions {
            process: Some(by_pid(42)),
            config,
        }))
    };
    assert_eq!(doctor("--pid 42"), options(None));
    let file = PathBuf::from("agent.yaml");
    assert_eq!(doctor("--pid 42 -c agent.yaml"), options(Some(file)));
    assert!(doctor("--rate 10 --pid 42").is_err());
    let host = DoctorOptions {
        process: None,
        config: Some("agent.yaml".into()),
    };
    assert_eq!(doctor("-c agent.yaml"), Ok(Command::Doctor(host)));
}

fn run(line: &str) -> Result<RunOptions, String> {
    let arguments = ["agent", "run"].into_iter().chain(line.split_whitespace());
    let flags = Flags::try_parse_from(arguments).map_err(|error| error.to_string())?;
    match Command::try_from(flags) {
        Ok(Command::Run(options)) => Ok(options),
        other => Err(format!("{other:?}")),
    }
}

#[test]
fn each_key_of_the_configuration_is_a_flag() {
    assert_eq!(
        run("-c a.yaml --log-level debug --rate 97 --check-config"),
        Ok(RunOptions {
            config: Some("a.yaml".into()),
            check_config: true,
            keys: vec![("rate", "97".to_owned()), ("log_level", "debug".to_owned())],
        })
    );
    assert!(run("--rates 1").is_err());
}

#[test]
fn a_switch_takes_no_value_and_has_an_opposite() {
    let keys = |line| run(line).map(|options| options.keys);
    let one = |key, value: &str| Ok(vec![(key, value.to_owned())]);
    assert_eq!(keys("--per-process"), one("per_process", "true"));
    assert_eq!(keys("--no-per-process"), one("per_process", "false"));
    assert_eq!(keys("--no-native"), one("native", "false"));
    assert_eq!(keys("--native"), one("native", "true"));
    assert_eq!(keys("--native --no-native"), one("native", "false"));
    assert_eq!(keys("--no-native --native"), one("native", "true"));
    assert!(run("--per-process true").is_err());
}

#[test]
fn help_is_grouped_and_fits_80_columns() {
    let mut command = Flags::command();
    command.build();
    let names: Vec<_> = command
        .get_subcommands()
        .map(|command| command.get_name().to_owned())
        .collect();
    let mut helps = vec![command.render_long_help().to_string()];
    for name in names {
        if let Some(command) = command.find_subcommand_mut(&name) {
            helps.push(command.render_long_help().to_string());
            helps.push(command.render_help().to_string());
        }
    }
    for line in helps.iter().flat_map(|help| help.lines()) {
        assert!(line.chars().count() <= HELP_WIDTH, "{line}");
    }
    let groups: Vec<_> = KEYS.iter().map(|key| key.group).collect();
    assert!(
        groups
            .iter()
            .all(|group| helps.concat().contains(&format!("{group}:")))
    );
}

#[test]
fn the_ending_chooses_the_format() {
    let format = |arguments| options(arguments).map(|options| options.outputs[0].format);
    assert_eq!(format("-p 1 -o a.svg"), Ok(Format::Svg));
    assert_eq!(format("-p 1 -o a/b.folded"), Ok(Format::Folded));
    assert_eq!(format("-p 1 -o -"), Ok(Format::Pprof));
    assert_eq!(format("-p 1 -o /dev/null"), Ok(Format::Pprof));
    assert_eq!(format("-p 1 -o a.json -f folded"), Ok(Format::Folded));
}

#[test]
fn an_unknown_ending_is_an_error_that_lists_the_known_ones() {
    assert_eq!(
        options("-p 1 -o a.json").unwrap_err(),
        "no format has the extension of 'a.json': use .pb.gz .pb .pprof (pprof), .folded \
         .collapsed .txt (folded), .svg (svg), .speedscope.json (speedscope), \
         .callgrind (callgrind), .cpuprofile (cpuprofile), .trace.json (chrome), .firefox.json (firefox), .perf \
         .linux-perf.txt (perf-script), .jsonl (jsonl), or choose a format with --format"
    );
    assert!(options("-p 1 -o svg").is_err());
}

#[test]
fn a_dash_is_standard_output() {
    let destination = |path: &str| Destination::from(PathBuf::from(path));
    assert_eq!(destination("-"), Destination::StandardOutput);
    assert_eq!(destination("/dev/stdout"), Destination::StandardOutput);
    assert_eq!(
        destination("./-"),
        Destination::File(Path::new("./-").into())
    );
}

#[test]
fn numbers_have_bounds() {
    for bad in [
        "--pid 0",
        "--pid -1",
        "--pid 4194305",
        "--pid x",
        "--pid 1 --rate 0",
        "--pid 1 --rate 10001",
        "--pid 1 --format html",
        "--pid 1 --flame",
        "--pid 1 2",
        "",
    ] {
        assert!(options(bad).is_err(), "{bad}");
    }
    assert!(options("--pid 4194304 --rate 10000").is_ok());
}

#[test]
fn a_number_out_of_bounds_is_told_the_bounds() {
    let error = options("--pid 1 --rate 0").unwrap_err();
    assert!(error.contains("0 is not in 1..=10000"), "{error}");
}
