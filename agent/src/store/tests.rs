use std::{
    fs,
    os::unix::fs::symlink,
    time::{Duration, SystemTime},
};

use tempfile::TempDir;

use super::{error::StoreError, name::SUFFIX, read::MAX_FILE_BYTES, *};
use crate::{
    formats::{EncodeOptions, Format, encode},
    profile::{
        CPU, Profile,
        fixtures::{example_profile, of_kind},
        kinds::page_faults,
    },
};

const START: u64 = 1_795_274_400;

/// A folder with a file for each service, second after [`START`] and pod.
fn folder(files: &[(&str, u64, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for &(service, second, pod) in files {
        let mut profile = example_profile("main.py");
        profile.start = SystemTime::UNIX_EPOCH + Duration::from_secs(START + second);
        let labels = [("service_name", service), ("pod", pod), ("zone", "a")];
        profile.labels = labels
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
        let stem = format!("{}_{}", name::time(profile.start), name::service(service));
        let mut path = folder.path().join(format!("{stem}{SUFFIX}"));
        let mut number = 2;
        while path.exists() {
            path = folder.path().join(format!("{stem}_{number}{SUFFIX}"));
            number += 1;
        }
        fs::write(path, pprof(&profile)).unwrap();
    }
    folder
}

fn pprof(profile: &Profile) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(profile, Format::Pprof, EncodeOptions::default(), &mut bytes).unwrap();
    bytes
}

fn of(service: &str) -> Selection {
    Selection {
        service: Some(service.to_owned()),
        ..Selection::default()
    }
}

fn example() -> TempDir {
    folder(&[
        ("web", 0, "1"),
        ("web", 0, "2"),
        ("web", 10, "1"),
        ("web_2", 10, "1"),
        ("my jobs/1", 20, "3"),
    ])
}

fn files(folder: &TempDir, selection: &Selection) -> u64 {
    let store = Store::open(folder.path()).unwrap();
    store.merge(selection).map_or(0, |merged| merged.files)
}

#[test]
fn series_are_listed() {
    let folder = example();
    let store = Store::open(folder.path()).unwrap();
    let listing = store.list(&Selection::default()).unwrap();
    assert_eq!(
        listing.to_string(),
        "\
service     windows     samples           CPU  first window          last window           labels
my jobs/1         1         450        4.50 s  2026-11-21T15:20:20Z  2026-11-21T15:20:20Z  pod=3
web               2         900        9.00 s  2026-11-21T15:20:00Z  2026-11-21T15:20:10Z  pod=1
web               1         450        4.50 s  2026-11-21T15:20:00Z  2026-11-21T15:20:00Z  pod=2
web_2             1         450        4.50 s  2026-11-21T15:20:10Z  2026-11-21T15:20:10Z  pod=1

All have zone=a
"
        .replace("450", &example_profile("").total().to_string())
        .replace("900", &(2 * example_profile("").total()).to_string())
        .replace("4.50", "4.00")
        .replace("9.00", "8.00")
    );
}

#[test]
fn profiles_are_selected_by_service_time_and_labels() {
    let folder = example();
    let at = |second| Some(SystemTime::UNIX_EPOCH + Duration::from_secs(START + second));
    let labelled = |selection: Selection, name: &str, value: &str| Selection {
        labels: vec![(name.to_owned(), value.to_owned())],
        ..selection
    };
    assert_eq!(files(&folder, &Selection::default()), 5);
    assert_eq!(files(&folder, &of("web")), 3);
    assert_eq!(files(&folder, &of("web_2")), 1);
    assert_eq!(files(&folder, &of("my jobs/1")), 1);
    assert_eq!(files(&folder, &of("my_jobs_1")), 1);
    assert_eq!(files(&folder, &labelled(of("web"), "pod", "1")), 2);
    let everything = Selection::default();
    assert_eq!(files(&folder, &labelled(everything.clone(), "pod", "1")), 3);
    let from = Selection {
        from: at(10),
        ..everything.clone()
    };
    assert_eq!(files(&folder, &from), 3);
    let to = Selection {
        to: at(10),
        ..everything
    };
    assert_eq!(files(&folder, &to), 2);
}

#[test]
fn all_samples_are_merged() {
    let folder = example();
    let store = Store::open(folder.path()).unwrap();
    let merged = store.merge(&of("web")).unwrap();
    assert_eq!(merged.profile.total(), 3 * example_profile("").total());
    let length = merged.times.1.duration_since(merged.times.0).unwrap();
    assert_eq!(
        length,
        example_profile("").duration + Duration::from_secs(10)
    );
    assert_eq!(merged.skipped.count, 0);
}

#[test]
fn kinds_are_listed_and_merged_on_their_own() {
    let folder = folder(&[("web", 0, "1"), ("web", 10, "1")]);
    let error = |selection: &Selection| {
        let store = Store::open(folder.path()).unwrap();
        store.merge(selection).unwrap_err().to_string()
    };
    let faults = Selection {
        kind: Some(&page_faults::KIND),
        ..of("web")
    };
    assert_eq!(
        error(&faults),
        "no profile is of the event page-faults: choose one of those that were sampled with \
         --event: cpu"
    );
    let mut profile = of_kind(example_profile("main.py"), &page_faults::KIND);
    profile.start = SystemTime::UNIX_EPOCH + Duration::from_secs(START);
    profile.labels = [("service_name", "web"), ("pod", "1"), ("zone", "a")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
    let stem = name::of_window(profile.start, "web", profile.kind);
    assert!(stem.ends_with("_web+page-faults"), "{stem}");
    fs::write(
        folder.path().join(format!("{stem}{SUFFIX}")),
        pprof(&profile),
    )
    .unwrap();

    let store = Store::open(folder.path()).unwrap();
    assert_eq!(
        store.list(&Selection::default()).unwrap().to_string(),
        "\
service  event         windows     samples         value  first window          last window           labels
web      cpu                 2         800        8.00 s  2026-11-21T15:20:00Z  2026-11-21T15:20:10Z
web      page-faults         1         400         40400  2026-11-21T15:20:00Z  2026-11-21T15:20:00Z

All have pod=1 zone=a
"
    );
    let merged = store.merge(&of("web")).unwrap();
    assert_eq!((merged.files, merged.profile.kind), (2, &CPU));
    let merged = store.merge(&faults).unwrap();
    assert_eq!(merged.files, 1);
    assert_eq!(merged.profile.kind, profile.kind);
    assert_eq!(merged.profile.total(), profile.total());
    assert_eq!(merged.profile.total_value(), profile.total_value());
}

#[test]
fn errors_name_what_can_be_selected() {
    let folder = example();
    let store = Store::open(folder.path()).unwrap();
    let error = |selection: &Selection| {
        let error = store.merge(selection).unwrap_err().to_string();
        assert_eq!(store.list(selection).unwrap_err().to_string(), error);
        error.replace(&folder.path().display().to_string(), "/folder")
    };
    assert_eq!(
        error(&of("wob")),
        "there is no service 'wob' in '/folder': the services are my_jobs_1, web"
    );
    let labelled = Selection {
        labels: vec![("pod".to_owned(), "7".to_owned())],
        ..of("web")
    };
    assert_eq!(error(&labelled), "no profile has pod=7: pod is 1, 2");
    let other = Selection {
        labels: vec![("pid".to_owned(), "7".to_owned())],
        ..of("web")
    };
    assert_eq!(error(&other), "no profile has pid=7: none has a label pid");
    let late = Selection {
        from: Some(SystemTime::UNIX_EPOCH + Duration::from_secs(START + 100)),
        ..of("web")
    };
    assert_eq!(
        error(&late),
        "no window starts in that time: the first starts at 2026-11-21T15:20:00Z, \
         the last at 2026-11-21T15:20:10Z"
    );
}

#[test]
fn a_folder_without_profiles_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("notes.pb.gz"), "").unwrap();
    for path in [folder.path(), &folder.path().join("missing")] {
        let error = Store::open(path).unwrap_err().to_string();
        assert!(error.starts_with("there are no profiles in '"), "{error}");
        assert!(
            error.contains("agent run") && error.contains("--folder"),
            "{error}"
        );
    }
    let error = Store::open(&folder.path().join("notes.pb.gz")).unwrap_err();
    assert!(matches!(error, StoreError::Unreadable { .. }), "{error}");
}

#[test]
fn hostile_files_are_named_and_cost_the_others_nothing() {
    let folder = example();
    let secret = tempfile::NamedTempFile::new().unwrap();
    fs::write(secret.path(), pprof(&example_profile(""))).unwrap();
    let path = |second: u64| {
        let start = SystemTime::UNIX_EPOCH + Duration::from_secs(START + second);
        folder
            .path()
            .join(format!("{}_web{SUFFIX}", name::time(start)))
    };
    fs::write(path(1), "not gzip").unwrap();
    fs::write(path(2), &pprof(&example_profile(""))[..100]).unwrap();
    symlink(secret.path(), path(3)).unwrap();
    fs::create_dir(path(4)).unwrap();
    let large = fs::File::create(path(5)).unwrap();
    large.set_len(MAX_FILE_BYTES + 1).unwrap();
    let store = Store::open(folder.path()).unwrap();
    let merged = store.merge(&of("web")).unwrap();
    assert_eq!(merged.files, 3);
    let named: Vec<_> = merged
        .skipped
        .named
        .iter()
        .map(|(name, _)| &**name)
        .collect();
    assert_eq!(merged.skipped.count, 3);
    assert_eq!(
        named,
        [1, 2, 5].map(|second| path(second)
            .file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned())
    );
    let listing = store.list(&of("web")).unwrap();
    assert_eq!(listing.skipped.count, 3);
    for second in 1..=5 {
        fs::remove_file(path(second))
            .or_else(|_| fs::remove_dir(path(second)))
            .unwrap();
    }
    // Removed files are not an error.
    assert_eq!(store.merge(&of("web")).unwrap().skipped.count, 0);
}

#[test]
fn a_folder_of_broken_files_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("20261121T152000.000Z_web.pb.gz"), "x").unwrap();
    let store = Store::open(folder.path()).unwrap();
    let error = store.merge(&Selection::default()).unwrap_err().to_string();
    assert!(
        error.contains("20261121T152000.000Z_web.pb.gz: it is not a complete gzip"),
        "{error}"
    );
    assert_eq!(store.list(&Selection::default()).unwrap().skipped.count, 1);
}

#[test]
fn a_file_without_labels_is_of_the_service_in_its_name() {
    let folder = tempfile::tempdir().unwrap();
    for name in [
        "20261121T152000.000Z_web.pb.gz",
        "20261121T152000.000Z_web_2.pb.gz",
    ] {
        fs::write(folder.path().join(name), pprof(&example_profile(""))).unwrap();
    }
    assert_eq!(files(&folder, &of("web")), 2);
}
