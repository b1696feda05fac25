//! Locates CPython's evaluation loop in a file: the code whose native frames are replaced by Python
//! frames.
//!
//! It is one function, but compilers move its cold parts elsewhere; in some profile-guided builds
//! that is nearly all of it. Where `strip` removed the symbols of these parts they are found by
//! jumps, since only a function itself jumps into its middle:
//!
//! ```text
//! _PyEval_EvalFrameDefault             a part of it
//!   …                                    …
//!   jmp  ──────────────────────────────► …
//!   …  ◄──────────────────────────────  jmp
//! ```
//!
//! Invariants: the ranges are those of the call-frame information, not of the symbols; one call of
//! the loop has exactly one native frame in them.

use std::{collections::HashSet, ops::Range};

use crate::binaries::{
    elf::{Elf, Error, Source, Symbol},
    jumps, unwind,
};

/// Name of the loop, from 3.6 on and before.
const NAMES: [&str; 2] = ["_PyEval_EvalFrameDefault", "PyEval_EvalFrameEx"];

/// Prefix of the functions, one for each instruction, that the tail-call interpreter has in place
/// of the loop (3.14 and later, `--with-tail-call-interp`).
const TAIL_CALLS: &str = "_TAIL_CALL_";

/// Most bytes of code that are searched for jumps; the loop has 100,000.
const MAX_BYTES: u64 = 16 << 20;

/// Most parts of a loop that are found by jumps.
const MAX_PARTS: usize = 32;

/// The address ranges of the evaluation loop in a file, before the load bias is added, ascending;
/// empty where there is no loop or no call-frame information.
///
/// # Errors
///
/// When a required part of the file cannot be read.
pub fn ranges<S: Source>(elf: &Elf<S>) -> Result<Vec<Range<u64>>, Error> {
    let symbols = symbols(elf)?;
    if symbols.is_empty() {
        return Ok(Vec::new());
    }
    let functions = match unwind::functions(elf) {
        Ok(functions) => functions,
        Err(unwind::Error::Elf(error)) => return Err(error),
        Err(unwind::Error::Machine { .. }) => return Ok(Vec::new()),
    };
    let mut search = Search {
        elf,
        functions,
        left: MAX_BYTES,
    };
    let mut found = Vec::new();
    for symbol in symbols {
        found.extend(search.containing(symbol.address));
    }
    found.sort_unstable_by_key(|range| range.start);
    found.dedup();
    search.complete(&mut found)?;
    found.sort_unstable_by_key(|range| range.start);
    Ok(found)
}

/// The functions of the loop that have symbols.
fn symbols<S: Source>(elf: &Elf<S>) -> Result<Vec<Symbol>, Error> {
    for name in NAMES {
        let Some(function) = elf.symbol(name)? else {
            continue;
        };
        // The function `name` calls these, so it has a native frame of its own below theirs.
        for called in [TAIL_CALLS, &format!("{name}.part.")] {
            let functions = elf.symbols_with_prefix(called)?;
            if !functions.is_empty() {
                return Ok(functions);
            }
        }
        let mut parts = elf.symbols_with_prefix(&format!("{name}."))?;
        parts.push(function);
        return Ok(parts);
    }
    Ok(Vec::new())
}

/// Search for the parts of a function.
struct Search<'a, S> {
    elf: &'a Elf<S>,
    functions: Vec<Range<u64>>,
    /// Bytes that may still be searched.
    left: u64,
}

impl<S: Source> Search<'_, S> {
    /// The function that contains an address.
    fn containing(&self, address: u64) -> Option<Range<u64>> {
        let after = self
            .functions
            .partition_point(|range| range.start <= address);
        let range = self.functions.get(after.checked_sub(1)?)?;
        range.contains(&address).then(|| range.clone())
    }

    /// Adds the functions that `parts` jump to and that jump back into the middle of a part.
    fn complete(&mut self, parts: &mut Vec<Range<u64>>) -> Result<(), Error> {
        let mut visited: HashSet<u64> = parts.iter().map(|part| part.start).collect();
        let mut next = 0;
        while let Some(part) = parts.get(next)
            && parts.len() < MAX_PARTS
        {
            next += 1;
            for target in self.jumps(&part.clone())? {
                let Some(candidate) = self.containing(target) else {
                    continue;
                };
                if !visited.insert(candidate.start) {
                    continue;
                }
                let returns = self.jumps(&candidate)?.iter().any(|target| {
                    parts
                        .iter()
                        .any(|part| part.contains(target) && part.start != *target)
                });
                if returns {
                    parts.push(candidate);
                }
            }
        }
        Ok(())
    }

    /// The targets outside a function of its jumps.
    fn jumps(&mut self, function: &Range<u64>) -> Result<Vec<u64>, Error> {
        let bytes = (function.end - function.start).min(self.left);
        self.left -= bytes;
        let code = self.elf.loaded_from(function.start, bytes)?;
        let mut found = Vec::new();
        jumps::targets(self.elf.machine(), function.start, &code, |target| {
            if !function.contains(&target) {
                found.push(target);
            }
        });
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }
}
