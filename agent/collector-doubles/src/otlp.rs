//! An OpenTelemetry Collector that enforces the schema and the rules of dictionaries.

use std::{
    collections::{BTreeSet, HashSet},
    hash::Hash,
};

use opentelemetry_proto::tonic::{
    collector::profiles::v1development::{
        ExportProfilesServiceRequest, ExportProfilesServiceResponse,
    },
    profiles::v1development::{Function, KeyValueAndUnit, Link, Location, Mapping, Sample, Stack},
};
use prost::Message as _;

use super::{
    rules::gunzip,
    server::{Received, Reply, grpc_message, grpc_status, status},
};

/// Decodes a request of gRPC or HTTP. Empty values, as other collectors write them, become [`None`].
pub fn request(received: &Received) -> ExportProfilesServiceRequest {
    let mut request = decoded(received);
    let dictionary = request.dictionary.iter_mut();
    for attribute in dictionary.flat_map(|it| &mut it.attribute_table) {
        attribute.value.take_if(|value| value.value.is_none());
    }
    request
}

/// Decodes a request of an agent, which must have no unknown fields.
fn exact_request(received: &Received) -> ExportProfilesServiceRequest {
    let request = decoded(received);
    assert_eq!(request.encode_to_vec(), message(received));
    request
}

fn decoded(received: &Received) -> ExportProfilesServiceRequest {
    ExportProfilesServiceRequest::decode(&*message(received)).unwrap()
}

/// The encoded request.
fn message(received: &Received) -> Vec<u8> {
    if received.header("content-type") == "application/grpc" {
        assert_eq!(received.header("grpc-encoding"), "gzip");
        assert_eq!(received.body[0], 1);
        let length = u32::from_be_bytes(received.body[1..5].try_into().unwrap());
        assert_eq!(length as usize, received.body.len() - 5);
        gunzip(&received.body[5..]).unwrap()
    } else {
        assert_eq!(received.header("content-encoding"), "gzip");
        gunzip(&received.body).unwrap()
    }
}

fn check_table<T: PartialEq + Default>(table: &[T], used: &BTreeSet<i32>) -> Result<(), String> {
    let name = std::any::type_name::<T>();
    if table.first() != Some(&T::default()) {
        return Err(format!("entry 0 of {name} is not empty"));
    }
    for (index, entry) in table.iter().enumerate().skip(1) {
        if table[..index].contains(entry) {
            return Err(format!("{name} {index} is there twice"));
        }
        if !used.contains(&i32::try_from(index).unwrap()) {
            return Err(format!("{name} {index} is not used"));
        }
    }
    match used
        .iter()
        .find(|index| usize::try_from(**index).map_or(true, |i| i >= table.len()))
    {
        Some(index) => Err(format!("there is no {name} {index}")),
        None => Ok(()),
    }
}

fn unique<T: Eq + Hash>(keys: impl Iterator<Item = T>) -> bool {
    let mut seen = HashSet::new();
    keys.into_iter().all(|key| seen.insert(key))
}

fn check_request(request: &ExportProfilesServiceRequest) -> Result<(), String> {
    let dictionary = request.dictionary.as_ref().ok_or("no dictionary")?;
    let mut strings = BTreeSet::new();
    let mut stacks = BTreeSet::new();
    let mut attributes = BTreeSet::new();
    for of_resource in &request.resource_profiles {
        let resource = of_resource.resource.as_ref().ok_or("no resource")?;
        if !unique(resource.attributes.iter().map(|one| &one.key)) {
            return Err("a resource has an attribute twice".to_owned());
        }
        let profiles = of_resource
            .scope_profiles
            .iter()
            .flat_map(|one| &one.profiles);
        for profile in profiles {
            for value_type in [profile.sample_type, profile.period_type] {
                let value_type = value_type.ok_or("a type is missing")?;
                strings.extend([value_type.type_strindex, value_type.unit_strindex]);
            }
            for sample in &profile.samples {
                if sample.values.is_empty() {
                    return Err("a sample without values".to_owned());
                }
                stacks.insert(sample.stack_index);
                attributes.extend(&sample.attribute_indices);
            }
            let identity = |sample: &Sample| (sample.stack_index, sample.attribute_indices.clone());
            if !unique(profile.samples.iter().map(identity)) {
                return Err("a sample is there twice".to_owned());
            }
        }
    }
    let stack = &dictionary.stack_table;
    let locations = stack.iter().flat_map(|one| &one.location_indices);
    let locations: BTreeSet<_> = locations.copied().collect();
    let location = &dictionary.location_table;
    let lines = || location.iter().flat_map(|one| &one.lines);
    let functions: BTreeSet<_> = lines().map(|line| line.function_index).collect();
    let mappings: BTreeSet<_> = location.iter().map(|one| one.mapping_index).collect();
    attributes.extend(location.iter().flat_map(|one| &one.attribute_indices));
    let mapping = &dictionary.mapping_table;
    attributes.extend(mapping.iter().flat_map(|one| &one.attribute_indices));
    strings.extend(mapping.iter().map(|one| one.filename_strindex));
    for one in &dictionary.function_table {
        strings.extend([
            one.name_strindex,
            one.system_name_strindex,
            one.filename_strindex,
        ]);
    }
    for one in &dictionary.attribute_table {
        strings.extend([one.key_strindex, one.unit_strindex]);
    }
    check_table::<Stack>(stack, &stacks)?;
    check_table::<Location>(location, &locations)?;
    check_table::<Function>(&dictionary.function_table, &functions)?;
    check_table::<Mapping>(mapping, &mappings)?;
    check_table::<KeyValueAndUnit>(&dictionary.attribute_table, &attributes)?;
    check_table::<String>(&dictionary.string_table, &strings)?;
    check_table::<Link>(&dictionary.link_table, &BTreeSet::new())
}

/// Replies of a collector over gRPC.
pub fn strict_grpc(received: &Received) -> Reply {
    let path = "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export";
    if received.path != path {
        return grpc_status(12, "unknown service");
    }
    match check_request(&exact_request(received)) {
        Ok(()) => grpc_message(&ExportProfilesServiceResponse::default().encode_to_vec()),
        Err(error) => grpc_status(3, &error),
    }
}

/// Replies of a collector over HTTP.
pub fn strict_http(received: &Received) -> Reply {
    http(received, exact_request)
}

/// Replies of a collector behind another one, which may reorder fields.
pub fn strict_behind_another(received: &Received) -> Reply {
    http(received, request)
}

fn http(received: &Received, request: fn(&Received) -> ExportProfilesServiceRequest) -> Reply {
    if received.path != "/v1development/profiles" {
        return status(404, "");
    }
    if received.header("content-type") != "application/x-protobuf" {
        return status(415, "");
    }
    match check_request(&request(received)) {
        Ok(()) => status(200, ""),
        Err(error) => status(400, &error),
    }
}
