//! Text of frames in folded stacks and flame graphs, as `flamegraph.pl` and `py-spy` have it.

use std::{borrow::Cow, num::NonZeroU32};

use super::function_names::ShownNames;
use crate::{
    profile::{
        Executable, ExecutableKind, FrameKind, Function, Location, Process, Profile, Thread,
    },
    text::printable,
};

/// Text of the frames of a location, the innermost first.
///
/// A Python frame is `name (file:line)`, as in `py-spy`. A native frame has its executable instead of
/// file and line, `name (libz.so.1)`, because lines of compiled functions are many and seldom known. A
/// kernel frame is a name. An unsymbolized frame is its executable and address, `libz.so.1+0x2b0c`, or
/// only `[jit]`.
///
/// The suffixes `_[k]` for the kernel, `_[j]` for JIT code and `_[i]` for an inlined function are those
/// of `stackcollapse-perf.pl`: flame graph tools choose colours by them and do not show them.
#[must_use]
pub fn location_frames(
    profile: &Profile,
    names: &ShownNames<'_>,
    location: &Location,
) -> Vec<String> {
    let code = location.code;
    let executable = code.map(|code| profile.executable(code.executable));
    let ending = match executable.map(|executable| executable.kind) {
        Some(ExecutableKind::Kernel | ExecutableKind::KernelModule) => "_[k]",
        Some(ExecutableKind::Anonymous) => "_[j]",
        Some(ExecutableKind::File | ExecutableKind::Vdso) | None => "",
    };
    let outermost = location.lines.len().saturating_sub(1);
    let lines = location.lines.iter().enumerate();
    let mut frames: Vec<_> = lines
        .map(|(index, line)| {
            let is_inlined = index != outermost && ending.is_empty();
            let ending = if is_inlined { "_[i]" } else { ending };
            let name = folded(names.get(line.function));
            let function = profile.function(line.function);
            format!("{}{ending}", frame(name, function, line.line, executable))
        })
        .collect();
    if frames.is_empty() {
        let name = executable.map_or(Cow::Borrowed("?"), Executable::name);
        let address = code.map_or(0, |code| code.address);
        frames.push(format!("{}+{address:#x}{ending}", folded(&name)));
    }
    frames
}

/// Text of a function with its file or executable.
fn frame(
    name: String,
    function: &Function,
    line: Option<NonZeroU32>,
    executable: Option<&Executable>,
) -> String {
    match function.kind {
        // Ends with a parenthesis, so that it cannot end like a count.
        FrameKind::Python => {
            let file = folded(&function.file);
            match line {
                Some(line) => format!("{name} ({file}:{line})"),
                None => format!("{name} ({file})"),
            }
        }
        FrameKind::Native => {
            let executable = executable.map_or(Cow::Borrowed("?"), Executable::name);
            let executable = folded(&executable);
            if name == executable {
                name
            } else {
                format!("{name} ({executable})")
            }
        }
        FrameKind::Kernel | FrameKind::Marker => name,
    }
}

/// Text of a thread as a frame.
#[must_use]
pub fn thread_frame(thread: &Thread) -> String {
    format!("{} ({})", folded(&thread.name), thread.tid)
}

/// Text of a process as a frame.
#[must_use]
pub fn process_frame(process: &Process) -> String {
    match process.pid {
        0 => folded(&process.name),
        pid => format!("{} ({pid})", folded(&process.name)),
    }
}

/// `text` as a frame of a folded stack: `;`, which separates frames, becomes `:` as in
/// `stackcollapse-perf.pl`; a leading `#`, which starts a comment, is escaped; never empty.
fn folded(text: &str) -> String {
    let text = printable(text.trim()).replace(';', ":");
    match text.chars().next() {
        None => "?".to_owned(),
        Some('#') => format!("\\{text}"),
        Some(_) => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_cannot_break_a_folded_line() {
        assert_eq!(folded("a;b"), "a:b");
        assert_eq!(folded(" a b  "), "a b");
        assert_eq!(folded("\u{a0}a\n"), "a");
        assert_eq!(folded("# a"), r"\# a");
        assert_eq!(folded("  "), "?");
    }
}
