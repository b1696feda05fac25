//! A pprof as text, and the sum of its bytes.

use std::fmt::Write as _;

use prost::Message as _;

use super::md5;

#[derive(Clone, PartialEq, prost::Message)]
struct Profile {
    #[prost(message, repeated, tag = "1")]
    sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    sample: Vec<Sample>,
    #[prost(message, repeated, tag = "3")]
    mapping: Vec<Mapping>,
    #[prost(message, repeated, tag = "4")]
    location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    function: Vec<Function>,
    #[prost(string, repeated, tag = "6")]
    string_table: Vec<String>,
    #[prost(int64, tag = "7")]
    drop_frames: i64,
    #[prost(int64, tag = "8")]
    keep_frames: i64,
    #[prost(int64, tag = "9")]
    time_nanos: i64,
    #[prost(int64, tag = "10")]
    duration_nanos: i64,
    #[prost(message, optional, tag = "11")]
    period_type: Option<ValueType>,
    #[prost(int64, tag = "12")]
    period: i64,
    #[prost(int64, repeated, tag = "13")]
    comment: Vec<i64>,
    #[prost(int64, tag = "14")]
    default_sample_type: i64,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
struct ValueType {
    #[prost(int64, tag = "1")]
    r#type: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Sample {
    #[prost(uint64, repeated, tag = "1")]
    location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    value: Vec<i64>,
    #[prost(message, repeated, tag = "3")]
    label: Vec<Label>,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
struct Label {
    #[prost(int64, tag = "1")]
    key: i64,
    #[prost(int64, tag = "2")]
    str: i64,
    #[prost(int64, tag = "3")]
    num: i64,
    #[prost(int64, tag = "4")]
    num_unit: i64,
}

#[expect(clippy::struct_excessive_bools, reason = "it is the format's")]
#[derive(Clone, Copy, PartialEq, prost::Message)]
struct Mapping {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(uint64, tag = "2")]
    memory_start: u64,
    #[prost(uint64, tag = "3")]
    memory_limit: u64,
    #[prost(uint64, tag = "4")]
    file_offset: u64,
    #[prost(int64, tag = "5")]
    filename: i64,
    #[prost(int64, tag = "6")]
    build_id: i64,
    #[prost(bool, tag = "7")]
    has_functions: bool,
    #[prost(bool, tag = "8")]
    has_filenames: bool,
    #[prost(bool, tag = "9")]
    has_line_numbers: bool,
    #[prost(bool, tag = "10")]
    has_inline_frames: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Location {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(uint64, tag = "2")]
    mapping_id: u64,
    #[prost(uint64, tag = "3")]
    address: u64,
    #[prost(message, repeated, tag = "4")]
    line: Vec<Line>,
    #[prost(bool, tag = "5")]
    is_folded: bool,
}

#[expect(clippy::struct_field_names, reason = "it is the format's")]
#[derive(Clone, Copy, PartialEq, prost::Message)]
struct Line {
    #[prost(uint64, tag = "1")]
    function_id: u64,
    #[prost(int64, tag = "2")]
    line: i64,
    #[prost(int64, tag = "3")]
    column: i64,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
struct Function {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: i64,
    #[prost(int64, tag = "3")]
    system_name: i64,
    #[prost(int64, tag = "4")]
    filename: i64,
    #[prost(int64, tag = "5")]
    start_line: i64,
}

impl Profile {
    fn text(&self, index: i64) -> &str {
        &self.string_table[usize::try_from(index).unwrap()]
    }

    fn value_type(&self, of: ValueType) -> String {
        format!("{}/{}", self.text(of.r#type), self.text(of.unit))
    }

    fn label(&self, label: &Label) -> String {
        let Label {
            key,
            str,
            num,
            num_unit,
        } = *label;
        let (key, text, unit) = (self.text(key), self.text(str), self.text(num_unit));
        format!("{key}={text:?}/{num}{unit}")
    }
}

/// All of it, one thing a line; the sum shows the order and the encoding of fields too.
pub(super) fn dump(bytes: &[u8]) -> String {
    let profile = Profile::decode(bytes).unwrap();
    let mut text = String::new();
    let out = &mut text;
    for &of in &profile.sample_type {
        writeln!(out, "sample type {}", profile.value_type(of)).unwrap();
    }
    writeln!(
        out,
        "period {:?} {} default {} time {} duration {} drop {} keep {}",
        profile.period_type.map(|of| profile.value_type(of)),
        profile.period,
        profile.text(profile.default_sample_type),
        profile.time_nanos,
        profile.duration_nanos,
        profile.drop_frames,
        profile.keep_frames,
    )
    .unwrap();
    for &comment in &profile.comment {
        writeln!(out, "comment {}", profile.text(comment)).unwrap();
    }
    for it in &profile.mapping {
        writeln!(
            out,
            "mapping {} {:#x}-{:#x} at {:#x} {:?} {:?} has {:?}",
            it.id,
            it.memory_start,
            it.memory_limit,
            it.file_offset,
            profile.text(it.filename),
            profile.text(it.build_id),
            [
                it.has_functions,
                it.has_filenames,
                it.has_line_numbers,
                it.has_inline_frames
            ],
        )
        .unwrap();
    }
    for it in &profile.function {
        writeln!(
            out,
            "function {} {:?} {:?} {:?}:{}",
            it.id,
            profile.text(it.name),
            profile.text(it.system_name),
            profile.text(it.filename),
            it.start_line
        )
        .unwrap();
    }
    for it in &profile.location {
        let lines: Vec<_> = it
            .line
            .iter()
            .map(|it| (it.function_id, it.line, it.column))
            .collect();
        writeln!(
            out,
            "location {} mapping {} {:#x} {lines:?} {}",
            it.id, it.mapping_id, it.address, it.is_folded
        )
        .unwrap();
    }
    for it in &profile.sample {
        let labels: Vec<_> = it.label.iter().map(|label| profile.label(label)).collect();
        let labels = labels.join(" ");
        writeln!(out, "sample {:?} {labels} {:?}", it.value, it.location_id).unwrap();
    }
    writeln!(out, "md5 {} of the uncompressed bytes", md5(bytes)).unwrap();
    text
}
