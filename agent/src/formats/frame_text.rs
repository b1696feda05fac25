//! Frames as names, in the formats of `flamegraph.pl` and `py-spy`.

use std::{borrow::Cow, num::NonZeroU32};

use crate::{
    profile::{
        Executable, ExecutableKind, FrameKind, Function, Location, Process, Profile, Thread,
    },
    text::printable,
};

/// The frames of a location, the innermost first, fit to be frames of a folded stack.
///
/// A Python frame is what `py-spy` makes of it: `name (file:line)`. A native one has its executable
/// in the place of file and line, `name (libz.so.1)`: that tells where it comes from, and the lines
/// of a compiled function are many and seldom known. A kernel frame is a name. What the function
/// could not be told of is the executable and the address in it, `libz.so.1+0x2b0c`.
///
/// The endings `_[k]` for the kernel, `_[j]` for code made at run time and `_[i]` for an inlined
/// function are those of `stackcollapse-perf.pl`: what draws flame graphs colours by them and does
/// not show them.
#[must_use]
pub fn location_frames(profile: &Profile, location: &Location) -> Vec<String> {
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
            let function = profile.function(line.function);
            format!("{}{ending}", frame(function, line.line, executable))
        })
        .collect();
    if frames.is_empty() {
        let name = executable.map_or(Cow::Borrowed("?"), Executable::name);
        let address = code.map_or(0, |code| code.address);
        frames.push(format!("{}+{address:#x}{ending}", folded(&name)));
    }
    frames
}

/// A function with what tells where it comes from.
fn frame(function: &Function, line: Option<NonZeroU32>, executable: Option<&Executable>) -> String {
    let name = folded(&function.name);
    match function.kind {
        // With the parentheses a frame cannot end in what reads as a count.
        FrameKind::Python => {
            let file = folded(&function.file);
            match line {
                Some(line) => format!("{name} ({file}:{line})"),
                None => format!("{name} ({file})"),
            }
        }
        FrameKind::Native => {
            let executable = executable.map_or(Cow::Borrowed("?"), Executable::name);
            format!("{name} ({})", folded(&executable))
        }
        FrameKind::Kernel | FrameKind::Marker => name,
    }
}

/// A thread as a frame of a folded stack.
#[must_use]
pub fn thread_frame(thread: &Thread) -> String {
    format!("{} ({})", folded(&thread.name), thread.tid)
}

/// A process as a frame of a folded stack.
#[must_use]
pub fn process_frame(process: &Process) -> String {
    match process.pid {
        0 => folded(&process.name),
        pid => format!("{} ({pid})", folded(&process.name)),
    }
}

/// `text` as a part of a folded stack: without `;`, which parts frames and becomes `:` as in
/// `stackcollapse-perf.pl`, without `#` in front, which begins a comment, and never empty.
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
