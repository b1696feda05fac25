//! Processes with so many threads that it takes long to find one.

use super::{capture::Capture, machine, target::Target};

/// Versions that differ in the layout of their list of threads.
const INTERPRETERS: [&str; 2] = ["3.7", "3.12"];

/// Threads that wait, between two that are busy.
const WAITING: usize = 2_000;

#[test]
fn the_busy_threads_among_many_are_found() {
    let _machine = machine::alone();
    machine::for_each_named(&INTERPRETERS, |interpreter| {
        let target = Target::start_with(interpreter, "many_threads", &[WAITING.to_string()]);
        let threads = target.threads();
        assert_eq!(threads.len(), 2);
        let profile = Capture::pprof_until(target.pid(), "-d 2 -r 499", threads.len());
        assert_eq!(profile.threads(), threads);
        println!("{}: {} samples", interpreter.name, profile.total());
    });
}
