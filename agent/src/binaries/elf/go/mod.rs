//! The Go linker's table of functions (`.gopclntab`): their addresses, their names, and for each of
//! their instructions the stack in use, the file, the line and the functions inlined there.
//!
//! The Go runtime needs it, so it is in binaries that `strip` or `-ldflags='-s -w'` have stripped.
//!
//! Invariants: the bytes are untrusted: no value in them causes a panic, and what is read for one
//! function is bounded by the function's size. Bytes behind the end read as zero. Only some pages of
//! the table are in memory.
//!
//! Sources: "Go 1.2 Runtime Symbol Information" and, for what changed since, Go's
//! `debug/gosym/pclntab.go`, `runtime/symtab.go` and `runtime/runtime2.go` of 1.16 to 1.26.

mod find;
mod function;
mod lines;
mod module_data;
mod pc_values;
mod stack_sizes;
mod table;

pub use function::GoFunction;
pub use lines::GoLine;
pub use stack_sizes::StackSize;
pub use table::GoTable;
