//! Requests to an OpenTelemetry Collector.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use collector_doubles::{
    otlp::{request, strict_grpc, strict_http},
    server::{FullReply, Received, Reply, Server, grpc_message},
};
use opentelemetry_proto::tonic::{
    collector::profiles::v1development::{
        ExportProfilesPartialSuccess, ExportProfilesServiceRequest, ExportProfilesServiceResponse,
    },
    common::v1::{AnyValue, any_value::Value},
    profiles::v1development::ProfilesDictionary,
};
use prost::Message as _;

use super::*;
use crate::{
    export::{OtlpConfig, OtlpProtocol},
    profile::fixtures::example_processes,
    profile::{CodeAddress, Executable, ExecutableId, ExecutableKind, FrameKind, Profile},
    text::printable,
};

fn otlp(url: &str, protocol: OtlpProtocol) -> ExporterConfig {
    exporter(DestinationConfig::Otlp(OtlpConfig {
        http: HttpConfig::new(url),
        protocol,
        function_names: FunctionNames::Plain,
    }))
}

fn grpc_partly(_: &Received) -> Reply {
    grpc_message(&partly())
}

fn http_partly(_: &Received) -> Reply {
    Reply::Full(FullReply {
        status: 200,
        body: partly(),
        ..FullReply::default()
    })
}

fn partly() -> Vec<u8> {
    let partial_success = Some(ExportProfilesPartialSuccess {
        rejected_profiles: 1,
        error_message: "too old".to_owned(),
    });
    ExportProfilesServiceResponse { partial_success }.encode_to_vec()
}

/// Two processes, with native and kernel frames.
fn mixed() -> Profile {
    let mut profile = example_processes("/srv/app/main.py");
    let executable = |kind, path: &str, build_id: Option<&str>| Executable {
        path: path.into(),
        build_id: build_id.map(str::to_owned),
        kind,
        start: 0x1000,
        limit: 0x9000,
        file_offset: 0x1000,
    };
    let first = u32::try_from(profile.executables.len()).unwrap();
    profile.executables.extend([
        executable(ExecutableKind::File, "/usr/lib/libm.so.6", Some("0123abcd")),
        executable(ExecutableKind::Kernel, "", None),
    ]);
    let code = |number, address| {
        Some(CodeAddress {
            executable: ExecutableId(first + number),
            address,
        })
    };
    let mut native = profile.locations[0].clone();
    let mut function = profile.functions[native.lines[0].function.0 as usize].clone();
    for (kind, name) in [
        (FrameKind::Native, "sin"),
        (FrameKind::Kernel, "do_sys_open"),
    ] {
        function.kind = kind;
        name.clone_into(&mut function.name);
        profile.functions.push(function.clone());
    }
    let functions = u32::try_from(profile.functions.len()).unwrap();
    native.lines[0].function = crate::profile::FunctionId(functions - 2);
    native.code = code(0, 0x1234);
    let mut kernel = native.clone();
    kernel.lines[0].function = crate::profile::FunctionId(functions - 1);
    kernel.code = code(1, 0x2000);
    let mut unnamed = native.clone();
    unnamed.lines = Box::default();
    unnamed.code = code(0, 0x5678);
    let locations = u32::try_from(profile.locations.len()).unwrap();
    profile.locations.extend([kernel, native, unnamed]);
    let mut stack: Vec<_> = (locations..locations + 3)
        .map(crate::profile::LocationId)
        .collect();
    let used = profile.samples[0].stack.0 as usize;
    stack.extend(&profile.stacks[used]);
    profile.stacks[used] = stack.into();
    profile
}

fn mixed_batch() -> ProfileBatch {
    let mut batch = support::batch("web", &pprof());
    let mut labels = (*batch.labels).clone();
    labels.insert("container_id".to_owned(), "abc".to_owned());
    labels.insert("team".to_owned(), "a".to_owned());
    batch.labels = labels.into();
    batch.profile = mixed().into();
    batch
}

fn text(value: Option<&AnyValue>) -> String {
    match value.and_then(|value| value.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(number)) => number.to_string(),
        other => panic!("{other:?}"),
    }
}

fn attributes(dictionary: &ProfilesDictionary, indices: &[i32]) -> BTreeMap<String, String> {
    let indices = indices.iter().map(|index| usize::try_from(*index).unwrap());
    let entries = indices.map(|index| &dictionary.attribute_table[index]);
    entries
        .map(|entry| {
            let key = usize::try_from(entry.key_strindex).unwrap();
            (
                dictionary.string_table[key].clone(),
                text(entry.value.as_ref()),
            )
        })
        .collect()
}

/// The content of a request, one line for each sample.
fn decoded(request: &ExportProfilesServiceRequest) -> Vec<String> {
    let dictionary = request.dictionary.as_ref().unwrap();
    let at = |index: i32| usize::try_from(index).unwrap();
    let string = |index| &dictionary.string_table[at(index)];
    let mut lines = Vec::new();
    for of_resource in &request.resource_profiles {
        let resource = &of_resource.resource.as_ref().unwrap().attributes;
        let pid = resource
            .iter()
            .find(|one| one.key == "process.pid")
            .unwrap();
        let pid = text(pid.value.as_ref());
        for sample in &of_resource.scope_profiles[0].profiles[0].samples {
            let thread = attributes(dictionary, &sample.attribute_indices);
            let thread = format!("{} {}", thread["thread.id"], thread["thread.name"]);
            let mut line = format!("{pid} {thread} {:?}", sample.values);
            for index in &dictionary.stack_table[at(sample.stack_index)].location_indices {
                let location = &dictionary.location_table[at(*index)];
                let attributes = attributes(dictionary, &location.attribute_indices);
                let kind = attributes
                    .get("profile.frame.type")
                    .map_or("-", |kind| kind);
                let mapping =
                    string(dictionary.mapping_table[at(location.mapping_index)].filename_strindex);
                write!(line, "; {kind} {mapping} {:#x}", location.address).unwrap();
                for place in &location.lines {
                    let function = &dictionary.function_table[at(place.function_index)];
                    let (name, file) = (
                        string(function.name_strindex),
                        string(function.filename_strindex),
                    );
                    write!(line, " {name} {file}:{}", place.line).unwrap();
                }
            }
            lines.push(line);
        }
    }
    lines.sort();
    lines
}

/// The same from the profile.
fn expected(profile: &Profile) -> Vec<String> {
    let mut lines = Vec::new();
    for sample in &profile.samples {
        let thread = &profile.threads[sample.thread.0 as usize];
        let process = &profile.processes[thread.process.0 as usize];
        let mut line = format!(
            "{} {} {} [{}]",
            process.pid,
            thread.tid,
            printable(&thread.name),
            sample.count
        );
        for id in &profile.stacks[sample.stack.0 as usize] {
            let location = profile.location(*id);
            let kind = match location.code {
                Some(code) if profile.executable(code.executable).is_kernel() => "kernel",
                Some(_) => "native",
                None => match profile.function(location.lines[0].function).kind {
                    FrameKind::Python => "cpython",
                    _ => "-",
                },
            };
            let mapping = match location.code {
                None if process.runtime.is_empty() => String::new(),
                None => format!("[{}]", process.runtime.to_lowercase()),
                Some(code) => {
                    let executable = profile.executable(code.executable);
                    match executable.kind {
                        ExecutableKind::File => executable.path.display().to_string(),
                        _ => executable.name().into_owned(),
                    }
                }
            };
            let address = location.code.map_or(0, |code| code.address);
            write!(line, "; {kind} {mapping} {address:#x}").unwrap();
            for place in &location.lines {
                let function = profile.function(place.function);
                let number = place.line.map_or(0, std::num::NonZeroU32::get);
                let (name, file) = (printable(&function.name), printable(&function.file));
                write!(line, " {name} {file}:{number}").unwrap();
            }
        }
        lines.push(line);
    }
    lines.sort();
    lines
}

#[tokio::test]
async fn a_collector_gets_what_was_sent() {
    for (protocol, check) in [
        (OtlpProtocol::Grpc, strict_grpc as fn(&Received) -> Reply),
        (OtlpProtocol::Http, strict_http),
    ] {
        let server = Server::start(check).await;
        let exporters = start(otlp(&server.url(), protocol));
        let batch = mixed_batch();
        exporters.push(&batch);
        exporters.push(&numbered(1));
        let status = &exporters.shut_down(Duration::from_secs(60)).await[0];
        let counts = checked(status);
        assert_eq!((counts.delivered, counts.attempts), (2, 2), "{status:?}");
        assert_eq!(counts.partly_rejected, 0);

        let received = server.received();
        let sent = request(&received[0]);
        assert_eq!(decoded(&sent), expected(&batch.profile));
        let dictionary = sent.dictionary.as_ref().unwrap();
        let builds = dictionary.mapping_table.iter().flat_map(|mapping| {
            let attributes = attributes(dictionary, &mapping.attribute_indices);
            attributes.into_iter()
        });
        let executables = batch.profile.executables.iter();
        let key = || "process.executable.build_id.gnu".to_owned();
        let expected = executables.filter_map(|one| Some((key(), one.build_id.clone()?)));
        let expected: BTreeSet<_> = expected.collect();
        assert!(expected.contains(&(key(), "0123abcd".to_owned())));
        assert_eq!(builds.collect::<BTreeSet<_>>(), expected);
    }
}

#[tokio::test]
async fn functions_have_their_module_on_request() {
    let server = Server::start(strict_http).await;
    let mut config = otlp(&server.url(), OtlpProtocol::Http);
    let DestinationConfig::Otlp(to) = &mut config.destination else {
        unreachable!()
    };
    to.function_names = FunctionNames::Module;
    let exporters = start(config);
    exporters.push(&mixed_batch());
    exporters.shut_down(Duration::from_secs(60)).await;
    let sent = request(&server.received()[0]);
    let dictionary = sent.dictionary.as_ref().unwrap();
    let string = |index: i32| &*dictionary.string_table[usize::try_from(index).unwrap()];
    let functions = dictionary.function_table.iter();
    let names: BTreeSet<_> = functions
        .map(|one| (string(one.name_strindex), string(one.system_name_strindex)))
        .collect();
    for name in [
        ("main.main", "main"),
        ("req.api.get", "get"),
        ("json.loads", "loads"),
        // Of native and kernel functions, and of what is no function.
        ("sin", ""),
        ("do_sys_open", ""),
        ("[frames left out]", ""),
    ] {
        assert!(names.contains(&name), "{name:?} in {names:?}");
    }
}

#[tokio::test]
async fn a_resource_is_a_process() {
    let server = Server::start(strict_http).await;
    let exporters = start(otlp(&server.url(), OtlpProtocol::Http));
    let batch = mixed_batch();
    exporters.push(&batch);
    exporters.shut_down(Duration::from_secs(60)).await;
    let sent = request(&server.received()[0]);
    assert_eq!(sent.resource_profiles.len(), batch.profile.processes.len());
    let first = &sent.resource_profiles[0];
    let resource: Vec<_> = first
        .resource
        .as_ref()
        .unwrap()
        .attributes
        .iter()
        .map(|one| (one.key.as_str(), text(one.value.as_ref())))
        .collect();
    let expected = [
        ("container.id", "abc"),
        ("process.executable.name", "python3.12"),
        ("process.parent_pid", "4000"),
        ("process.pid", "4242"),
        ("process.runtime.name", "cpython"),
        ("process.runtime.version", "3.12.1"),
        ("service.name", "web"),
        ("team", "a"),
    ];
    assert_eq!(
        resource,
        expected.map(|(key, value)| (key, value.to_owned()))
    );
    let profile = &first.scope_profiles[0].profiles[0];
    let since = batch.start().duration_since(std::time::UNIX_EPOCH).unwrap();
    assert_eq!(u128::from(profile.time_unix_nano), since.as_nanos());
    assert_eq!(
        u128::from(profile.duration_nano),
        batch.profile.duration.as_nanos()
    );
    assert_eq!(profile.period, i64::try_from(batch.profile.period).unwrap());
}

#[tokio::test]
async fn what_a_collector_takes_in_part_is_counted() {
    for (protocol, check) in [
        (OtlpProtocol::Grpc, grpc_partly as fn(&Received) -> Reply),
        (OtlpProtocol::Http, http_partly),
    ] {
        let server = Server::start(check).await;
        let exporters = start(otlp(&server.url(), protocol));
        exporters.push(&numbered(1));
        let counts = checked(&exporters.shut_down(Duration::from_secs(60)).await[0]);
        assert_eq!((counts.delivered, counts.partly_rejected), (1, 1));
    }
}

#[tokio::test]
async fn a_profile_with_invalid_indexes_is_dropped() {
    let server = Server::start(strict_http).await;
    let exporters = start(otlp(&server.url(), OtlpProtocol::Http));
    let mut batch = mixed_batch();
    let mut profile = mixed();
    profile.samples[0].stack = crate::profile::StackId(u32::MAX);
    batch.profile = profile.into();
    exporters.push(&batch);
    exporters.push(&numbered(1));
    let counts = checked(&exporters.shut_down(Duration::from_secs(60)).await[0]);
    assert_eq!((counts.delivered, counts.dropped.unencodable), (1, 1));
}
