//! Frames of a profile as viewers show them: a function, its file and line, its executable.
//!
//! Invariants: texts are printable; equal frames of different locations are one frame of the table. The table
//! has at most as many frames as the locations have lines, and only those of samples.

use std::{borrow::Cow, num::NonZeroU32};

use indexmap::IndexSet;

use super::{function_names::ShownNames, options::EncodeOptions};
use crate::{
    profile::{Executable, ExecutableId, ExecutableKind, FrameKind, Location, Profile},
    text::printable,
};

/// A frame.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ShownFrame<'a> {
    /// Name of the function; of an unsymbolized frame its executable and address, `libz.so.1+0x2b0c`.
    pub(super) function: Cow<'a, str>,
    /// Its source file; empty where none is known.
    pub(super) file: Cow<'a, str>,
    /// Line in the file.
    pub(super) line: Option<NonZeroU32>,
    /// First line of the function.
    pub(super) first_line: Option<NonZeroU32>,
    /// Its executable; only native and kernel frames have one.
    pub(super) executable: Option<ExecutableId>,
    /// Kind of the function.
    pub(super) kind: FrameKind,
    /// Whether it is inlined into its caller.
    pub(super) is_inlined: bool,
}

/// The frames of the samples of a profile.
pub(super) struct FrameTable<'a> {
    profile: &'a Profile,
    /// Whether labels have whole paths.
    full_file_names: bool,
    frames: IndexSet<ShownFrame<'a>>,
    /// Indices of the frames of each location, the innermost first; none of a location without samples.
    locations: Vec<Box<[u32]>>,
}

impl<'a> FrameTable<'a> {
    /// The frames of a profile whose functions have these names.
    pub(super) fn new(
        profile: &'a Profile,
        names: &'a ShownNames<'a>,
        options: EncodeOptions,
    ) -> Self {
        let mut table = Self {
            profile,
            full_file_names: options.full_file_names,
            frames: IndexSet::new(),
            locations: vec![Box::default(); profile.locations.len()],
        };
        for sample in &profile.samples {
            for id in &profile.stacks[sample.stack.0 as usize] {
                if table.locations[id.0 as usize].is_empty() {
                    let frames = location_frames(profile, names, profile.location(*id));
                    let indices = frames.into_iter().map(|frame| table.index(frame)).collect();
                    table.locations[id.0 as usize] = indices;
                }
            }
        }
        table
    }

    fn index(&mut self, frame: ShownFrame<'a>) -> u32 {
        u32::try_from(self.frames.insert_full(frame).0).unwrap_or(u32::MAX)
    }

    /// The profile.
    pub(super) fn profile(&self) -> &'a Profile {
        self.profile
    }

    /// The function with the end of its path, or all of it, and its line, `fib (main.py:10)`, or with its
    /// executable, `deflate (libz.so.1)`.
    pub(super) fn label(&self, frame: &ShownFrame<'_>) -> String {
        let function = &frame.function;
        match (frame.kind, frame.executable) {
            (FrameKind::Python, _) => {
                let file = match frame.file.rsplit_once('/') {
                    Some((_, file)) if !self.full_file_names => file,
                    _ => &frame.file,
                };
                match frame.line {
                    Some(line) => format!("{function} ({file}:{line})"),
                    None => format!("{function} ({file})"),
                }
            }
            (FrameKind::Native, Some(id)) => {
                let name = self.profile.executable(id).name();
                let name = printable(&name);
                if function.starts_with(&*name) {
                    function.to_string()
                } else {
                    format!("{function} ({name})")
                }
            }
            _ => function.to_string(),
        }
    }

    /// All frames, by their indices.
    pub(super) fn frames(&self) -> impl ExactSizeIterator<Item = &ShownFrame<'a>> {
        self.frames.iter()
    }

    /// Indices of the frames of a location, the innermost first.
    pub(super) fn location(&self, id: crate::profile::LocationId) -> &[u32] {
        &self.locations[id.0 as usize]
    }

    /// Indices of the frames of a stack, the root first.
    pub(super) fn stack(&self, stack: &[crate::profile::LocationId]) -> Vec<u32> {
        let root_first = stack.iter().rev();
        let frames = root_first.flat_map(|id| self.locations[id.0 as usize].iter().rev());
        frames.copied().collect()
    }
}

/// The frames of a location, the innermost first.
fn location_frames<'a>(
    profile: &'a Profile,
    names: &'a ShownNames<'a>,
    location: &Location,
) -> Vec<ShownFrame<'a>> {
    let id = location.code.map(|code| code.executable);
    let executable = id.map(|id| profile.executable(id));
    let outermost = location.lines.len().saturating_sub(1);
    let lines = location.lines.iter().enumerate();
    let frames = lines.map(|(index, line)| {
        let function = profile.function(line.function);
        ShownFrame {
            function: not_empty(names.get(line.function)),
            file: printable(&function.file),
            line: line.line,
            first_line: function.first_line,
            executable: id,
            kind: function.kind,
            is_inlined: index != outermost,
        }
    });
    let mut frames: Vec<_> = frames.collect();
    if frames.is_empty() {
        frames.push(unsymbolized(location, id, executable));
    }
    frames
}

fn unsymbolized<'a>(
    location: &Location,
    id: Option<ExecutableId>,
    executable: Option<&Executable>,
) -> ShownFrame<'a> {
    let name = executable.map_or(Cow::Borrowed("?"), Executable::name);
    let address = location.code.map_or(0, |code| code.address);
    ShownFrame {
        function: format!("{}+{address:#x}", printable(&name)).into(),
        file: "".into(),
        line: None,
        first_line: None,
        executable: id,
        kind: match executable {
            Some(executable) if executable.is_kernel() => FrameKind::Kernel,
            _ => FrameKind::Native,
        },
        is_inlined: false,
    }
}

fn not_empty(name: &str) -> Cow<'_, str> {
    if name.trim().is_empty() {
        "?".into()
    } else {
        printable(name)
    }
}

/// The path of an executable, or its kind in brackets.
pub(super) fn executable_path(executable: &Executable) -> Cow<'_, str> {
    match executable.kind {
        ExecutableKind::File => executable.path.to_string_lossy(),
        _ => executable.name(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{formats::function_names::FunctionNames, profile::fixtures::example_profile};

    #[test]
    fn frames_are_shown_once_and_in_order() {
        let profile = example_profile("/srv/app/main.py");
        let names = FunctionNames::Plain.of(&profile);
        let table = FrameTable::new(&profile, &names, EncodeOptions::default());
        let distinct: std::collections::HashSet<_> = table.frames().collect();
        assert_eq!(distinct.len(), table.frames().len());
        let labels = |stack: usize| {
            let stack = table.stack(&profile.stacks[stack]);
            let labels = stack
                .iter()
                .map(|index| table.label(&table.frames[*index as usize]));
            labels.collect::<Vec<_>>()
        };
        assert_eq!(
            labels(0),
            [
                "<module> (main.py:22)",
                "main (main.py:4)",
                "fib (main.py:10)",
                "fib (main.py:10)",
                "fib (main.py:11)"
            ]
        );
        // The same line at two addresses.
        assert_eq!(labels(10), labels(11));
        assert_eq!(
            labels(10)[2..],
            [
                "<module> (main.py:22)",
                "main (main.py:5)",
                "list_sort_impl (python3.12)",
                "binarysort (python3.12)",
                "Rows.load.<locals>.<lambda> (main.py:14)"
            ]
        );
        assert_eq!(
            labels(13)[1..],
            [
                "_speedups.abi3.so+0x17b02",
                "kernel; v1 ([jit])",
                "[jit]+0x7fffe0002468"
            ]
        );
    }
}
