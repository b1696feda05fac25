//! The summary of a profile in ten lines, and its tables, printed on standard error, or where it was asked for on standard output.
//!
//! Invariants: a name from another process cannot control the terminal; no row of a table is wider
//! than the terminal, unless whole paths are asked for.

mod library;
mod overview;
mod rank;
mod share;
mod similar;
mod table;

pub(super) use self::{
    rank::{FunctionRow, Named, NamedFunctions, hottest_functions},
    share::percent,
    similar::{similar, thread_name, without_numbers},
    table::{
        MIN_NAME_WIDTH, function_text, in_tables, more_rows, name_and_place, name_width,
        subject_text,
    },
};

pub use self::table::Summary;
