//! `agent report` on files: those of the agent, and those of other tools.
//!
//! `data/foreign/profiles.go` has written the files of Go.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod foreign;

use std::{
    collections::BTreeMap,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use agent::testing::{
    formats::{EncodeOptions, Format, encode, pprof_schema as schema},
    profile::{
        Line, Location, LocationId, Profile, Sample, StackId, ThreadIndex,
        fixtures::{PERIOD_NS, example_processes, example_profile},
        kinds::wall,
    },
};
use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use prost::Message as _;
use tempfile::TempDir;

/// A file of Go.
fn go(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/foreign");
    folder
        .join(format!("go_{name}.pb.gz"))
        .to_str()
        .unwrap()
        .to_owned()
}

/// A folder in which files are written.
struct Files(TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a file, and returns its path.
    fn write(&self, name: &str, bytes: &[u8]) -> String {
        let path = self.path(name);
        fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn profile(&self, name: &str, profile: &Profile) -> String {
        self.write(name, &encoded(profile))
    }
}

fn encoded(profile: &Profile) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(profile, Format::Pprof, EncodeOptions::default(), &mut bytes).unwrap();
    bytes
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(bytes).unwrap();
    gzip.finish().unwrap()
}

fn message(file: &[u8]) -> schema::Profile {
    let mut bytes = Vec::new();
    std::io::copy(&mut GzDecoder::new(file), &mut bytes).unwrap();
    schema::Profile::decode(&*bytes).unwrap()
}

fn agent(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_agent"));
    let command = command.arg("report").args(arguments).env_clear();
    command.output().unwrap()
}

/// Standard output and standard error of a report that succeeds.
fn report(arguments: &[&str]) -> (String, String) {
    let output = agent(arguments);
    let [stdout, stderr] =
        [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    assert!(output.status.success(), "{arguments:?}: {stderr}");
    (stdout, stderr)
}

/// The message of a report that fails, which is one line.
fn error(arguments: &[&str]) -> String {
    let output = agent(arguments);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}");
    assert!(output.stdout.is_empty(), "{arguments:?}");
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(message.lines().count(), 1, "{message}");
    message
}

/// The sums of folded stacks, as the agent writes them of these sources.
fn folded(arguments: &[&str]) -> BTreeMap<String, u64> {
    let (text, _) = report(&[arguments, &["-o", "-", "-f", "folded"]].concat());
    let lines = text.lines().map(|line| line.rsplit_once(' ').unwrap());
    lines
        .map(|(stack, value)| (stack.to_owned(), value.parse().unwrap()))
        .collect()
}

/// A profile as tools for other languages write it: without addresses, mappings and compression.
fn plain() -> schema::Profile {
    let texts = [
        "",
        "wall",
        "microseconds",
        "main",
        "app.py",
        "work\x1b[31m",
        "deep",
    ];
    let function = |id, name, filename, start_line| schema::Function {
        id,
        name,
        system_name: name,
        filename,
        start_line,
    };
    let location = |id, functions: &[u64]| schema::Location {
        id,
        line: functions
            .iter()
            .map(|&function_id| schema::Line {
                function_id,
                line: -1,
            })
            .collect(),
        ..schema::Location::default()
    };
    let sample = |locations: &[u64], value| schema::Sample {
        location_id: locations.to_vec(),
        value: vec![value],
        label: Vec::new(),
    };
    schema::Profile {
        sample_type: vec![schema::ValueType { r#type: 1, unit: 2 }],
        sample: vec![
            sample(&[1], 250_000),
            sample(&[2, 1], 750_000),
            sample(&[3, 1], 1_000_000),
        ],
        location: vec![location(1, &[1]), location(2, &[3, 2]), location(3, &[])],
        function: vec![
            function(1, 3, 4, 1),
            function(2, 5, 4, 10),
            function(3, 6, 4, 0),
        ],
        string_table: texts.map(str::to_owned).to_vec(),
        ..schema::Profile::default()
    }
}

#[test]
fn a_file_is_shown_with_totals_and_functions() {
    let files = Files::new();
    let file = files.profile("a.pb.gz", &example_profile("/srv/app/main.py"));
    let (text, messages) = report(&[&file]);
    assert_eq!(messages, "");
    let mut lines = text.lines();
    let head = lines.next().unwrap();
    assert!(head.starts_with("1 profile from 2"), "{head}");
    assert_eq!(
        lines.next(),
        Some("python3.12 (pid 4242, CPython 3.12.1): 400 samples in 10.0 s, 4.00 s of CPU")
    );
    assert!(
        text.contains(" 12.5%  0.50 s   Rows.load.<locals>.<lambda>  /srv/app/main.py:14\n"),
        "{text}"
    );
    // The table has 20 rows of 21.
    assert!(text.contains("… and 1 more function\n"), "{text}");
    assert!(!text.contains("list_sort_impl"), "{text}");
    let (text, _) = report(&[&file, "-n", "3"]);
    assert!(text.contains("… and 18 more functions\n"), "{text}");
    let (text, _) = report(&[&file, "-n", "100", "--internals"]);
    assert!(text.contains("list_sort_impl  python3.12\n"), "{text}");
}

#[test]
fn a_tree_has_the_calls_with_their_shares() {
    let files = Files::new();
    let file = files.profile("a.pb.gz", &example_profile("/srv/app/main.py"));
    let (text, _) = report(&[&file, "--tree", "--min-share", "5%"]);
    let (_, tree) = text.split_once("call tree\n").unwrap();
    assert_eq!(
        tree.trim_start(),
        "\
91.0%  3.64 s            <module>  /srv/app/main.py:1
 90.2%  3.61 s     1.2%     main  /srv/app/main.py:3
 39.0%  1.56 s                get  /srv/venv/lib/python3.12/site-packages/req/api.py:62
 37.5%  1.50 s    37.5%         loads  /usr/lib/python3.12/json/__init__.py:299
 37.5%  1.50 s                fib  /srv/app/main.py:7
                   7.5%       → fib  /srv/app/main.py:7
 30.0%  1.20 s    30.0%         fib  /srv/app/main.py:7
  7.5%  0.30 s     7.5%       Rows.load.<locals>.<lambda>  /srv/app/main.py:14
  5.0%  0.20 s                vfs_write  [kernel]
                   5.0%       → ext4_file_write_iter  [ext4]
  5.0%  0.20 s            [frames left out]
                          → Rows.load.<locals>.<lambda>  /srv/app/main.py:14
                   5.0%   → Straße.größe_日本  /srv/app/main.py:17
"
    );
    assert!(!text.contains("self            total"), "{text}");
    let (both, _) = report(&[&file, "--tree", "--top"]);
    assert!(both.contains("self            total") && both.contains("call tree"));
}

#[test]
fn files_are_merged_with_their_processes() {
    let files = Files::new();
    let one = files.profile("one.pb.gz", &example_profile("main.py"));
    let mut later = example_processes("main.py");
    later.start += later.duration * 2;
    let two = files.profile("two.pb.gz", &later);
    let (text, _) = report(&[&one, &two]);
    assert!(text.starts_with("2 profiles from "), "{text}");
    assert!(
        text.contains("\n3 processes: 917 samples in 20.0 s, 9.17 s of CPU\n"),
        "{text}"
    );
    let mut sum = folded(&[&one]);
    for (stack, count) in folded(&[&two]) {
        *sum.entry(stack).or_default() += count;
    }
    let both = folded(&[&one, &two]);
    assert_eq!(
        both.values().sum::<u64>(),
        sum.values().sum::<u64>(),
        "{both:?}"
    );
    // A folder with both is the same.
    assert_eq!(folded(&[files.0.path().to_str().unwrap()]), both);
}

#[test]
fn samples_of_merged_files_are_those_of_each() {
    let files = Files::new();
    // At 50 ms and at 10 ms, and none of exactly such a time.
    let recorded = |samples: u64, period| {
        let mut profile = example_profile("main.py");
        profile.kind = &wall::KIND;
        profile.period = period;
        profile.samples.truncate(1);
        profile.samples[0].count = samples;
        profile.samples[0].value = samples * period + 12_345;
        profile
    };
    let one = files.profile("one.pb.gz", &recorded(197, 50_000_000));
    let two = files.profile("two.pb.gz", &recorded(594, 10_000_000));
    let (text, _) = report(&[&one, &two]);
    assert!(text.contains(": 791 samples in 10.0 s, 15.79 s"), "{text}");
    let (text, _) = report(&[&one, &two, "-o", "-", "-f", "jsonl"]);
    assert_eq!(text.matches("\"samples\":791,").count(), 2, "{text}");
    let merged = files.path("both.pb.gz");
    report(&[&one, &two, "-o", merged.to_str().unwrap()]);
    let samples = message(&fs::read(&merged).unwrap()).sample;
    assert_eq!(samples.iter().map(|it| it.value[0]).sum::<i64>(), 791);
    let folder = TempDir::new().unwrap();
    for (second, file) in [one, two].iter().enumerate() {
        let name = format!("20261121T15200{second}.000Z_web.wall.pb.gz");
        fs::copy(file, folder.path().join(name)).unwrap();
    }
    let folder = folder.path().to_str().unwrap();
    let of_folder = ["--folder", folder, "-e", "wall"];
    for view in [&[][..], &["--top"]] {
        let (text, _) = report(&[&of_folder, view].concat());
        assert!(text.contains("791"), "{text}");
    }
}

#[test]
fn a_folder_may_have_other_files() {
    let files = Files::new();
    files.profile("one.pb.gz", &example_profile("main.py"));
    files.write("broken.pb.gz", b"\x1f\x8bbroken");
    files.write("notes.txt", b"notes");
    let (text, messages) = report(&[files.0.path().to_str().unwrap()]);
    assert!(text.starts_with("1 profile "), "{text}");
    assert!(messages.contains("broken.pb.gz skipped"), "{messages}");
    assert_eq!(messages.lines().count(), 1);
}

#[test]
fn a_file_is_converted_into_every_format() {
    let files = Files::new();
    let file = files.profile("a.pb.gz", &example_profile("main.py"));
    for format in Format::ALL {
        let written = files.path(&format!("written.{}", format.endings()[0]));
        if format.needs_times() {
            let output = agent(&[&file, "-o", written.to_str().unwrap()]);
            assert_eq!(output.status.code(), Some(2), "{format}");
            let message = String::from_utf8(output.stderr).unwrap();
            assert!(message.contains("choose another format"), "{message}");
            assert!(!written.exists());
            continue;
        }
        let (text, messages) = report(&[&file, "-o", written.to_str().unwrap()]);
        assert_eq!(text, "");
        assert!(messages.contains("4.00 s of CPU"), "{messages}");
        let mut expected = Vec::new();
        encode(
            &example_profile("main.py"),
            format,
            EncodeOptions::default(),
            &mut expected,
        )
        .unwrap();
        let bytes = fs::read(&written).unwrap();
        if format == Format::Pprof {
            let [one, other] = [message(&bytes), message(&expected)].map(|it| it.sample.len());
            assert_eq!(one, other);
        } else {
            assert_eq!(bytes.len(), expected.len(), "{format}");
        }
    }
}

#[test]
fn what_cannot_be_read_is_one_sentence() {
    let files = Files::new();
    let whole = encoded(&example_profile("main.py"));
    let mut negative = plain();
    negative.sample[0].value[0] = -1;
    let mut unknown = plain();
    unknown.sample[0].location_id = vec![99];
    fs::create_dir(files.path("folder")).unwrap();
    for (name, bytes, expected) in [
        ("empty", &b""[..], "is empty: record the profile again"),
        ("text", b"main;work 12\n", "is not a pprof file"),
        (
            "svg",
            b"<?xml version=\"1.0\"?><svg/>",
            "is not a pprof file",
        ),
        ("json", b"{\"nodes\": []}", "is not a pprof file"),
        ("half.pb.gz", &whole[..whole.len() / 2], "is truncated"),
        ("other.gz", &gzip(b""), "is a gzip file without a profile"),
        ("text.gz", &gzip(b"text"), "is not a valid pprof file"),
        (
            "bomb.pb.gz",
            &gzip(&vec![0; 65 << 20]),
            "larger than 67108864 bytes",
        ),
        (
            "negative.pb",
            &negative.encode_to_vec(),
            "compare the two with --diff",
        ),
        (
            "unknown.pb",
            &unknown.encode_to_vec(),
            "its stacks are malformed",
        ),
    ] {
        let path = files.write(name, bytes);
        for arguments in [
            &[&*path][..],
            &[&path, "-o", "-"],
            &["--diff", &path, &path],
        ] {
            let message = error(arguments);
            assert!(message.contains(&path), "{message}");
            assert!(message.contains(expected), "{name}: {message}");
        }
    }
    let missing = error(&[files.path("missing").to_str().unwrap()]);
    assert!(
        missing.contains("name a pprof file, or a folder of profiles"),
        "{missing}"
    );
    let none = error(&[files.path("folder").to_str().unwrap()]);
    assert!(none.contains("there are no profiles in"), "{none}");

    let file = files.profile("cpu.pb.gz", &example_profile("main.py"));
    let message = error(&[&file, "--event", "wall"]);
    assert!(
        message.contains("is a profile of cpu, not of wall"),
        "{message}"
    );
    let message = error(&[&file, "--label", "pod=x"]);
    assert!(message.contains("nothing is selected"), "{message}");
    let other = Profile {
        kind: &wall::KIND,
        ..example_profile("main.py")
    };
    let other = files.profile("wall.pb.gz", &other);
    let message = error(&[&file, &other]);
    assert!(message.contains("of two events, cpu and wall"), "{message}");
    // One of them is what is selected.
    assert_eq!(folded(&[&file, &other, "-e", "wall"]), folded(&[&other]));
}

#[test]
fn a_limit_of_growth_is_about_two_profiles() {
    let files = Files::new();
    let file = files.profile("a.pb.gz", &example_profile("main.py"));
    let output = agent(&[&file, "--fail-above", "1%"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    let message = String::from_utf8(output.stderr).unwrap();
    let expected = "name two profiles with --diff BEFORE AFTER";
    assert!(message.contains(expected), "{message}");
}

#[test]
fn a_hundred_thousand_stacks_are_exact() {
    let mut profile = example_profile("main.py");
    let python = profile.samples[0].stack.0 as usize;
    let line = profile.location(profile.stacks[python][0]).lines[0];
    profile.locations = (0..100)
        .map(|number| {
            let mut function = profile.functions[line.function.0 as usize].clone();
            function.name = format!("function_{number}");
            profile.functions.push(function);
            let function = u32::try_from(profile.functions.len() - 1).unwrap();
            Location {
                lines: [Line {
                    function: agent::testing::profile::FunctionId(function),
                    ..line
                }]
                .into(),
                code: None,
            }
        })
        .collect();
    // Each stack has 40 frames; the three at the leaf tell them apart.
    let frames = |number: u32| {
        let digits = [number % 100, number / 100 % 100, number / 10_000];
        let below = (0..37).map(|depth| depth % 10);
        digits.into_iter().chain(below).map(LocationId).collect()
    };
    profile.stacks = (0..100_000).map(frames).collect();
    profile.samples = (0..100_000)
        .map(|number| Sample {
            stack: StackId(number),
            thread: ThreadIndex(0),
            task: None,
            count: 1,
            value: PERIOD_NS,
        })
        .collect();
    let files = Files::new();
    let file = files.profile("many.pb.gz", &profile);
    let (text, _) = report(&[&file, "--top", "--tree", "-n", "300", "--min-share", "0.5%"]);
    assert!(
        text.contains("100000 samples in 10.0 s, 1000.00 s of CPU"),
        "{text}"
    );
    // Each of a hundred leaves has a hundredth.
    let rows = text.lines().filter(|line| line.starts_with("  1.0%  "));
    assert_eq!(rows.count(), 100, "{text}");
    let (_, tree) = text.split_once("call tree\n").unwrap();
    // 37 common callers, ten below them, and of those what is below a two-hundredth is left out.
    assert!(tree.contains("\n 10.0%   100.00 s "), "{tree}");
    assert_eq!(folded(&[&file]).len(), 100_000);
    assert_eq!(folded(&[&file]).values().sum::<u64>(), 100_000);
}
