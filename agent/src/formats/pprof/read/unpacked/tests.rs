use std::{collections::BTreeMap, io::Write as _};

use flate2::{Compression, write::GzEncoder};
use proptest::prelude::*;

use super::*;
use crate::{
    formats::{EncodeOptions, Format, FunctionNames, encode},
    profile::{
        Process, Sample,
        fixtures::{PERIOD_NS, example_processes, example_profile, of_kind},
    },
};

fn encoded(profile: &Profile, options: EncodeOptions) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(profile, Format::Pprof, options, &mut bytes).unwrap();
    bytes
}

fn read(profile: &Profile, options: EncodeOptions) -> Profile {
    let bytes = encoded(profile, options);
    PprofFile::new(&bytes).unwrap().profile().unwrap()
}

fn folded(profile: &Profile, threads: bool) -> String {
    let options = EncodeOptions {
        threads,
        ..EncodeOptions::default()
    };
    let mut bytes = Vec::new();
    encode(profile, Format::Folded, options, &mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

/// Without the labels of samples.
fn plain() -> EncodeOptions {
    EncodeOptions {
        without_labels: true,
        ..EncodeOptions::default()
    }
}

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let pairs = pairs.iter();
    pairs
        .map(|&(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

fn packed(message: &[u8]) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(message).unwrap();
    gzip.finish().unwrap()
}

#[test]
fn a_written_profile_can_be_read() {
    let mut profile = example_profile("/srv/app/main.py");
    profile.labels = labels(&[("service_name", "web"), ("pod", "a=b c")]);
    let again = read(&profile, EncodeOptions::default());
    assert_eq!(again.labels, profile.labels);
    assert_eq!(again.start, profile.start);
    assert_eq!(again.duration, profile.duration);
    assert_eq!(again.period, profile.period);
    assert_eq!(again.losses, profile.losses);
    let [process] = &*again.processes else {
        panic!("{:?}", again.processes);
    };
    assert_eq!(process.pid, 4242);
    assert_eq!(process.runtime, "CPython 3.12.1");
    assert!(process.is_python);
    assert_eq!(folded(&again, true), folded(&profile, true));
    for executable in &profile.executables {
        assert!(again.executables.contains(executable), "{executable:?}");
    }
    for function in &profile.functions {
        // Control characters are escaped.
        let is_same = again.functions.contains(function);
        assert!(is_same || function.name.contains('\n'), "{function:?}");
    }
}

#[test]
fn a_profile_that_was_read_is_written_unchanged() {
    for profile in [example_profile("main.py"), example_processes("main.py")] {
        for options in [EncodeOptions::default(), plain()] {
            let once = read(&profile, options);
            let twice = read(&once, options);
            assert_eq!(folded(&once, true), folded(&twice, true));
            assert_eq!(once.losses, twice.losses);
            assert_eq!(once.stacks.len(), twice.stacks.len());
            assert_eq!(once.total(), profile.total());
        }
    }
}

#[test]
fn labels_distinguish_processes() {
    let profile = example_processes("main.py");
    let again = read(&profile, EncodeOptions::default());
    assert_eq!(folded(&again, true), folded(&profile, true));
    let runtimes = |profile: &Profile| {
        let processes = profile.processes.iter();
        let runtimes = processes.map(|process| (process.pid, process.runtime.clone()));
        runtimes.collect::<Vec<_>>()
    };
    assert_eq!(runtimes(&again), runtimes(&profile));
}

#[test]
fn functions_are_read_without_their_module() {
    let profile = example_profile("/srv/app/main.py");
    let with_modules = EncodeOptions {
        function_names: FunctionNames::Module,
        ..EncodeOptions::default()
    };
    let again = read(&profile, with_modules);
    assert!(
        again
            .functions
            .iter()
            .any(|function| function.name == "main")
    );
    assert_eq!(folded(&again, true), folded(&profile, true));
}

#[test]
fn without_labels_all_processes_are_merged() {
    let mut profile = example_processes("main.py");
    profile.labels = labels(&[("service_name", "web")]);
    let again = read(&profile, plain());
    let [process] = &*again.processes else {
        panic!("{:?}", again.processes);
    };
    assert_eq!((process.pid, &*process.name), (0, "web"));
    // Their runtimes differ.
    assert_eq!(process.runtime, "");
    assert!(process.is_python);
    assert_eq!(again.total(), profile.total());
    assert_eq!(again.threads.len(), 1);
    assert!(folded(&again, false).contains("main.py"));
}

#[test]
fn profiles_of_all_kinds_are_read() {
    for &kind in Kind::ALL {
        let profile = of_kind(example_profile("main.py"), kind);
        let bytes = encoded(&profile, plain());
        let head = PprofFile::new(&bytes).unwrap().head().unwrap();
        assert_eq!((head.kind, head.total.value), (kind, profile.total_value()));
        let again = read(&profile, EncodeOptions::default());
        assert_eq!((again.kind, again.period), (kind, profile.period));
        assert_eq!(again.total_value(), profile.total_value());
        assert_eq!(folded(&again, true), folded(&profile, true));
    }
}

#[test]
fn a_header_agrees_with_the_profile() {
    let mut profile = example_processes("main.py");
    profile.labels = labels(&[("service_name", "web"), ("empty", "")]);
    let bytes = encoded(&profile, plain());
    let head = PprofFile::new(&bytes).unwrap().head().unwrap();
    assert_eq!(head.labels, profile.labels);
    assert_eq!(head.kind, profile.kind);
    assert_eq!(head.total.count, profile.total());
    assert_eq!(head.total.value, profile.total_value());
    assert_eq!(head.start, profile.start);
    assert_eq!(head.duration, profile.duration);
}

#[test]
fn other_files_are_rejected() {
    let error = |bytes: &[u8]| {
        let unpacked = PprofFile::new(bytes);
        let profile = unpacked.and_then(|unpacked| unpacked.profile());
        profile.unwrap_err().to_string()
    };
    assert!(error(b"").contains("gzip"));
    assert!(error(b"plain text").contains("gzip"));
    let whole = encoded(&example_profile(""), EncodeOptions::default());
    assert!(error(&whole[..whole.len() / 2]).contains("gzip"));
    assert_eq!(error(&packed(b"")), PprofReadError::Foreign.to_string());
    let large = packed(&vec![0; 40 << 20]);
    assert!(error(&large).contains("larger than"));
}

#[test]
fn the_reader_of_any_tool_reads_the_same_of_the_agent() {
    for &kind in Kind::ALL {
        let profile = of_kind(example_processes("main.py"), kind);
        let bytes = encoded(&profile, EncodeOptions::default());
        let own = PprofFile::new(&bytes).unwrap().profile().unwrap();
        let file = PprofFile::of_any_tool(bytes).unwrap();
        let any = file.any_profile(None).unwrap();
        assert_eq!(any.profile.kind, kind);
        assert_eq!(any.sample_type, kind.default_type);
        assert_eq!(folded(&any.profile, true), folded(&own, true));
        assert_eq!(any.profile.processes.len(), own.processes.len());
    }
}

#[test]
fn numbers_out_of_range_are_rejected() {
    let profile = example_profile("");
    let with = |count, value| {
        let samples = profile.samples.iter().take(2);
        let samples = samples.map(|sample| Sample {
            count,
            value,
            ..*sample
        });
        Profile {
            samples: samples.collect(),
            ..profile.clone()
        }
    };
    let error = |profile: &Profile| {
        let unpacked = PprofFile::new(&encoded(profile, plain())).unwrap();
        assert!(unpacked.head().is_err());
        unpacked.profile().unwrap_err().to_string()
    };
    let most = i64::MAX.unsigned_abs();
    for profile in [with(most, 1), with(1, most)] {
        assert_eq!(error(&profile), "its values are malformed");
    }
    let timeless = Profile {
        period: 0,
        ..profile.clone()
    };
    assert_eq!(error(&timeless), "its times are malformed");
}

#[test]
fn all_processes_of_a_service_are_read() {
    let mut profile = example_profile("");
    profile.processes = vec![Process {
        pid: 0,
        name: "web (old), new".to_owned(),
        is_python: true,
        runtime: "CPython 3.12.1".to_owned(),
        ..Process::default()
    }];
    let again = read(&profile, plain());
    assert_eq!(again.processes[0].pid, 0);
    assert_eq!(again.processes[0].name, "web (old), new");
    assert_eq!(again.processes[0].runtime, "CPython 3.12.1");
}

fn is_valid(profile: &Profile) -> bool {
    let fits = |index: u32, length: usize| (index as usize) < length;
    let samples = profile.samples.iter().all(|sample| {
        fits(sample.stack.0, profile.stacks.len()) && fits(sample.thread.0, profile.threads.len())
    });
    let stacks = profile.stacks.iter().flatten();
    let lines = profile.locations.iter().flat_map(|it| &it.lines);
    let codes = profile.locations.iter().filter_map(|it| it.code);
    let threads = profile.threads.iter();
    samples
        && stacks
            .map(|id| id.0)
            .all(|id| fits(id, profile.locations.len()))
        && lines
            .map(|line| line.function.0)
            .all(|id| fits(id, profile.functions.len()))
        && codes
            .map(|code| code.executable.0)
            .all(|id| fits(id, profile.executables.len()))
        && threads
            .map(|thread| thread.process.0)
            .all(|id| fits(id, profile.processes.len()))
}

proptest! {
    #[test]
    fn random_bytes_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..500)) {
        let _ = PprofFile::new(&bytes).and_then(|unpacked| unpacked.profile());
        let unpacked = PprofFile(bytes);
        let _ = unpacked.head();
        let _ = unpacked.profile();
        let _ = unpacked.any_profile(None);
    }

    #[test]
    fn whatever_a_tool_writes_is_a_valid_profile_or_an_error(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..30),
        sample_type in proptest::option::of("samples|cpu"),
    ) {
        let bytes = encoded(&example_processes("main.py"), EncodeOptions::default());
        let mut unpacked = PprofFile::of_any_tool(bytes).unwrap();
        for (at, byte) in changes {
            let at = at.index(unpacked.0.len());
            unpacked.0[at] = byte;
        }
        if let Ok(read) = unpacked.any_profile(sample_type.as_deref()) {
            prop_assert!(is_valid(&read.profile));
            let bytes = encoded(&read.profile, EncodeOptions::default());
            let again = PprofFile::of_any_tool(bytes).unwrap().any_profile(None).unwrap();
            prop_assert_eq!(again.profile.total_value(), read.profile.total_value());
        }
    }

    #[test]
    fn changed_bytes_give_a_valid_profile_or_an_error(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        has_labels: bool,
    ) {
        let options = EncodeOptions { without_labels: !has_labels, ..EncodeOptions::default() };
        let bytes = encoded(&example_processes("main.py"), options);
        let mut unpacked = PprofFile::new(&bytes).unwrap();
        for (at, byte) in changes {
            let at = at.index(unpacked.0.len());
            unpacked.0[at] = byte;
        }
        let head = unpacked.head();
        if let Ok(profile) = unpacked.profile() {
            prop_assert!(is_valid(&profile));
            let total = profile.total();
            prop_assert_eq!(head.unwrap().total.count, total);
            // It can be written and read again.
            let again = read(&profile, EncodeOptions::default());
            prop_assert_eq!(again.total(), total);
        }
    }

    #[test]
    fn stacks_and_counts_survive(
        samples in proptest::collection::vec((0_u32..15, 0_u32..4, 1_u64..1_000), 0..40),
    ) {
        let mut profile = example_profile("main.py");
        profile.samples = samples
            .into_iter()
            .map(|(stack, thread, count)| Sample {
                stack: crate::profile::StackId(stack),
                thread: crate::profile::ThreadIndex(thread),
                task: None,
                count,
                value: count * PERIOD_NS,
            })
            .collect();
        let once = read(&profile, EncodeOptions::default());
        prop_assert_eq!(folded(&once, true), folded(&profile, true));
        let plain = read(&profile, plain());
        prop_assert_eq!(folded(&plain, false), folded(&profile, false));
    }
}
