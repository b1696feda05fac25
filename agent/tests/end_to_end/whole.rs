//! Profiles with complete stacks, read from pprof or from OpenTelemetry.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use opentelemetry_proto::tonic::{
    collector::profiles::v1development::ExportProfilesServiceRequest,
    common::v1::{AnyValue, any_value::Value},
    profiles::v1development::{ProfilesDictionary, ValueType},
};

use super::pprof::{self, schema, text};

/// A profile of a service from its start on.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct CompleteProfile {
    /// The duration of sampling.
    pub(crate) duration_ns: u64,
    /// CPU time that one sample stands for.
    pub(crate) period_ns: u64,
    /// Stacks, leaf first, and the number of samples of each.
    pub(crate) stacks: BTreeMap<Vec<Location>, u64>,
}

/// The location of a frame, with all functions that are inlined there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Location {
    /// Its kind of code.
    pub(crate) kind: Kind,
    /// The mapping: a file, or a name in brackets.
    pub(crate) mapping: String,
    /// 0 if it has none.
    pub(crate) address: u64,
    /// The lines of the functions, innermost first.
    pub(crate) lines: Vec<Line>,
}

/// Kinds of code, as in OpenTelemetry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Python,
    Native,
    Kernel,
    /// A placeholder for unknown frames.
    Marker,
}

/// A line of a function.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Line {
    pub(crate) function: String,
    pub(crate) file: String,
    pub(crate) number: i64,
}

/// The files of a service in a folder, by start time in nanoseconds.
pub(crate) fn files(folder: &Path, service: &str) -> BTreeMap<u64, PathBuf> {
    let entries = fs::read_dir(folder).unwrap().flatten();
    let paths = entries.map(|entry| entry.path()).filter(|path| {
        let name = path.file_name().unwrap().to_str().unwrap();
        // One that is being written has another ending.
        let rest = name
            .split_once("Z_")
            .and_then(|(_, rest)| rest.strip_suffix(".pb.gz"));
        rest == Some(service)
    });
    let start = |path: &PathBuf| pprof::decode(&fs::read(path).unwrap()).time_nanos;
    paths
        .map(|path| (start(&path).try_into().unwrap(), path))
        .collect()
}

/// Reads a profile in pprof's format.
pub(crate) fn of_pprof(file: &[u8]) -> CompleteProfile {
    let profile = pprof::decode(file);
    let mut complete = CompleteProfile {
        duration_ns: profile.duration_nanos.try_into().unwrap(),
        period_ns: profile.period.try_into().unwrap(),
        stacks: BTreeMap::new(),
    };
    for sample in &profile.sample {
        let locations = sample.location_id.iter();
        let stack = locations.map(|id| pprof_location(&profile, *id)).collect();
        *complete.stacks.entry(stack).or_default() += u64::try_from(sample.value[0]).unwrap();
    }
    complete
}

/// Ids begin with 1.
fn at<T>(table: &[T], id: u64) -> &T {
    &table[usize::try_from(id).unwrap() - 1]
}

fn pprof_location(profile: &schema::Profile, id: u64) -> Location {
    let location = at(&profile.location, id);
    let mapping = text(profile, at(&profile.mapping, location.mapping_id).filename);
    let lines = location.line.iter().map(|line| {
        let function = at(&profile.function, line.function_id);
        Line {
            function: text(profile, function.name).to_owned(),
            file: text(profile, function.filename).to_owned(),
            number: line.line,
        }
    });
    Location {
        kind: match location.address {
            0 if location.line[0].line != 0 => Kind::Python,
            0 => Kind::Marker,
            // The upper half of the address space belongs to the kernel.
            address if address >> 63 == 1 => Kind::Kernel,
            _ => Kind::Native,
        },
        mapping: mapping_name(mapping).to_owned(),
        address: location.address,
        lines: lines.collect(),
    }
}

/// The name of a mapping in both formats. In pprof the mapping of Python has the version too, which
/// is in the resource in OpenTelemetry, and the mapping of the kernel has another name.
fn mapping_name(mapping: &str) -> &str {
    match mapping.strip_prefix('[') {
        Some(name) => name.split([' ', '.', ']']).next().unwrap(),
        None => mapping,
    }
}

/// The attributes of a process.
pub(crate) type Resource = BTreeMap<String, String>;

/// The profiles of a service in requests of OpenTelemetry, by start time, and the attributes of its
/// processes.
pub(crate) fn of_opentelemetry(
    requests: &[ExportProfilesServiceRequest],
    service: &str,
) -> (BTreeMap<u64, CompleteProfile>, Vec<Resource>) {
    let (mut profiles, mut resources) = (BTreeMap::<u64, CompleteProfile>::new(), Vec::new());
    for request in requests {
        let dictionary = request.dictionary.as_ref().unwrap();
        for of_resource in &request.resource_profiles {
            let attributes = &of_resource.resource.as_ref().unwrap().attributes;
            let resource: Resource = attributes
                .iter()
                .map(|one| (one.key.clone(), value(one.value.as_ref())))
                .collect();
            if resource["service.name"] != service {
                continue;
            }
            resources.push(resource);
            let scopes = of_resource.scope_profiles.iter();
            for profile in scopes.flat_map(|scope| &scope.profiles) {
                let kind = |it: Option<ValueType>| {
                    let it = it.unwrap();
                    [it.type_strindex, it.unit_strindex].map(|index| string(dictionary, index))
                };
                assert_eq!(kind(profile.sample_type), ["samples", "count"]);
                assert_eq!(kind(profile.period_type), ["cpu", "nanoseconds"]);
                let complete = profiles.entry(profile.time_unix_nano).or_default();
                complete.duration_ns = profile.duration_nano;
                complete.period_ns = profile.period.try_into().unwrap();
                for sample in &profile.samples {
                    let stack = &dictionary.stack_table[index(sample.stack_index)];
                    let locations = stack.location_indices.iter();
                    let stack = locations
                        .map(|id| opentelemetry_location(dictionary, *id))
                        .collect();
                    *complete.stacks.entry(stack).or_default() +=
                        u64::try_from(sample.values[0]).unwrap();
                }
            }
        }
    }
    (profiles, resources)
}

fn index(index: i32) -> usize {
    index.try_into().unwrap()
}

fn string(dictionary: &ProfilesDictionary, at: i32) -> &str {
    &dictionary.string_table[index(at)]
}

fn value(value: Option<&AnyValue>) -> String {
    match value.and_then(|value| value.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(number)) => number.to_string(),
        other => panic!("{other:?}"),
    }
}

fn opentelemetry_location(dictionary: &ProfilesDictionary, id: i32) -> Location {
    let location = &dictionary.location_table[index(id)];
    let mapping = &dictionary.mapping_table[index(location.mapping_index)];
    let mapping = string(dictionary, mapping.filename_strindex);
    let attributes = location.attribute_indices.iter();
    let kind = attributes
        .map(|at| &dictionary.attribute_table[index(*at)])
        .find(|one| string(dictionary, one.key_strindex) == "profile.frame.type");
    let kind = kind.map(|kind| value(kind.value.as_ref()));
    let lines = location.lines.iter().map(|line| {
        let function = &dictionary.function_table[index(line.function_index)];
        Line {
            function: string(dictionary, function.name_strindex).to_owned(),
            file: string(dictionary, function.filename_strindex).to_owned(),
            number: line.line,
        }
    });
    Location {
        kind: match kind.as_deref() {
            Some("cpython") => Kind::Python,
            Some("native") => Kind::Native,
            Some("kernel") => Kind::Kernel,
            None => Kind::Marker,
            other => panic!("{other:?}"),
        },
        mapping: mapping_name(mapping).to_owned(),
        address: location.address,
        lines: lines.collect(),
    }
}
