//! The frames of a stack, and which of them are shown.

use serde::Serialize;

use crate::{
    commands::cli::ShownFrames,
    profile::{Executable, ExecutableKind, FrameKind, IDLE_MARKER, Location, LocationId, Profile},
};

/// Beginnings of the names of functions by which the interpreter calls others.
const CALLS: [&str; 14] = [
    "_PyCFunction",
    "_PyEval_",
    "_PyFunction_",
    "_PyObject_",
    "_PyVectorcall",
    "PyCFunction",
    "PyEval_",
    "PyObject_",
    "PyVectorcall",
    "call_function",
    "cfunction_",
    "do_call",
    "method_vectorcall",
    "object_vacall",
];

/// Beginnings of the names of the files whose functions start programs and threads.
const C_LIBRARIES: [&str; 5] = ["libc.", "libc-", "libpthread", "ld-musl", "ld-linux"];

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
    /// The file with its machine code, or `[jit]`, `[vdso]`, `[kernel]`.
    pub(super) executable: Option<String>,
    /// Address of its instruction in that file, in hexadecimal.
    pub(super) address: Option<String>,
    /// Whether it is inlined into the next one.
    pub(super) inlined: bool,
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

/// A frame, and what decides whether it is shown.
struct Candidate {
    frame: DumpedFrame,
    is_of_interpreter: bool,
    is_of_c_library: bool,
}

/// The frames of a stack that are shown, leaf first.
pub(super) fn shown(
    profile: &Profile,
    stack: &[LocationId],
    wanted: ShownFrames,
) -> Vec<DumpedFrame> {
    let locations = stack.iter().map(|id| profile.location(*id));
    let candidates: Vec<_> = locations
        .flat_map(|location| of_location(profile, location))
        .collect();
    let is_python = |it: &Candidate| it.frame.kind == DumpedKind::Python;
    let first = candidates.iter().position(is_python);
    let last = candidates.iter().rposition(is_python);
    let frames = candidates.into_iter().enumerate();
    let frames = frames.filter(|(index, candidate)| {
        if candidate.frame.kind == DumpedKind::Kernel {
            return wanted.kernel;
        }
        let (Some(first), Some(last)) = (first, last) else {
            return true;
        };
        wanted.internals || candidate.frame.kind != DumpedKind::Native || {
            let is_internal = if *index < first {
                candidate.is_of_interpreter && is_call(candidate.frame.function.as_deref())
            } else {
                let starts = *index > last && candidate.is_of_c_library;
                candidate.is_of_interpreter || starts
            };
            !is_internal
        }
    });
    frames.map(|(_, candidate)| candidate.frame).collect()
}

/// Whether a function above the last Python function says nothing about what that does.
fn is_call(function: Option<&str>) -> bool {
    function.is_none_or(|name| CALLS.iter().any(|beginning| name.starts_with(beginning)))
}

/// The frames of a location, the innermost first.
fn of_location(profile: &Profile, location: &Location) -> Vec<Candidate> {
    let code = location.code;
    let executable = code.map(|code| profile.executable(code.executable));
    let candidate = |frame| Candidate {
        frame,
        is_of_interpreter: executable.is_some_and(Executable::is_interpreter),
        is_of_c_library: executable.is_some_and(is_c_library),
    };
    let nameless = DumpedFrame {
        kind: match executable {
            Some(executable) if executable.is_kernel() => DumpedKind::Kernel,
            _ => DumpedKind::Native,
        },
        function: None,
        file: None,
        line: None,
        first_line: None,
        executable: executable.map(|executable| executable.name().into_owned()),
        address: code.map(|code| format!("{:#x}", code.address)),
        inlined: false,
    };
    if location.lines.is_empty() {
        return vec![candidate(nameless)];
    }
    let outermost = location.lines.len() - 1;
    let lines = location.lines.iter().enumerate();
    let frames = lines.map(|(index, line)| {
        let function = profile.function(line.function);
        candidate(DumpedFrame {
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
        })
    });
    frames
        .filter(|it| it.frame.function.as_deref() != Some(IDLE_MARKER))
        .collect()
}

fn is_c_library(executable: &Executable) -> bool {
    let name = executable.name();
    executable.kind == ExecutableKind::File
        && C_LIBRARIES
            .iter()
            .any(|beginning| name.starts_with(beginning))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::fixtures::example_profile;

    #[test]
    fn what_calls_a_function_says_nothing_and_the_function_does() {
        for name in [
            "_PyEval_EvalFrameDefault",
            "cfunction_call",
            "PyObject_Call",
        ] {
            assert!(is_call(Some(name)), "{name}");
        }
        assert!(is_call(None));
        for name in [
            "time_sleep",
            "list_sort",
            "take_gil",
            "PyThread_acquire_lock",
        ] {
            assert!(!is_call(Some(name)), "{name}");
        }
    }

    #[test]
    fn frames_are_hidden_as_they_are_wanted() {
        let profile = example_profile("");
        let kinds = |wanted: ShownFrames| {
            let stacks = profile.stacks.iter();
            let frames = stacks.flat_map(|stack| shown(&profile, stack, wanted));
            let (mut kernel, mut interpreter, mut python) = (0, 0, 0);
            for frame in frames {
                kernel += usize::from(frame.kind == DumpedKind::Kernel);
                python += usize::from(frame.kind == DumpedKind::Python);
                let executable = frame.executable.as_deref();
                interpreter += usize::from(executable == Some("python3.12"));
            }
            (kernel, interpreter, python)
        };
        let wanted = |kernel, internals| ShownFrames {
            kernel,
            internals,
            inlined: true,
        };
        let all = kinds(wanted(true, true));
        assert!(all.0 > 0 && all.1 > 0 && all.2 > 0, "{all:?}");
        assert_eq!(kinds(wanted(false, true)), (0, all.1, all.2));
        let (kernel, interpreter, python) = kinds(wanted(true, false));
        assert_eq!((kernel, python), (all.0, all.2));
        assert!(interpreter < all.1, "{interpreter} of {}", all.1);
    }
}
