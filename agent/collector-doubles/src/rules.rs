//! What Pyroscope and Parca reject.
//!
//! The limits are Pyroscope's defaults. Both require names of labels, and Parca also sample types, to
//! be letters, digits and `_`. Parca requires IDs to be 1, 2, 3 ….

use std::{
    collections::{BTreeMap, BTreeSet},
    io::Read as _,
};

use flate2::read::GzDecoder;
use prost::Message as _;

/// The fields of a pprof that have rules.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Pprof {
    #[prost(message, repeated, tag = "1")]
    pub sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    pub sample: Vec<Sample>,
    #[prost(message, repeated, tag = "3")]
    pub mapping: Vec<Mapping>,
    #[prost(message, repeated, tag = "4")]
    pub location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    pub function: Vec<Function>,
    #[prost(string, repeated, tag = "6")]
    pub string_table: Vec<String>,
    #[prost(int64, tag = "9")]
    pub time_nanos: i64,
    #[prost(message, optional, tag = "11")]
    pub period_type: Option<ValueType>,
    #[prost(int64, tag = "12")]
    pub period: i64,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct ValueType {
    #[prost(int64, tag = "1")]
    pub r#type: i64,
    #[prost(int64, tag = "2")]
    pub unit: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Sample {
    #[prost(uint64, repeated, tag = "1")]
    pub location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    pub value: Vec<i64>,
    #[prost(message, repeated, tag = "3")]
    pub label: Vec<Label>,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct Label {
    #[prost(int64, tag = "1")]
    pub key: i64,
    #[prost(int64, tag = "2")]
    pub str: i64,
    #[prost(int64, tag = "3")]
    pub num: i64,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct Mapping {
    #[prost(uint64, tag = "1")]
    pub id: u64,
    #[prost(int64, tag = "5")]
    pub filename: i64,
    #[prost(int64, tag = "6")]
    pub build_id: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Location {
    #[prost(uint64, tag = "1")]
    pub id: u64,
    #[prost(uint64, tag = "2")]
    pub mapping_id: u64,
    #[prost(message, repeated, tag = "4")]
    pub line: Vec<Line>,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct Line {
    #[prost(uint64, tag = "1")]
    pub function_id: u64,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct Function {
    #[prost(uint64, tag = "1")]
    pub id: u64,
    #[prost(int64, tag = "2")]
    pub name: i64,
    #[prost(int64, tag = "4")]
    pub filename: i64,
}

/// Decompresses gzip.
pub fn gunzip(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let mut plain = Vec::new();
    let read = GzDecoder::new(bytes).read_to_end(&mut plain);
    read.map_err(|error| error.to_string())?;
    Ok(plain)
}

/// Checks an encoded profile.
pub fn check_pprof(raw: &[u8]) -> Result<(), String> {
    let bytes = gunzip(raw)?;
    if bytes.len() > 4 << 20 {
        return Err("profile too big".to_owned());
    }
    // Decoding checks that texts are UTF-8.
    let profile = Pprof::decode(&*bytes).map_err(|error| error.to_string())?;
    check(&profile)
}

/// Checks a decoded profile.
pub fn check(profile: &Pprof) -> Result<(), String> {
    let text = |index: i64| {
        let index = usize::try_from(index).ok();
        let text = index.and_then(|index| profile.string_table.get(index));
        text.map(String::as_str).ok_or("no such text")
    };
    if !text(0)?.is_empty() {
        return Err("the first text is not empty".to_owned());
    }
    if profile.string_table.iter().any(|text| text.len() > 65_535) {
        return Err("symbol too long".to_owned());
    }
    if profile.time_nanos <= 0 {
        return Err("no time".to_owned());
    }
    let ids = [
        profile.mapping.iter().map(|one| one.id).collect::<Vec<_>>(),
        profile.location.iter().map(|one| one.id).collect(),
        profile.function.iter().map(|one| one.id).collect(),
    ];
    if !ids
        .iter()
        .all(|ids| (1..).zip(ids).all(|(id, it)| *it == id))
    {
        return Err("ids are not 1, 2, 3".to_owned());
    }
    let is_known = |id: u64, table: usize| (1..=ids[table].len() as u64).contains(&id);
    for mapping in &profile.mapping {
        text(mapping.filename)?;
        text(mapping.build_id)?;
    }
    for location in &profile.location {
        if !is_known(location.mapping_id, 0)
            || !location.line.iter().all(|one| is_known(one.function_id, 2))
        {
            return Err(format!("location {} is of nothing", location.id));
        }
    }
    for function in &profile.function {
        text(function.filename)?;
        if text(function.name)?.is_empty() {
            return Err("a function without a name".to_owned());
        }
    }
    let period_type = profile.period_type.ok_or("no period type")?;
    for value_type in profile.sample_type.iter().chain([&period_type]) {
        for name in [text(value_type.r#type)?, text(value_type.unit)?] {
            if name.contains('-') {
                return Err("sample type contains -".to_owned());
            }
            check_name(name)?;
        }
    }
    if profile.sample.len() > 16_000 {
        return Err("too many samples".to_owned());
    }
    for sample in &profile.sample {
        if sample.value.len() != profile.sample_type.len() {
            return Err("a sample with too few or too many values".to_owned());
        }
        if sample.location_id.is_empty() || !sample.location_id.iter().all(|id| is_known(*id, 1)) {
            return Err("a sample of nowhere".to_owned());
        }
        if sample.location_id.len() > 1_000 {
            return Err("too many frames".to_owned());
        }
        let mut keys = BTreeSet::new();
        for label in &sample.label {
            let key = text(label.key)?;
            check_name(key)?;
            if !keys.insert(key) {
                return Err(format!("label '{key}' is there twice"));
            }
            if (text(label.str)?.is_empty()) == (label.num == 0) {
                return Err(format!("label '{key}' is neither or both"));
            }
        }
        if keys.len() > 100 {
            return Err("too many sample labels".to_owned());
        }
    }
    Ok(())
}

fn check_name(name: &str) -> Result<(), String> {
    let mut characters = name.chars();
    let first = characters.next().ok_or("empty name")?;
    let is_first = first.is_ascii_alphabetic() || first == '_';
    if is_first && characters.all(|c| c.is_ascii_alphanumeric() || c == '_') {
        Ok(())
    } else {
        Err(format!("invalid name '{name}'"))
    }
}

/// Checks the labels of a series.
pub fn check_labels<'a>(
    labels: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<(), String> {
    let mut seen = BTreeMap::new();
    for (name, value) in labels {
        check_name(name)?;
        if name.len() > 1_024 || value.len() > 2_048 {
            return Err(format!("label '{name}' too long"));
        }
        if value.is_empty() {
            return Err(format!("label '{name}' without a value"));
        }
        if name.starts_with("__") && name != "__name__" {
            return Err(format!("label '{name}' is reserved"));
        }
        if seen.insert(name, value).is_some() {
            return Err(format!("duplicate label name '{name}'"));
        }
    }
    if seen.len() > 30 {
        return Err("too many label names".to_owned());
    }
    match seen.get("__name__") {
        Some(&("process_cpu" | "wall" | "offcpu" | "fgprof" | "parca_agent")) => {}
        other => return Err(format!("invalid metric name {other:?}")),
    }
    match seen.get("service_name") {
        Some(_) => Ok(()),
        None => Err("service name is not provided".to_owned()),
    }
}
