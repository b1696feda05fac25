//! Locates where the stacks of greenlets begin in the library greenlet, with which gevent and
//! eventlet switch between coroutines.
//!
//! Greenlets share the stack of their thread. The part of one that is switched away from is copied
//! elsewhere, and another one's takes its place:
//!
//! ```text
//! main, …, g_switch, ┆ g_initialstub, inner_bootstrap, the greenlet's frames
//!                    ┆ what the greenlet's own part of the stack begins with
//! ```
//!
//! What lies before that belonged to the greenlet that started it, and is overwritten when that one
//! or its callers run on: the return address there leads anywhere. So the stack of a greenlet ends
//! at `g_initialstub`, as a thread's at the function that the C library starts it with.

use std::ops::Range;

use crate::binaries::{
    elf::{Elf, Error, Source},
    unwind,
};

/// The initialization functions of the module, one of which it exports: as a module of a package
/// (from 1.0 on) and before, for Python 3 and 2.
const MODULES: [&str; 4] = [
    "PyInit__greenlet",
    "PyInit_greenlet",
    "init_greenlet",
    "initgreenlet",
];

/// The function in which a greenlet begins: a member (from 2.0 on; exported), a C++ function and one
/// in C before.
const ENTRIES: [&str; 3] = [
    "_ZN8greenlet12UserGreenlet13g_initialstubEPv",
    "_ZL13g_initialstubPv",
    "g_initialstub",
];

/// The address ranges of the function in which greenlets begin, before the load bias is added; empty
/// in other files.
///
/// # Errors
///
/// When a required part of the file cannot be read.
pub fn entries<S: Source>(elf: &Elf<S>) -> Result<Vec<Range<u64>>, Error> {
    if !is_library(elf)? {
        return Ok(Vec::new());
    }
    for name in ENTRIES {
        if let Some(entry) = elf.symbol(name)? {
            let is_entry = |range: &Range<u64>| range.contains(&entry.address);
            return match unwind::functions(elf) {
                Ok(functions) => Ok(functions.into_iter().filter(is_entry).collect()),
                Err(unwind::Error::Elf(error)) => Err(error),
                Err(unwind::Error::Machine { .. }) => Ok(Vec::new()),
            };
        }
    }
    Ok(Vec::new())
}

/// Whether the file is the library.
fn is_library<S: Source>(elf: &Elf<S>) -> Result<bool, Error> {
    for module in MODULES {
        if elf.exported_symbol(module)?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}
