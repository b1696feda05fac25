mod jit;
mod size;
mod waits;

use std::{
    collections::{BTreeSet, HashSet},
    fmt::Write as _,
    io::Read as _,
    num::NonZeroU32,
};

use super::*;
use crate::{
    formats::golden::assert_golden,
    profile::{
        FrameKind, Function,
        fixtures::{example_processes, example_profile},
    },
};

fn decoded(profile: &Profile) -> schema::Profile {
    let mut bytes = Vec::new();
    write(profile, EncodeOptions::default(), &mut bytes).unwrap();
    let mut message = Vec::new();
    flate2::read::GzDecoder::new(bytes.as_slice())
        .read_to_end(&mut message)
        .unwrap();
    schema::Profile::decode(message.as_slice()).unwrap()
}

impl schema::Profile {
    fn text(&self, index: i64) -> &str {
        &self.string_table[usize::try_from(index).unwrap()]
    }

    fn function(&self, id: u64) -> &schema::Function {
        self.function
            .iter()
            .find(|function| function.id == id)
            .unwrap()
    }

    /// The file as text.
    fn dump(&self) -> String {
        let mut text = String::new();
        for kind in self.sample_type.iter().chain(&self.period_type) {
            let _ = writeln!(
                text,
                "type {}/{}",
                self.text(kind.r#type),
                self.text(kind.unit)
            );
        }
        let _ = writeln!(
            text,
            "period {} default {} time {} duration {}",
            self.period,
            self.text(self.default_sample_type),
            self.time_nanos,
            self.duration_nanos
        );
        for &comment in &self.comment {
            let comment = self.text(comment);
            let version = concat!("agent ", env!("CARGO_PKG_VERSION"));
            let _ = writeln!(
                text,
                "comment {}",
                comment.replace(version, "agent VERSION")
            );
        }
        for mapping in &self.mapping {
            let _ = writeln!(
                text,
                "mapping {} {:#x}..{:#x} at {:#x} {:?} {:?} {} {} {} {}",
                mapping.id,
                mapping.memory_start,
                mapping.memory_limit,
                mapping.file_offset,
                self.text(mapping.filename),
                self.text(mapping.build_id),
                mapping.has_functions,
                mapping.has_filenames,
                mapping.has_line_numbers,
                mapping.has_inline_frames
            );
        }
        for function in &self.function {
            let _ = writeln!(
                text,
                "function {} {:?} {:?} {:?}:{}",
                function.id,
                self.text(function.name),
                self.text(function.system_name),
                self.text(function.filename),
                function.start_line
            );
        }
        for location in &self.location {
            let _ = write!(
                text,
                "location {} in {} at {:#x}",
                location.id, location.mapping_id, location.address
            );
            for line in &location.line {
                let name = self.text(self.function(line.function_id).name);
                let _ = write!(text, " {name:?}:{}", line.line);
            }
            text.push('\n');
        }
        for sample in &self.sample {
            let _ = write!(text, "sample {:?} {:?}", sample.value, sample.location_id);
            for label in &sample.label {
                let _ = write!(
                    text,
                    " {}={:?}/{}",
                    self.text(label.key),
                    self.text(label.str),
                    label.num
                );
            }
            text.push('\n');
        }
        text
    }
}

fn assert_valid(profile: &schema::Profile) {
    assert_eq!(profile.string_table[0], "");
    let distinct: HashSet<_> = profile.string_table.iter().collect();
    assert_eq!(distinct.len(), profile.string_table.len());

    let ids = |count: usize| 1..=count as u64;
    assert!(
        profile
            .mapping
            .iter()
            .map(|x| x.id)
            .eq(ids(profile.mapping.len()))
    );
    assert!(
        profile
            .function
            .iter()
            .map(|x| x.id)
            .eq(ids(profile.function.len()))
    );
    assert!(
        profile
            .location
            .iter()
            .map(|x| x.id)
            .eq(ids(profile.location.len()))
    );

    for mapping in &profile.mapping {
        let name = profile.text(mapping.filename);
        let build_id = profile.text(mapping.build_id);
        let locations: Vec<_> = profile
            .location
            .iter()
            .filter(|location| location.mapping_id == mapping.id)
            .collect();
        let lines = |location: &&&schema::Location| location.line.len();
        if mapping.has_functions {
            assert!(locations.iter().all(|location| !location.line.is_empty()));
        }
        assert_eq!(
            mapping.has_inline_frames,
            locations
                .iter()
                .map(|location| location.line.len())
                .any(|lines| lines > 1)
        );
        // Files that `go tool pprof` would search on its machine.
        let is_settled = mapping.has_functions || mapping.has_filenames;
        let is_named = locations
            .iter()
            .map(|location| lines(&location))
            .any(|lines| lines != 0);
        if !locations.is_empty() && !is_settled {
            assert!(!is_named && !build_id.is_empty());
        }
        assert_eq!(mapping.has_filenames, mapping.has_line_numbers);
        // Parca's user interface hides their frames.
        let is_python = mapping.memory_limit == 0 && !locations.is_empty();
        assert!(!(is_python && name.contains("python3")));
    }
    for function in &profile.function {
        assert_ne!(
            profile.text(function.name),
            profile.text(function.system_name)
        );
        profile.text(function.filename);
    }
    for location in &profile.location {
        assert!(ids(profile.mapping.len()).contains(&location.mapping_id));
        let mapping = &profile.mapping[usize::try_from(location.mapping_id).unwrap() - 1];
        // A location without an address has one line.
        assert!(location.address != 0 || location.line.len() == 1);
        if mapping.memory_limit != 0 && location.address != 0 {
            assert!((mapping.memory_start..mapping.memory_limit).contains(&location.address));
        }
        for line in &location.line {
            assert!(ids(profile.function.len()).contains(&line.function_id));
        }
    }
    let mut seen = BTreeSet::new();
    for sample in &profile.sample {
        assert_eq!(sample.value.len(), profile.sample_type.len());
        for id in &sample.location_id {
            assert!(ids(profile.location.len()).contains(id));
        }
        let keys: HashSet<_> = sample.label.iter().map(|label| label.key).collect();
        assert_eq!(keys.len(), sample.label.len());
        let labels: Vec<_> = sample
            .label
            .iter()
            .map(|label| (profile.text(label.key), profile.text(label.str), label.num))
            .collect();
        assert!(
            seen.insert((&sample.location_id, labels)),
            "twice: {sample:?}"
        );
    }
}

#[test]
fn a_profile_is_encoded() {
    let message = decoded(&example_profile("/srv/app/main.py"));
    assert_valid(&message);
    assert_golden("example.pprof.txt", &message.dump());
}

#[test]
fn processes_have_labels() {
    let message = decoded(&example_processes("/srv/app/main.py"));
    assert_valid(&message);
    assert_golden("processes.pprof.txt", &message.dump());
}

#[test]
fn a_single_process_has_no_labels_for_it() {
    let message = decoded(&example_profile(""));
    assert!(
        !message
            .string_table
            .iter()
            .any(|text| text.starts_with("process_"))
    );
}

#[test]
fn a_fork_shares_its_mappings() {
    let mut profile = example_profile("");
    let alone = decoded(&profile);
    let fork = Process {
        pid: 4343,
        parent: Some(4242),
        ..profile.processes[0].clone()
    };
    profile.processes.push(fork);
    profile.threads[1].process = ProcessIndex(1);
    let message = decoded(&profile);
    assert_valid(&message);
    assert_eq!(message.mapping.len(), alone.mapping.len());
    assert_eq!(message.location.len(), alone.location.len());
    let comments: Vec<_> = message
        .comment
        .iter()
        .map(|&text| message.text(text))
        .collect();
    assert_eq!(comments[2], "process 4343 (python3.12), CPython 3.12.1");
}

#[test]
fn the_mapping_of_python_frames_is_named_after_the_runtime() {
    let name = |is_python, runtime: &str| {
        let mut profile = example_profile("");
        profile.processes = vec![Process {
            is_python,
            runtime: runtime.to_owned(),
            ..Process::default()
        }];
        let message = decoded(&profile);
        assert_valid(&message);
        let names = message.mapping.iter();
        let mut names = names.map(|mapping| message.text(mapping.filename));
        let is_of_python = |name: &&str| name.ends_with("python]") || name.contains("python ");
        names.find(is_of_python).map(str::to_owned).unwrap()
    };
    assert_eq!(name(true, "CPython 3.12.1"), "[cpython 3.12.1]");
    assert_eq!(name(true, ""), "[python]");
    assert_eq!(name(false, ""), "[no python]");
}

#[test]
fn every_mapping_but_that_of_the_program_is_in_use() {
    let profile = example_processes("/srv/app/main.py");
    let mut of_one = profile.clone();
    // Only the first stack is left, which has no native frames.
    of_one.samples.truncate(1);
    for (profile, mappings) in [(profile, 10), (of_one, 2)] {
        let message = decoded(&profile);
        assert_valid(&message);
        assert_eq!(message.mapping.len(), mappings);
        let program = &message.mapping[0];
        assert_eq!(message.text(program.filename), "/usr/bin/python3.12");
        assert_eq!(message.text(program.build_id).len(), 40);
        let used: HashSet<_> = message.location.iter().map(|it| it.mapping_id).collect();
        for mapping in &message.mapping[1..] {
            assert!(used.contains(&mapping.id), "{mapping:?}");
        }
    }
}

#[test]
fn a_program_without_frames_has_no_addresses() {
    let mut profile = example_profile("");
    profile.samples.truncate(1);
    let path = profile.processes[0].executable.clone();
    profile.executables.clear();
    profile.locations.retain(|location| location.code.is_none());
    let program = |profile: &Profile| {
        let message = decoded(profile);
        assert_valid(&message);
        let program = message.mapping[0];
        assert_eq!(message.text(program.filename), path.to_str().unwrap());
        let addresses = [program.memory_start, program.memory_limit];
        assert_eq!(addresses, [0; 2]);
        !message.text(program.build_id).is_empty()
    };
    assert!(program(&profile));
    // The build ID is known of files that are mapped.
    profile.processes[0].images = Vec::new().into();
    assert!(!program(&profile));
}

/// The names, the plain names and the files of functions.
fn named(profile: &Profile, function_names: FunctionNames) -> Vec<[String; 3]> {
    let options = EncodeOptions {
        function_names,
        ..EncodeOptions::default()
    };
    let message = message(profile, options);
    assert_valid(&message);
    let functions = message.function.iter();
    let texts = functions.map(|function| {
        [function.name, function.system_name, function.filename]
            .map(|text| message.text(text).to_owned())
    });
    texts.collect()
}

#[test]
fn functions_with_equal_names_differ_by_their_module() {
    let mut profile = example_profile("");
    // As before Python 3.11: methods have no names of their classes.
    let functions = [
        ("main", "/srv/app/shop/orders.py", 3),
        ("main", "/srv/app/shop/stock.py", 3),
        ("run", "/srv/app/shop/orders.py", 20),
        ("run", "/srv/app/shop/stock.py", 20),
        ("run", "/srv/other/shop/stock.py", 20),
        ("<module>", "/srv/app/shop/__init__.py", 1),
    ];
    profile.functions.truncate(6);
    for (function, (name, file, line)) in profile.functions.iter_mut().zip(functions) {
        *function = Function {
            name: name.to_owned(),
            file: file.to_owned(),
            first_line: NonZeroU32::new(line),
            kind: FrameKind::Python,
        };
    }
    profile.samples.truncate(1);
    profile
        .locations
        .retain(|location| location.lines.iter().all(|line| line.function.0 < 6));
    for line in named(&profile, FunctionNames::Plain) {
        assert_eq!(line[1], "");
    }
    let with_modules = named(&profile, FunctionNames::Module);
    let with_modules: Vec<_> = with_modules
        .iter()
        .map(|[name, plain, file]| [&**name, plain, file])
        .collect();
    assert_eq!(
        with_modules,
        [
            ["shop.orders.main", "main", "/srv/app/shop/orders.py"],
            ["shop.stock.main", "main", "/srv/app/shop/stock.py"],
            ["shop.orders.run", "run", "/srv/app/shop/orders.py"],
            ["shop.stock.run", "run", "/srv/app/shop/stock.py"],
            // Only the file differs from that of the one before.
            ["shop.stock.run", "run", "/srv/other/shop/stock.py"],
            ["shop.<module>", "<module>", "/srv/app/shop/__init__.py"],
        ]
    );
}

#[test]
fn many_processes_share_a_comment() {
    let mut profile = example_profile("");
    let process = profile.processes[0].clone();
    profile.processes = vec![process; 25];
    let message = decoded(&profile);
    let comments: Vec<_> = message
        .comment
        .iter()
        .map(|&text| message.text(text))
        .collect();
    assert_eq!(comments[11], "and 15 more processes");
    assert_eq!(comments.len(), 17);
}

#[test]
fn a_decoded_message_equals_the_encoded_one() {
    for profile in [
        example_profile("/srv/app/main.py"),
        example_processes("main.py"),
    ] {
        assert_eq!(
            decoded(&profile),
            message(&profile, EncodeOptions::default())
        );
    }
}

#[test]
fn without_labels_equal_stacks_are_one_sample() {
    let profile = example_processes("main.py");
    let options = EncodeOptions {
        without_labels: true,
        ..EncodeOptions::default()
    };
    let plain = message(&profile, options);
    let labelled = message(&profile, EncodeOptions::default());
    assert!(plain.sample.iter().all(|sample| sample.label.is_empty()));
    let stacks: HashSet<_> = plain.sample.iter().map(|it| &it.location_id).collect();
    assert_eq!(stacks.len(), plain.sample.len());
    assert!(plain.sample.len() < labelled.sample.len());
    let total =
        |message: &schema::Profile| message.sample.iter().map(|it| it.value[0]).sum::<i64>();
    assert_eq!(total(&plain), total(&labelled));
}

#[test]
fn an_empty_profile_is_valid() {
    let mut profile = example_profile("");
    profile.processes.clear();
    profile.executables.clear();
    profile.functions.clear();
    profile.locations.clear();
    profile.stacks.clear();
    profile.threads.clear();
    profile.samples.clear();
    let message = decoded(&profile);
    assert_valid(&message);
    assert!(message.mapping.is_empty());
}

#[test]
fn equal_threads_are_merged() {
    let mut profile = example_profile("");
    profile.threads[2] = profile.threads[1].clone();
    let message = decoded(&profile);
    assert_valid(&message);
    assert_eq!(message.sample.len(), profile.samples.len() - 1);
}

#[test]
fn a_thread_without_a_name_has_no_label_for_it() {
    let mut profile = example_profile("");
    for thread in &mut profile.threads {
        thread.name.clear();
    }
    let message = decoded(&profile);
    assert_valid(&message);
    assert!(message.sample.iter().all(|sample| sample.label.len() == 1));
}

#[test]
fn the_header_has_no_time() {
    let mut bytes = Vec::new();
    write(&example_profile(""), EncodeOptions::default(), &mut bytes).unwrap();
    assert_eq!(bytes[..8], [0x1f, 0x8b, 8, 0, 0, 0, 0, 0]);
}
