//! The frames of a stack, and which of them are shown.

use serde::Serialize;

use crate::{
    commands::cli::ShownFrames,
    profile::{FrameKind, IDLE_MARKER, Location, LocationId, Profile},
};

/// A frame.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct DumpedFrame {
    /// What it is.
    pub(super) kind: DumpedKind,
    /// Its function, or what is missing; null where the address has no symbol.
    pub(super) function: Option<String>,
    /// Its source file, where one is known.
    pub(super) file: Option<String>,
    /// The line that it executes.
    pub(super) line: Option<u32>,
    /// The first line of its function.
    pub(super) first_line: Option<u32>,
    /// The text of its line, with `--source` and where the file can be read.
    pub(super) source: Option<String>,
    /// The file with its machine code, or `[jit]`, `[vdso]`, `[kernel]`.
    pub(super) executable: Option<String>,
    /// Address of its instruction in that file, in hexadecimal.
    pub(super) address: Option<String>,
    /// Whether it is inlined into the next one.
    pub(super) inlined: bool,
    /// Its variables.
    #[serde(flatten)]
    pub(super) variables: DumpedVariables,
}

/// The variables of a frame of Python, with `--locals`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct DumpedVariables {
    /// Its arguments, in their order; null where they were not read.
    pub(super) arguments: Option<Vec<DumpedVariable>>,
    /// Its other variables that have a value; null where they were not read.
    pub(super) locals: Option<Vec<DumpedVariable>>,
    /// How many variables with a value are left out.
    pub(super) variables_left_out: usize,
}

/// A variable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct DumpedVariable {
    pub(super) name: String,
    /// Its value as Python's `repr` has it, else class and address; what is too long ends in `…`.
    pub(super) value: String,
}

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum DumpedKind {
    Python,
    Native,
    Kernel,
    /// Frames are missing.
    Marker,
}

/// The frames of a stack that are shown, leaf first.
pub(super) fn shown(
    profile: &Profile,
    stack: &[LocationId],
    wanted: ShownFrames,
) -> Vec<DumpedFrame> {
    let locations = stack.iter().map(|id| profile.location(*id));
    let frames = locations.flat_map(|location| of_location(profile, location));
    let is_shown = |frame: &DumpedFrame| wanted.kernel || frame.kind != DumpedKind::Kernel;
    frames.filter(is_shown).collect()
}

/// The frames of a location, the innermost first.
fn of_location(profile: &Profile, location: &Location) -> Vec<DumpedFrame> {
    let code = location.code;
    let executable = code.map(|code| profile.executable(code.executable));
    let nameless = DumpedFrame {
        kind: match executable {
            Some(executable) if executable.is_kernel() => DumpedKind::Kernel,
            _ => DumpedKind::Native,
        },
        function: None,
        file: None,
        line: None,
        first_line: None,
        source: None,
        executable: executable.map(|executable| executable.name().into_owned()),
        address: code.map(|code| format!("{:#x}", code.address)),
        inlined: false,
        variables: DumpedVariables::default(),
    };
    if location.lines.is_empty() {
        return vec![nameless];
    }
    let outermost = location.lines.len() - 1;
    let lines = location.lines.iter().enumerate();
    let frames = lines.map(|(index, line)| {
        let function = profile.function(line.function);
        DumpedFrame {
            kind: match function.kind {
                FrameKind::Python => DumpedKind::Python,
                FrameKind::Native => DumpedKind::Native,
                FrameKind::Kernel => DumpedKind::Kernel,
                FrameKind::Marker => DumpedKind::Marker,
            },
            function: Some(function.name.clone()),
            file: Some(function.file.clone()).filter(|file| !file.is_empty()),
            line: line.line.map(Into::into),
            first_line: function.first_line.map(Into::into),
            inlined: index != outermost,
            ..nameless.clone()
        }
    });
    frames
        .filter(|frame| frame.function.as_deref() != Some(IDLE_MARKER))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::fixtures::example_profile;

    #[test]
    fn frames_of_the_kernel_are_shown_if_they_are_wanted() {
        let profile = example_profile("");
        let count = |kernel| {
            let wanted = ShownFrames {
                kernel,
                internals: true,
                inlined: true,
            };
            let stacks = profile.stacks.iter();
            let frames = stacks.flat_map(|stack| shown(&profile, stack, wanted));
            let kinds: Vec<_> = frames.map(|frame| frame.kind).collect();
            let of_kernel = kinds.iter().filter(|kind| **kind == DumpedKind::Kernel);
            (of_kernel.count(), kinds.len())
        };
        let (of_kernel, all) = count(true);
        assert!(of_kernel > 0);
        assert_eq!(count(false), (0, all - of_kernel));
    }
}
