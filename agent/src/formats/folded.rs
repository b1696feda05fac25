//! Folded stacks: `root;…;leaf count`, one line per distinct stack.
//!
//! With several processes the root of a stack is the process. Python frames contain a colon and kernel
//! frames have a suffix, so `flamegraph.pl --color=js` draws Python, native code, C++ and the kernel in
//! different colours.
//!
//! Invariants: lines are sorted frame by frame, so that equal callers are adjacent; a frame contains no
//! `;` and no line break.

use std::{
    collections::BTreeMap,
    io::{self, Write},
};

use super::{frame_text, options::EncodeOptions};
use crate::profile::Profile;

/// Stands for a stack without frames.
pub(super) const NO_FRAMES: &str = "[no frames]";

/// Texts of the frames of a profile.
pub(super) struct FrameTexts {
    /// By [`LocationId`](crate::profile::LocationId), each with the innermost frame first.
    pub(super) locations: Vec<Vec<String>>,
    /// By [`ProcessIndex`](crate::profile::ProcessIndex); [`None`] with a single process.
    pub(super) processes: Option<Vec<String>>,
    /// By [`ThreadIndex`](crate::profile::ThreadIndex); [`None`] when threads are not shown.
    pub(super) threads: Option<Vec<String>>,
}

impl FrameTexts {
    /// Texts of all frames of a profile.
    pub(super) fn new(profile: &Profile, options: EncodeOptions) -> Self {
        let names = options.function_names.of(profile);
        let locations = profile.locations.iter();
        Self {
            locations: locations
                .map(|location| frame_text::location_frames(profile, &names, location))
                .collect(),
            processes: (profile.processes.len() > 1).then(|| {
                profile
                    .processes
                    .iter()
                    .map(frame_text::process_frame)
                    .collect()
            }),
            threads: options.threads.then(|| {
                profile
                    .threads
                    .iter()
                    .map(frame_text::thread_frame)
                    .collect()
            }),
        }
    }

    /// The lines of a profile: one per distinct stack, sorted, without newline.
    pub(super) fn lines(&self, profile: &Profile) -> Vec<String> {
        let mut counts = BTreeMap::<Vec<&str>, u64>::new();
        for (sample, plotted) in profile.samples.iter().zip(profile.plotted()) {
            let mut stack = Vec::new();
            if let Some(processes) = &self.processes {
                stack.push(processes[profile.process_of(sample).0 as usize].as_str());
            }
            if let Some(threads) = &self.threads {
                stack.push(threads[sample.thread.0 as usize].as_str());
            }
            let leaf_first = &profile.stacks[sample.stack.0 as usize];
            let root_first = leaf_first.iter().rev();
            let frames = root_first.flat_map(|id| self.locations[id.0 as usize].iter().rev());
            stack.extend(frames.map(String::as_str));
            if leaf_first.is_empty() {
                stack.push(NO_FRAMES);
            }
            *counts.entry(stack).or_default() += plotted;
        }
        counts
            .into_iter()
            .map(|(stack, count)| format!("{} {count}", stack.join(";")))
            .collect()
    }
}

/// Writes the folded stacks of a profile.
pub(super) fn write(
    profile: &Profile,
    options: EncodeOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    for line in FrameTexts::new(profile, options).lines(profile) {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        formats::{function_names::FunctionNames, golden::assert_golden},
        profile::{
            Kind, Sample, ValueSource,
            fixtures::{example_processes, example_profile, of_kind},
            kinds::page_faults,
        },
    };

    fn folded(profile: &Profile, threads: bool) -> String {
        let mut bytes = Vec::new();
        let options = EncodeOptions {
            threads,
            ..EncodeOptions::default()
        };
        write(profile, options, &mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn stacks_are_folded() {
        let profile = example_profile("/srv/app/main.py");
        assert_golden("example.folded", &folded(&profile, false));
        assert_golden("example.threads.folded", &folded(&profile, true));
    }

    #[test]
    fn functions_have_their_module_on_request() {
        let profile = example_profile("/srv/app/main.py");
        let options = EncodeOptions {
            function_names: FunctionNames::Module,
            ..EncodeOptions::default()
        };
        let mut bytes = Vec::new();
        write(&profile, options, &mut bytes).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        for frame in [
            "main.<module> (/srv/app/main.py:22);main.main (/srv/app/main.py:4);main.fib (",
            "req.api.get (/srv/venv/lib/python3.12/site-packages/req/api.py:73)",
            "json.loads (/usr/lib/python3.12/json/__init__.py:346)",
            "importlib._bootstrap._find_and_load (<frozen importlib._bootstrap>:1360)",
            "Py_RunMain (python3.12)",
        ] {
            assert!(text.contains(frame), "{frame} in {text}");
        }
    }

    #[test]
    fn the_root_is_the_process_with_several_processes() {
        let profile = example_processes("/srv/app/main.py");
        assert_golden("processes.folded", &folded(&profile, false));
        assert_golden("processes.threads.folded", &folded(&profile, true));
    }

    #[test]
    fn every_line_is_a_stack_and_a_count() {
        let profile = example_profile("/srv/app/main.py");
        for threads in [false, true] {
            let text = folded(&profile, threads);
            let mut total = 0;
            for line in text.lines() {
                let (stack, count) = line.rsplit_once(' ').unwrap();
                total += count.parse::<u64>().unwrap();
                assert!(stack.split(';').all(|frame| !frame.is_empty()), "{line}");
                let depth = profile
                    .stacks
                    .iter()
                    .map(|stack| stack.len())
                    .max()
                    .unwrap();
                assert!(
                    stack.split(';').count() <= depth + usize::from(threads),
                    "{line}"
                );
            }
            assert_eq!(total, profile.total());
        }
    }

    #[test]
    fn a_stack_of_several_threads_is_one_line() {
        let profile = example_profile("/srv/app/main.py");
        let text = folded(&profile, false);
        let loads = text.lines().filter(|line| line.contains("loads"));
        assert_eq!(loads.count(), 1);
        assert!(text.contains("__init__.py:346) 150\n"), "{text}");
    }

    #[test]
    fn events_are_counted_as_the_samples_stand_for_them() {
        let profile = of_kind(example_profile("/srv/app/main.py"), &page_faults::KIND);
        let text = folded(&profile, false);
        assert!(text.contains("__init__.py:346) 15150\n"), "{text}");
    }

    #[test]
    fn numbers_are_samples_of_cpu_time_and_values_of_all_others() {
        for kind in Kind::ALL {
            let number = if kind.is_cpu() {
                ValueSource::Count
            } else {
                ValueSource::Value
            };
            assert_eq!(kind.plotted, number, "{}", kind.name);
        }
    }

    #[test]
    fn a_stack_without_frames_is_counted() {
        let mut profile = example_profile("/srv/app/main.py");
        profile.stacks[0] = Box::from([]);
        profile.samples = vec![Sample {
            count: 7,
            ..profile.samples[0]
        }];
        assert_eq!(folded(&profile, false), "[no frames] 7\n");
    }

    #[test]
    fn equal_callers_are_adjacent() {
        // A space sorts before a semicolon: sorted as text, the second would come between.
        let mut profile = example_profile("/srv/app/main.py");
        profile.functions[9].name = "[a]".to_owned();
        profile.functions[10].name = "[a] b".to_owned();
        let (a, a_b) = (profile.stacks[6][2], profile.stacks[8][0]);
        profile.stacks = vec![Box::from([a]), Box::from([a_b, a]), Box::from([a_b])];
        let count = |stack| Sample {
            stack: crate::profile::StackId(stack),
            ..profile.samples[0]
        };
        profile.samples = vec![count(0), count(2), count(1)];
        assert_eq!(
            folded(&profile, false),
            "[a] 120\n[a];[a] b 120\n[a] b 120\n"
        );
    }
}
