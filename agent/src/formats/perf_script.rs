//! Text as `perf script` prints it, which the scripts of `FlameGraph`, speedscope, the Firefox Profiler and `FlameScope` read:
//! one record of each sample, in the order of time, with its stack leaf first.
//!
//! ```text
//! worker            4242/4243      1.010000:   10000000 cpu:
//!                  0 fib (/srv/app/main.py:10)
//!             6b1f20 Py_RunMain (/usr/bin/python3.12)
//! ```
//!
//! Times are seconds from the start of sampling, and the number before the event is what the sample measured. A
//! function of Python has its file and line in the place of an object file. Readers split at white space, so
//! that there is none in names of threads and in paths.
//!
//! Source of the format: `tools/perf/builtin-script.c` of Linux, and its readers.

use std::io::{self, Write};

use super::{
    folded::NO_FRAMES,
    shown_frame::{FrameTable, ShownFrame, executable_path},
    thread_stacks::{ids, printable_name},
};
use crate::profile::{FrameKind, LocationId, Profile};

/// In the place of the object file of frames that are not in one.
const NO_OBJECT: &str = "[agent]";

/// Writes a profile.
pub(super) fn write(table: &FrameTable<'_>, out: &mut dyn Write) -> io::Result<()> {
    let profile = table.profile();
    let executables = profile.executables.iter();
    let executables: Vec<_> = executables
        .map(|executable| word(&executable_path(executable)))
        .collect();
    let frames: Vec<_> = table
        .frames()
        .map(|frame| frame_text(frame, &executables))
        .collect();
    let threads: Vec<_> = profile
        .threads
        .iter()
        .map(|thread| {
            let name = thread_word(&thread.name);
            let (pid, tid) = ids(profile, thread);
            format!("{name:<16} {pid:>5}/{tid:<5}")
        })
        .collect();
    for timed in profile.timed_samples() {
        let sample = profile.samples[timed.sample as usize];
        let (seconds, nanoseconds) = (timed.time_ns / 1_000_000_000, timed.time_ns % 1_000_000_000);
        writeln!(
            out,
            "{} {seconds:>5}.{nanoseconds:09}: {:>10} {}:",
            threads[sample.thread.0 as usize], timed.value, profile.kind.name
        )?;
        let stack = &profile.stacks[sample.stack.0 as usize];
        for id in stack {
            for frame in table.location(*id) {
                let address = address(profile, *id);
                writeln!(out, "\t{address:>16x} {}", frames[*frame as usize])?;
            }
        }
        if stack.is_empty() {
            writeln!(out, "\t{:>16x} {NO_FRAMES} ({NO_OBJECT})", 0)?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// The address of native code in its executable, else 0.
fn address(profile: &Profile, id: LocationId) -> u64 {
    let code = profile.location(id).code;
    code.map_or(0, |code| code.address)
}

/// The function and its file.
fn frame_text(frame: &ShownFrame<'_>, executables: &[String]) -> String {
    let object = match (frame.kind, frame.executable) {
        (FrameKind::Python, _) => match frame.line {
            Some(line) => word(&format!("{}:{line}", frame.file)),
            None => word(&frame.file),
        },
        (_, Some(id)) => executables[id.0 as usize].clone(),
        _ => NO_OBJECT.to_owned(),
    };
    format!("{} ({object})", frame.function.trim())
}

/// The name of a thread; after a `#` the line would be a comment.
fn thread_word(name: &str) -> String {
    let name = word(&printable_name(name));
    match name.strip_prefix('#') {
        Some(rest) => format!("_{rest}"),
        None => name,
    }
}

/// A text without white space.
fn word(text: &str) -> String {
    text.replace(char::is_whitespace, "_")
}

#[cfg(test)]
mod tests {
    use crate::{
        formats::{
            Format,
            golden::{assert_golden, written},
        },
        profile::fixtures::{example_profile, timed},
    };

    #[test]
    fn each_sample_is_a_record() {
        let profile = timed(example_profile("/srv/app/main.py"));
        let text = String::from_utf8(written(Format::PerfScript, &profile, false)).unwrap();
        let records: Vec<_> = text.split_terminator("\n\n").collect();
        assert_eq!(records.len(), profile.timed_samples().len());
        assert_golden("example.perf", &records[..24].join("\n\n"));
    }

    #[test]
    fn names_that_look_like_fields_are_one_word() {
        let mut profile = timed(example_profile("/srv/my app/main.py"));
        profile.threads[0].name = "Thread 1".to_owned();
        let text = String::from_utf8(written(Format::PerfScript, &profile, false)).unwrap();
        assert!(text.contains("Thread_1 "), "{text}");
        assert!(text.contains("\n__naïve;_线程 "), "{text}");
        assert!(text.contains(" (/srv/my_app/main.py:10)\n"), "{text}");
    }
}
