//! Code that matters for Python stacks beyond its call-frame information.

use super::{evaluation_loop, greenlets};
use crate::binaries::{
    elf::{Elf, Error, Source},
    unwind::{CodeMark, CodeRole},
};

/// The evaluation loop of an interpreter and the beginnings of greenlets' stacks in a file; empty
/// where it has neither.
///
/// # Errors
///
/// When a required part of the file cannot be read.
pub fn marked_code<S: Source>(elf: &Elf<S>) -> Result<Vec<CodeMark>, Error> {
    let with = |role| move |range| CodeMark { range, role };
    let loops = evaluation_loop::ranges(elf)?.into_iter();
    let roots = greenlets::entries(elf)?.into_iter();
    Ok(loops
        .map(with(CodeRole::EvaluationLoop))
        .chain(roots.map(with(CodeRole::StackRoot)))
        .collect())
}
