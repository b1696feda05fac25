//! pprof: gzipped protobuf.
//!
//! Files work with `go tool pprof`, Pyroscope, Parca and speedscope, which leads to these choices:
//!
//! - Ids of mappings, functions and locations are 1, 2, 3 …; Parca requires it.
//! - Native and kernel frames have addresses in the file's own address space, and one mapping per
//!   executable that starts at its executable segment: readers that subtract a load bias compute 0, and
//!   readers that symbolize by build ID (Pyroscope, Parca) use the address as it is. An unsymbolized
//!   location has no line, so that a collector can symbolize it.
//! - A mapping with an unsymbolized location has `has_functions` unset, or Pyroscope would not
//!   symbolize it. `go tool pprof` then searches the file on the machine where it runs, and replaces all
//!   lines of the mapping. That is allowed only where no line is known and the build ID identifies the
//!   file; all other mappings set `has_filenames` and `has_line_numbers`, which have no other effect.
//! - The kernel, its modules, the vDSO and JIT code have names that start with `[`, as in other
//!   profilers; no reader searches a file for them.
//! - The program of the first process is the first mapping, whether or not a location refers to it:
//!   `go tool pprof` and Pyroscope take the first one for the main binary. Without a location it has no
//!   addresses. All other mappings have locations.
//! - Python frames have a mapping of their own, one for all processes with the same runtime. Its name
//!   starts with `[`, which means "no file" to all readers, and never contains `python3`: Parca's user
//!   interface hides frames of such mappings as internals of the interpreter.
//! - Python frames have no address. An invented one would differ between profiles, and tools that merge
//!   profiles (`go tool pprof a b`, Pyroscope) identify locations by address, lines and mapping.
//! - `system_name` is empty: a name equal to it would be demangled, and `<module>` and `<lambda>` would
//!   lose the text between `<` and `>`. Where names have their module, it is the name without it, which
//!   the reader takes.
//! - Names contain no control characters, because `go tool pprof` prints names unchanged.
//! - Labels of a series are comments, `label NAME=VALUE`; collectors receive them outside of the
//!   profile, and labels of samples have another purpose.
//! - The name of a thread is a string label and its id a numeric label with another key. Pyroscope
//!   creates a series for each string label, so there is only this one, what the thread waits for in
//!   profiles that say so and, with several processes, the name of the process. Profiles that are pushed continuously have no labels of samples.

mod mappings;
mod names;
mod read;
pub mod schema;
mod string_table;
mod wire;
mod write;

pub use self::{
    read::{PprofFile, PprofHeader, PprofProfile, PprofReadError},
    write::write,
};
