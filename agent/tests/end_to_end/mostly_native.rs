//! Threads of native libraries that enter Python now and then, with a new thread state each time.

use std::{fs, path::Path};

use tempfile::TempDir;

use super::{
    capture::Capture,
    folded::{Folded, names},
    machine,
    native::compile,
    target::Target,
};

/// The Python function that the threads call.
const CALLED: &str = "called_back";

/// Threads that take turns: the state of one has the address that another's had before.
const THREADS: u32 = 3;

/// Required samples: some hundreds are in Python.
const LEAST_SAMPLES: u64 = 5_000;

/// Least share of the Python time that the profile has, in per cent of what the threads' own clocks
/// say. That includes entering and leaving.
const LEAST_PERCENT: f64 = 85.0;

/// The same at most: the profile is not of exactly the time between two readings of the clocks.
const MOST_PERCENT: f64 = 115.0;

#[test]
fn python_time_of_threads_that_are_mostly_native_is_found() {
    let _machine = machine::alone();
    let directory = TempDir::new().unwrap();
    let library = compile(&directory, "mostly_native", "-O2 -shared -fPIC -pthread");
    machine::for_each_representative(|interpreter| {
        let clocks = directory.path().join(&*interpreter.name);
        let arguments = [
            library.to_str().unwrap().to_owned(),
            clocks.to_str().unwrap().to_owned(),
            THREADS.to_string(),
        ];
        let target = Target::start_with(interpreter, "mostly_native", &arguments);
        let before = CpuTime::read(&clocks);
        let is_enough = |folded: &Folded| folded.total() >= LEAST_SAMPLES;
        let folded = Capture::folded_until(target.pid(), "-d 2.8 -r 1999", is_enough);
        let expected = CpuTime::read(&clocks).since(before).python_share();

        let is_python = |stack: &[_]| names(stack).contains(&CALLED);
        let (python, all) = (folded.count(is_python), folded.total());
        let found = share(python, all);
        let percent = 100.0 * found / expected;
        println!(
            "{}: {python} of {all} samples in Python, {:.2} %; {:.2} % by the clocks: {percent:.0} % found",
            interpreter.name,
            100.0 * found,
            100.0 * expected
        );
        assert!((LEAST_PERCENT..MOST_PERCENT).contains(&percent));
    });
}

/// CPU time by the clocks of the threads, in nanoseconds.
#[derive(Clone, Copy)]
struct CpuTime {
    python: u64,
    all: u64,
}

impl CpuTime {
    fn read(path: &Path) -> Self {
        let bytes = fs::read(path).unwrap();
        let (words, _) = bytes.as_chunks();
        let [python, all] = [words[0], words[1]].map(u64::from_ne_bytes);
        Self { python, all }
    }

    fn since(self, before: Self) -> Self {
        Self {
            python: self.python - before.python,
            all: self.all - before.all,
        }
    }

    fn python_share(self) -> f64 {
        share(self.python, self.all)
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "less than a millionth of the result"
)]
fn share(part: u64, all: u64) -> f64 {
    part as f64 / all as f64
}
