//! A batch as an OTLP request: one resource with one profile per process.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use super::{
    super::batch::{ProfileBatch, Unencodable},
    dictionary::DictionaryBuilder,
    schema::{
        ExportRequest, KeyValue, Profile, Resource, ResourceProfiles, Sample, Scope, ScopeProfiles,
        Value,
    },
};
use crate::{
    formats::FunctionNames,
    profile::{self, ProcessIndex, TypeNaming, ValueSource},
    targets::labels::attribute_name,
    text::printable,
};

pub(super) fn of_batch(
    batch: &ProfileBatch,
    function_names: FunctionNames,
) -> Result<ExportRequest, Unencodable> {
    let profile = &*batch.profile;
    let mut samples = BTreeMap::<ProcessIndex, Vec<(&profile::Sample, u64)>>::new();
    for (sample, periods) in profile.samples.iter().zip(profile.periods()) {
        let of_process = samples.entry(profile.process_of(sample)).or_default();
        of_process.push((sample, periods));
    }
    let mut dictionary = DictionaryBuilder::new(profile, function_names);
    let resource_profiles = samples
        .into_iter()
        .map(|(process, samples)| {
            Ok(ResourceProfiles {
                resource: Some(resource(batch, process)),
                scope_profiles: vec![ScopeProfiles {
                    scope: Some(Scope {
                        name: env!("CARGO_PKG_NAME").to_owned(),
                        version: env!("CARGO_PKG_VERSION").to_owned(),
                    }),
                    profiles: vec![profile_of(profile, process, &samples, &mut dictionary)?],
                }],
            })
        })
        .collect::<Result<_, Unencodable>>()?;
    Ok(ExportRequest {
        resource_profiles,
        dictionary: Some(dictionary.finish()),
    })
}

fn profile_of(
    profile: &profile::Profile,
    process: ProcessIndex,
    samples: &[(&profile::Sample, u64)],
    dictionary: &mut DictionaryBuilder<'_>,
) -> Result<Profile, Unencodable> {
    let since = profile.start.duration_since(SystemTime::UNIX_EPOCH);
    let kind = profile.kind;
    let names = kind.names_in(TypeNaming::Otlp);
    let sample_type = names.sample_types.get(kind.otlp_type).ok_or(Unencodable)?;
    let samples = samples.iter().map(|(sample, periods)| {
        // There is one period for all samples, which the agent may have changed meanwhile.
        let value = match sample_type.source {
            ValueSource::Count => *periods,
            ValueSource::Value => sample.value,
        };
        Ok(Sample {
            stack: dictionary.stack(sample.stack, process)?,
            attributes: dictionary.sample(sample)?,
            values: vec![i64::try_from(value).unwrap_or(i64::MAX)],
        })
    });
    let samples = samples.collect::<Result<_, Unencodable>>()?;
    let period = profile.period_as(&names.period_type);
    Ok(Profile {
        samples,
        sample_type: Some(dictionary.value_type(sample_type)?),
        time_unix_nano: nanoseconds(since.unwrap_or_default()),
        duration_nano: nanoseconds(profile.duration),
        period_type: Some(dictionary.value_type(&names.period_type)?),
        period: i64::try_from(period).unwrap_or(i64::MAX),
    })
}

/// Attributes of a process: the labels of the batch, overridden by the data of the profile. Keys are
/// unique.
fn resource(batch: &ProfileBatch, process: ProcessIndex) -> Resource {
    let process = &batch.profile.processes[process.0 as usize];
    let mut attributes = BTreeMap::new();
    for (name, text) in &*batch.labels {
        let key = attribute_name(name);
        if !text.is_empty() && !key.is_empty() && !key.starts_with("__") {
            attributes.insert(printable(key).into_owned(), Value::text(printable(text)));
        }
    }
    let mut set = |key: &str, value| attributes.insert(key.to_owned(), value);
    set("service.name", Value::text(printable(batch.service())));
    set("process.pid", Value::number(process.pid));
    if let Some(parent) = process.parent {
        set("process.parent_pid", Value::number(parent));
    }
    if !process.name.is_empty() {
        let name = Value::text(printable(&process.name));
        set("process.executable.name", name);
    }
    if let Some((name, version)) = process.runtime.split_once(' ') {
        set("process.runtime.name", Value::text(name.to_lowercase()));
        set("process.runtime.version", Value::text(printable(version)));
    }
    let attributes = attributes.into_iter().map(|(key, value)| KeyValue {
        key,
        value: Some(value),
    });
    Resource {
        attributes: attributes.collect(),
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
