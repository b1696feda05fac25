//! The messages of pprof's `profile.proto`, with the fields that are written here.
//!
//! Numbers and meanings are those of <https://github.com/google/pprof/blob/main/proto/profile.proto>.
//! Invariants of the format: `string_table[0]` is empty; ids are not zero; a field named after a
//! table holds an id in it, every other text is an index into the string table.

/// The file.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Profile {
    /// What each value of a sample is.
    #[prost(message, repeated, tag = "1")]
    pub sample_type: Vec<ValueType>,
    /// The samples.
    #[prost(message, repeated, tag = "2")]
    pub sample: Vec<Sample>,
    /// Where in the address space what is mapped; the executable comes first.
    #[prost(message, repeated, tag = "3")]
    pub mapping: Vec<Mapping>,
    /// Places in functions.
    #[prost(message, repeated, tag = "4")]
    pub location: Vec<Location>,
    /// Functions.
    #[prost(message, repeated, tag = "5")]
    pub function: Vec<Function>,
    /// Every text once.
    #[prost(string, repeated, tag = "6")]
    pub string_table: Vec<String>,
    /// When sampling began, in nanoseconds since 1970.
    #[prost(int64, tag = "9")]
    pub time_nanos: i64,
    /// For how long samples were taken.
    #[prost(int64, tag = "10")]
    pub duration_nanos: i64,
    /// What passes between two samples.
    #[prost(message, optional, tag = "11")]
    pub period_type: Option<ValueType>,
    /// How much of it passes.
    #[prost(int64, tag = "12")]
    pub period: i64,
    /// Remarks for people.
    #[prost(int64, repeated, tag = "13")]
    pub comment: Vec<i64>,
    /// The sample type to show first.
    #[prost(int64, tag = "14")]
    pub default_sample_type: i64,
}

/// What a number is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct ValueType {
    /// Its name, such as `cpu`.
    #[prost(int64, tag = "1")]
    pub r#type: i64,
    /// Its unit, such as `nanoseconds`.
    #[prost(int64, tag = "2")]
    pub unit: i64,
}

/// A stack and what was counted at it.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct Sample {
    /// The stack, leaf first.
    #[prost(uint64, repeated, tag = "1")]
    pub location_id: Vec<u64>,
    /// One value for each sample type.
    #[prost(int64, repeated, tag = "2")]
    pub value: Vec<i64>,
    /// What else is known; no key twice.
    #[prost(message, repeated, tag = "3")]
    pub label: Vec<Label>,
}

/// A key with either a text or a number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct Label {
    /// The key.
    #[prost(int64, tag = "1")]
    pub key: i64,
    /// The text.
    #[prost(int64, tag = "2")]
    pub str: i64,
    /// The number.
    #[prost(int64, tag = "3")]
    pub num: i64,
}

/// A file, or what stands for one, in the address space.
#[expect(
    clippy::struct_excessive_bools,
    reason = "the format has one for each thing that can be known"
)]
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
    /// What identifies the file's content.
    #[prost(int64, tag = "6")]
    pub build_id: i64,
    /// Whether its locations have functions already.
    #[prost(bool, tag = "7")]
    pub has_functions: bool,
    /// Whether its functions have files already.
    #[prost(bool, tag = "8")]
    pub has_filenames: bool,
    /// Whether its locations have lines already.
    #[prost(bool, tag = "9")]
    pub has_line_numbers: bool,
    /// Whether its locations have functions that were inlined.
    #[prost(bool, tag = "10")]
    pub has_inline_frames: bool,
}

/// A place in a function.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct Location {
    /// Its id.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// What it lies in.
    #[prost(uint64, tag = "2")]
    pub mapping_id: u64,
    /// Its address, zero for code that has none.
    #[prost(uint64, tag = "3")]
    pub address: u64,
    /// Its line; more than one where functions were inlined.
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
    /// Its name for people.
    #[prost(int64, tag = "2")]
    pub name: i64,
    /// Its name for linkers, such as a mangled one.
    #[prost(int64, tag = "3")]
    pub system_name: i64,
    /// The source file.
    #[prost(int64, tag = "4")]
    pub filename: i64,
    /// The first line, zero when it is not known.
    #[prost(int64, tag = "5")]
    pub start_line: i64,
}
