//! pprof: protobuf in gzip.
//!
//! What is written is chosen so that every reader gets along with it:
//!
//! - Ids of mappings, functions and locations are 1, 2, 3 …; Parca demands it.
//! - Native and kernel frames have the addresses that their file itself gives, and lie in one
//!   mapping for each executable whose first address is that of the executable segment: readers that
//!   take off a load bias find that there is none, and those that look an address up by the build ID
//!   (Pyroscope, Parca) find it as it is. What could not be told of a function has no line: a
//!   collector fills it in.
//! - Where a function could not be told, the mapping does not say that it has functions, or
//!   Pyroscope would not look for any. `go tool pprof` looks for the file on the machine that it
//!   runs on instead, and what it finds there replaces all lines of the mapping: so it may only where
//!   no line is known and the build ID proves the file to be the same. Everywhere else the mapping
//!   says that it has files and lines, which nothing but that depends on.
//! - The kernel, its modules, the vDSO and what a compiler made at run time have names that begin
//!   with `[`, as elsewhere, and are looked for nowhere.
//! - The other images of the processes are listed as not symbolized, which they are not. No location
//!   lies in them, so `go tool pprof` neither looks for their files nor warns. The first process's
//!   executable comes first, whichever of the two it is.
//! - Python frames lie in a mapping of their own, one for all processes with the same runtime. Its
//!   name begins with `[`, which stands for "no file" everywhere, and never contains `python3`, by
//!   which Parca's user interface hides an interpreter's internals, such as the native frames of it.
//! - Python frames have no address. A made-up one would differ from profile to profile, and what
//!   merges profiles (`go tool pprof a b`, Pyroscope) takes locations with equal addresses, lines
//!   and mappings for one.
//! - `system_name` stays empty: a name that equals it is taken for a mangled one, and then
//!   `<module>` and `<lambda>` lose what stands between `<` and `>`.
//! - Names have no control characters in them: `go tool pprof` prints them as they are.
//! - Labels of a series are comments, `label NAME=VALUE`: where they are wanted, collectors are told
//!   them beside the profile, and samples have other ones.
//! - The thread's name is a text label and its id a number under another key. Pyroscope makes a
//!   series of each text label, so there is only this one, and that of the process, which is only
//!   told where there are several. Where profiles are pushed all the time there is none.

mod mappings;
mod names;
mod read;
pub mod schema;
mod string_table;
mod wire;
mod write;

pub use self::{
    read::{PprofFile, PprofHeader, PprofReadError},
    write::write,
};
