//! Profiles of page faults, compared with the kernel's account of the process.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use tempfile::TempDir;

use super::{
    capture::Running,
    host::{Host, PROFILES, WINDOW, report},
    machine,
    pprof::{self, schema, text},
    program::Program,
};

/// The functions of the workload, and the share of its page faults in per cent.
const SHARES: [(&str, i64); 3] = [("touch_three", 60), ("touch_one", 20), ("read_one", 20)];

/// Tolerated error of shares, in percentage points. There is a sample for about every hundredth of
/// half a million faults, at equal distances.
const TOLERANCE: i64 = 2;

/// Sample types and period type of profiles of page faults.
const TYPES: [(&str, &str); 3] = [
    ("samples", "count"),
    ("page_faults", "count"),
    ("page_faults", "count"),
];

/// What the workload has printed.
struct Used {
    page_faults: i64,
    cpu: Duration,
}

impl Used {
    fn read(output: &[u8]) -> Self {
        let text = str::from_utf8(output).unwrap();
        let (page_faults, cpu) = text.trim().split_once('\n').unwrap();
        Self {
            page_faults: page_faults.parse().unwrap(),
            cpu: Duration::from_secs_f64(cpu.parse().unwrap()),
        }
    }
}

/// Asserts that profiles, all of one kind, have the page faults of the workload.
fn assert_faults(profiles: &[schema::Profile], used: &Used) {
    let (mut total, mut truncated) = (0, 0);
    let mut functions = BTreeMap::<&str, i64>::new();
    for profile in profiles {
        let types = profile.sample_type.iter().chain(&profile.period_type);
        let types: Vec<_> = types
            .map(|of| (text(profile, of.r#type), text(profile, of.unit)))
            .collect();
        assert_eq!(types, TYPES);
        for sample in &profile.sample {
            let [count, faults] = sample.value[..] else {
                panic!("{sample:?}");
            };
            assert_eq!(count * profile.period, faults);
            total += faults;
            let names = names(profile, sample);
            let names: Vec<_> = names.collect();
            let is_in = |function: &str| names.contains(&function);
            for (function, _) in SHARES.iter().filter(|(function, _)| is_in(function)) {
                *functions.entry(function).or_default() += faults;
                assert!(is_in("main"), "{names:?}");
            }
            // Also where the kernel's own code faults, the walk begins in that of the thread.
            // A table that is compiled after the program has begun is another matter.
            let is_truncated = |name: &&str| {
                name.starts_with("[native frames unknown") && !name.contains("not loaded yet")
            };
            if is_in("read_one") && names.iter().any(is_truncated) {
                truncated += faults;
            }
        }
    }
    let error = (total - used.page_faults).abs() * 100;
    let expected = used.page_faults;
    assert!(error <= expected * TOLERANCE, "{total} of {expected}");
    assert!(truncated * 100 <= total, "{truncated} of {total}");
    for (function, share) in SHARES {
        let found = functions[function] * 100;
        assert!(
            (found - total * share).abs() <= total * TOLERANCE,
            "{function}: {} of {total} instead of {share} %",
            functions[function]
        );
    }
}

/// The names of the functions of a sample.
fn names<'a>(
    profile: &'a schema::Profile,
    sample: &'a schema::Sample,
) -> impl Iterator<Item = &'a str> {
    let locations = sample.location_id.iter().filter_map(|id| {
        let mut locations = profile.location.iter();
        locations.find(|location| location.id == *id)
    });
    let lines = locations.flat_map(|location| &location.line);
    lines.filter_map(|line| {
        let mut functions = profile.function.iter();
        let function = functions.find(|function| function.id == line.function_id)?;
        Some(text(profile, function.name))
    })
}

#[test]
fn a_capture_has_the_page_faults_of_each_function() {
    let _machine = machine::alone();
    machine::for_each_kind(|interpreter| {
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("profile.pb.gz");
        let program = Program::of(interpreter, "fresh_pages", &[]);
        let mut arguments = vec!["--event", "page-faults", "--output"];
        arguments.extend([file.to_str().unwrap(), "--"]);
        arguments.extend(program.0.iter().map(String::as_str));
        let capture = Running::start(&arguments).finish();
        capture.assert_success();
        let used = Used::read(&capture.output);
        let profile = pprof::decode(&fs::read(&file).unwrap());
        assert_faults(&[profile], &used);
        let mut lines = capture.messages.lines();
        let summary = lines.find(|line| line.contains(" samples in ")).unwrap();
        assert!(summary.ends_with(" page faults"), "{summary}");
    });
}

/// Each of them is a sample.
#[test]
fn a_capture_has_every_major_page_fault() {
    let _machine = machine::alone();
    // In a folder that is on a disk.
    let folder = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let [file, cold] = ["profile.pb.gz", "cold"].map(|name| folder.path().join(name));
    let cold = cold.to_str().unwrap();
    let program = Program::of(machine::one_interpreter(), "cold_pages", &[cold]);
    let mut arguments = vec!["--event", "major-faults", "--output"];
    arguments.extend([file.to_str().unwrap(), "--"]);
    arguments.extend(program.0.iter().map(String::as_str));
    let capture = Running::start(&arguments).finish();
    capture.assert_success();
    let text = String::from_utf8(capture.output).unwrap();
    let expected: i64 = text.trim().parse().unwrap();
    assert!(expected > 100, "{expected}");
    let profile = pprof::decode(&fs::read(&file).unwrap());
    let mut cold = 0;
    for sample in &profile.sample {
        assert_eq!(sample.value[0], sample.value[1]);
        if names(&profile, sample).any(|name| name == "read_cold") {
            cold += sample.value[1];
        }
    }
    assert_eq!(profile.period, 1);
    assert_eq!(cold, expected);
}

#[test]
fn a_host_has_profiles_of_cpu_time_and_of_page_faults_at_once() {
    let _machine = machine::alone();
    let host = Host::start("events: [page-faults, cpu]");
    let interpreter = machine::one_interpreter();
    let program = Program::of(interpreter, "fresh_pages", &[]);
    let used = Used::read(&program.run_as("fresh"));
    let requested = host.get("/debug/pprof/profile?seconds=0.5&event=page-faults");
    let requested = pprof::decode(&requested);
    assert_eq!(
        text(&requested, requested.default_sample_type),
        "page_faults"
    );
    thread::sleep(WINDOW);
    let folder = host.stop();
    let windows = folder.path().join(PROFILES);

    assert_faults(&profiles(&windows, "fresh+page-faults"), &used);
    let mut cpu_ns = 0;
    for profile in profiles(&windows, "fresh") {
        cpu_ns += profile
            .sample
            .iter()
            .map(|sample| sample.value[1])
            .sum::<i64>();
    }
    let cpu = Duration::from_nanos(cpu_ns.try_into().unwrap());
    let difference = cpu.abs_diff(used.cpu);
    assert!(difference * 5 < used.cpu, "{cpu:?} of {:?}", used.cpu);

    // Merged, each on its own.
    for (event, default) in [("cpu", "cpu"), ("page-faults", "page_faults")] {
        let merged = report(&folder, &format!("--event {event} --service fresh"));
        let merged = pprof::decode(&merged);
        assert_eq!(text(&merged, merged.default_sample_type), default);
        if event == "page-faults" {
            assert_faults(&[merged], &used);
        }
    }
}

/// The profiles of a folder with a service and a kind in their names, also those that were made before
/// the process had been examined, which have other labels and a number.
fn profiles(folder: &Path, stem: &str) -> Vec<schema::Profile> {
    let entries = fs::read_dir(folder).unwrap().flatten();
    let paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    let is_wanted = |path: &&PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap();
        let (_, name) = name.split_once("Z_").unwrap();
        let name = name.strip_suffix(".pb.gz").unwrap();
        name == stem || name.strip_suffix("_2") == Some(stem)
    };
    let files = paths.iter().filter(is_wanted);
    files
        .map(|path| pprof::decode(&fs::read(path).unwrap()))
        .collect()
}
