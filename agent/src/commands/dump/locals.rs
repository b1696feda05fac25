//! Adds arguments and local variables to the frames that are shown.
//!
//! Invariant: they are those of the stack that is shown, or of a later one with the same functions at the same lines.

use std::collections::HashMap;

use super::{
    document::{Document, DumpedThread, Taken},
    frames::{DumpedFrame, DumpedKind, DumpedVariable, DumpedVariables},
    variables::{Found, RAN},
};
use crate::{
    profile::is_of_native_frames,
    python::remote::locals::{FrameVariables, Variable},
    text::plural,
};

/// Adds the variables of each thread, or why there are none.
pub(super) fn add(document: &mut Document, found: &HashMap<(u32, u32), Found>) {
    for process in &mut document.processes {
        for thread in &mut process.threads {
            let found = found.get(&(process.pid, thread.tid));
            thread.locals_note = add_to(thread, found);
        }
    }
}

/// Adds the variables of a thread; returns why there are none, or which are missing.
fn add_to(thread: &mut DumpedThread, found: Option<&Found>) -> Option<String> {
    let frames = thread.frames.as_mut()?;
    let shown = frames
        .iter()
        .filter(|frame| frame.kind == DumpedKind::Python);
    let count = shown.count();
    if count == 0 {
        return None;
    }
    let is_at_rest = matches!(thread.taken, Some(Taken::Read | Taken::Core));
    let found = match found {
        Some(Ok(found)) if is_at_rest => found,
        Some(Err(why)) if is_at_rest => return Some(why.clone()),
        _ => return Some(RAN.to_owned()),
    };
    // Behind frames that are missing nothing is known of the others.
    let end = frames
        .iter()
        .position(|frame| frame.kind == DumpedKind::Marker && !is_of_native(frame));
    let is_whole = end.is_none();
    let certain = end.unwrap_or(frames.len());
    let certain = &mut frames[..certain];
    let mut shown: Vec<&mut DumpedFrame> = certain
        .iter_mut()
        .filter(|frame| frame.kind == DumpedKind::Python)
        .collect();
    let is_same = if is_whole {
        shown.len() == found.len()
    } else {
        shown.len() <= found.len()
    };
    if !is_same || !shown.iter().zip(found).all(|(shown, it)| is(shown, it)) {
        return Some(RAN.to_owned());
    }
    let mut read = 0;
    for (shown, found) in shown.iter_mut().zip(found) {
        if let Some(variables) = &found.variables {
            read += 1;
            shown.variables = DumpedVariables {
                arguments: Some(variables.arguments.iter().map(dumped).collect()),
                locals: Some(variables.locals.iter().map(dumped).collect()),
                variables_left_out: variables.more,
            };
        }
    }
    let missing = count - read;
    (missing > 0).then(|| {
        let frames = plural(missing as u64, "frame", "frames");
        format!("not read of the outermost {missing} {frames}")
    })
}

/// Whether a marker stands for native frames alone.
fn is_of_native(marker: &DumpedFrame) -> bool {
    marker.function.as_deref().is_some_and(is_of_native_frames)
}

/// Whether a frame that is shown is one whose variables were read.
fn is(shown: &DumpedFrame, found: &FrameVariables) -> bool {
    let Some(function) = &found.function else {
        return false;
    };
    shown.function.as_deref() == Some(&*function.name)
        && shown.file.as_deref().unwrap_or_default() == function.file
        && shown.first_line == function.first_line.map(Into::into)
        && shown.line == found.line.map(Into::into)
}

fn dumped(variable: &Variable) -> DumpedVariable {
    DumpedVariable {
        name: variable.name.clone(),
        value: variable.value.clone(),
    }
}
