//! `agent report`: lists and merges the profiles that `agent run` has stored.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use tempfile::TempDir;

use super::{
    capture::Capture,
    folded::{Folded, Frame, NO_PYTHON},
    host::{Host, PROFILES, SECOND, service, wait_for_cpu},
    machine,
    pprof::{self, Profile},
};

/// The files of a service, by time.
fn files(folder: &Path, service: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().flatten();
    let mut files: Vec<_> = entries
        .map(|entry| entry.path())
        .filter(|path| {
            let (_, rest) = name(path).split_once("Z_").unwrap();
            rest.strip_suffix(".pb.gz").unwrap() == service
        })
        .collect();
    files.sort();
    files
}

fn name(path: &Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}

/// The time in a file's name, in the format of RFC 3339.
fn rfc3339(path: &Path) -> String {
    let (time, _) = name(path).split_once('_').unwrap();
    let part = |range: std::ops::Range<usize>| &time[range];
    format!(
        "{}-{}-{}T{}:{}:{}",
        part(0..4),
        part(4..6),
        part(6..8),
        part(9..11),
        part(11..13),
        &time[13..]
    )
}

fn read(path: &Path) -> Profile {
    pprof::read(&fs::read(path).unwrap())
}

/// Stacks of Python frames and their samples.
type Stacks = BTreeMap<Vec<Frame>, u64>;

fn has_python(stack: &[Frame]) -> bool {
    stack.iter().any(|frame| frame.name != NO_PYTHON)
}

/// The sum of some files.
fn sum(files: &[PathBuf]) -> (Stacks, u64) {
    let (mut stacks, mut total) = (Stacks::new(), 0);
    for sample in files.iter().flat_map(|path| read(path).samples) {
        total += sample.count;
        if has_python(&sample.thread.stack) {
            *stacks.entry(sample.thread.stack).or_default() += sample.count;
        }
    }
    (stacks, total)
}

/// Runs `agent report` on a folder with these additional options.
fn report(folder: &Path, options: &[&str]) -> Capture {
    let mut line = vec!["report", "--folder", folder.to_str().unwrap()];
    line.extend(options);
    Capture::run(&line)
}

/// A merged profile as folded stacks: the Python stacks, and the number of all samples.
fn merged(folder: &Path, options: &[&str]) -> (Stacks, u64) {
    let mut line = vec!["-o", "-", "-f", "folded"];
    line.extend(options);
    let capture = report(folder, &line);
    capture.assert_success();
    assert!(
        capture.messages.contains("function"),
        "{}",
        capture.messages
    );
    let all = Folded::parse_whole(&String::from_utf8(capture.output).unwrap());
    let mut stacks = all.python().0;
    stacks.retain(|stack, _| has_python(stack));
    (stacks, all.total())
}

/// The error message of a report without profiles.
fn error(folder: &Path, options: &[&str]) -> String {
    let capture = report(folder, options);
    assert!(!capture.status.success());
    assert!(capture.output.is_empty());
    capture.messages
}

#[test]
fn stored_profiles_are_listed_and_merged() {
    let _machine = machine::alone();
    let web = service("busy", "web");
    let jobs = service("busy", "jobs");
    // So that samples stand for the same time in all windows.
    let host = Host::start("labels: {team: shop}\nmax_cpu: 100");
    wait_for_cpu(&web, SECOND * 4);
    wait_for_cpu(&jobs, SECOND);
    drop((web, jobs));
    let state = host.stop();
    let folder = state.path().join(PROFILES);

    let of_web = files(&folder, "web");
    assert!(of_web.len() >= 3, "{of_web:?}");
    let (stacks, total) = sum(&of_web);
    let main = |stack: &[Frame]| stack.last().is_some_and(|frame| frame.name == "main");
    let in_main: u64 = stacks
        .iter()
        .filter(|(stack, _)| main(stack))
        .map(|(_, count)| count)
        .sum();
    assert!(in_main * 10 > total * 9, "{stacks:?}");

    // The list.
    let list = report(&folder, &[]);
    list.assert_success();
    let list = String::from_utf8(list.output).unwrap();
    let rows = list
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    let rows: Vec<_> = rows.filter(|row| row.first() == Some(&"web")).collect();
    let column = |index: usize| {
        rows.iter()
            .map(|row| row[index].parse::<u64>().unwrap())
            .sum::<u64>()
    };
    assert_eq!(column(1), of_web.len() as u64, "{list}");
    assert_eq!(column(2), total, "{list}");
    assert!(list.lines().any(|line| line.starts_with("jobs ")), "{list}");
    assert!(list.contains("team=shop"), "{list}");

    // All windows, and time ranges.
    assert_eq!(
        merged(&folder, &["--service", "web"]),
        (stacks.clone(), total)
    );
    let by_label = ["--label", "service_name=web", "--label", "team=shop"];
    assert_eq!(merged(&folder, &by_label), (stacks, total));
    let second = rfc3339(&of_web[1]);
    let in_range = |flag| merged(&folder, &["--service", "web", flag, &second]);
    assert_eq!(in_range("--from"), sum(&of_web[1..]));
    assert_eq!(in_range("--to"), sum(&of_web[..1]));

    // A merged file has the start, the period and all samples of the stored ones.
    let file = state.path().join("web.pb.gz");
    let written = report(&folder, &["--service", "web", "-o", file.to_str().unwrap()]);
    written.assert_success();
    let profile = read(&file);
    assert_eq!(profile.total(), total);
    assert_eq!(profile.start, read(&of_web[0]).start);
    assert!(profile.period == read(&of_web[0]).period);

    // Selections that match no profile.
    let unknown = error(&folder, &["--service", "wob"]);
    assert!(
        unknown.contains("jobs") && unknown.contains("web"),
        "{unknown}"
    );
    let other = error(&folder, &["--label", "team=x", "-o", "-", "-f", "folded"]);
    assert!(other.contains("team is shop"), "{other}");
    let late = error(&folder, &["--service", "web", "--to", "2020-01-01"]);
    assert!(late.contains("no window starts in that time"), "{late}");
}

#[test]
fn the_error_for_a_folder_without_profiles_has_a_remedy() {
    let folder = TempDir::new().unwrap();
    for path in [folder.path(), &folder.path().join("missing")] {
        for options in [&[][..], &["-o", "-"]] {
            let error = error(path, options);
            assert!(error.contains("there are no profiles in"), "{error}");
            assert!(error.contains("`agent run` writes them there"), "{error}");
        }
    }
}
