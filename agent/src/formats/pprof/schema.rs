//! The messages of pprof's `profile.proto`, with the fields in use.
//!
//! Field numbers and meanings: <https://github.com/google/pprof/blob/main/proto/profile.proto>.
//! Invariants of the format: `string_table[0]` is empty; ids are not zero; a field named after a
//! table holds an id of it; strings are indices into the string table.

/// The file.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Profile {
    /// Types of the values of a sample.
    #[prost(message, repeated, tag = "1")]
    pub sample_type: Vec<ValueType>,
    /// The samples.
    #[prost(message, repeated, tag = "2")]
    pub sample: Vec<Sample>,
    /// Mappings; the executable is first.
    #[prost(message, repeated, tag = "3")]
    pub mapping: Vec<Mapping>,
    /// Locations.
    #[prost(message, repeated, tag = "4")]
    pub location: Vec<Location>,
    /// Functions.
    #[prost(message, repeated, tag = "5")]
    pub function: Vec<Function>,
    /// Distinct strings.
    #[prost(string, repeated, tag = "6")]
    pub string_table: Vec<String>,
    /// When sampling began, in nanoseconds since 1970.
    #[prost(int64, tag = "9")]
    pub time_nanos: i64,
    /// For how long samples were taken.
    #[prost(int64, tag = "10")]
    pub duration_nanos: i64,
    /// Type of `period`.
    #[prost(message, optional, tag = "11")]
    pub period_type: Option<ValueType>,
    /// Period between samples.
    #[prost(int64, tag = "12")]
    pub period: i64,
    /// Comments, as indices into the string table.
    #[prost(int64, repeated, tag = "13")]
    pub comment: Vec<i64>,
    /// The sample type that readers show by default.
    #[prost(int64, tag = "14")]
    pub default_sample_type: i64,
}

/// Type and unit of a value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct ValueType {
    /// Its name, such as `cpu`.
    #[prost(int64, tag = "1")]
    pub r#type: i64,
    /// Its unit, such as `nanoseconds`.
    #[prost(int64, tag = "2")]
    pub unit: i64,
}

/// A stack and its values.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct Sample {
    /// The stack, leaf first.
    #[prost(uint64, repeated, tag = "1")]
    pub location_id: Vec<u64>,
    /// One value for each sample type.
    #[prost(int64, repeated, tag = "2")]
    pub value: Vec<i64>,
    /// Labels; keys are distinct.
    #[prost(message, repeated, tag = "3")]
    pub label: Vec<Label>,
}

/// A key with a string or a number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct Label {
    /// The key.
    #[prost(int64, tag = "1")]
    pub key: i64,
    /// The string, 0 in a numeric label.
    #[prost(int64, tag = "2")]
    pub str: i64,
    /// The number, 0 in a string label.
    #[prost(int64, tag = "3")]
    pub num: i64,
}

/// A mapped file, or a substitute for one.
#[expect(clippy::struct_excessive_bools, reason = "the format has these fields")]
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct Mapping {
    /// Its id.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// First address.
    #[prost(uint64, tag = "2")]
    pub memory_start: u64,
    /// First address after it.
    #[prost(uint64, tag = "3")]
    pub memory_limit: u64,
    /// Offset of the first address in the file.
    #[prost(uint64, tag = "4")]
    pub file_offset: u64,
    /// The file's path.
    #[prost(int64, tag = "5")]
    pub filename: i64,
    /// Build ID of the file.
    #[prost(int64, tag = "6")]
    pub build_id: i64,
    /// Whether its locations have functions.
    #[prost(bool, tag = "7")]
    pub has_functions: bool,
    /// Whether its functions have files.
    #[prost(bool, tag = "8")]
    pub has_filenames: bool,
    /// Whether its locations have line numbers.
    #[prost(bool, tag = "9")]
    pub has_line_numbers: bool,
    /// Whether its locations have inlined functions.
    #[prost(bool, tag = "10")]
    pub has_inline_frames: bool,
}

/// A location.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct Location {
    /// Its id.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// Id of its mapping.
    #[prost(uint64, tag = "2")]
    pub mapping_id: u64,
    /// Its address, zero for code that has none.
    #[prost(uint64, tag = "3")]
    pub address: u64,
    /// Its lines, the innermost inlined function first.
    #[prost(message, repeated, tag = "4")]
    pub line: Vec<Line>,
}

/// A line of a function.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct Line {
    /// The function.
    #[prost(uint64, tag = "1")]
    pub function_id: u64,
    /// The line, zero when there is none.
    #[prost(int64, tag = "2")]
    pub line: i64,
}

/// A function.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct Function {
    /// Its id.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// Name as the source has it.
    #[prost(int64, tag = "2")]
    pub name: i64,
    /// Linkage name.
    #[prost(int64, tag = "3")]
    pub system_name: i64,
    /// The source file.
    #[prost(int64, tag = "4")]
    pub filename: i64,
    /// The first line, zero when it is not known.
    #[prost(int64, tag = "5")]
    pub start_line: i64,
}
