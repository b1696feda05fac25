//! Threads that work without the global lock.

use super::{capture::Capture, machine, target::Target};

#[test]
fn stacks_are_whole_when_the_lock_is_released() {
    let _machine = machine::alone();
    machine::for_each_interpreter(|interpreter| {
        let target = Target::start(interpreter, "gil_released");
        let profile = Capture::pprof(target.pid(), "-d 3 -r 499");
        assert_eq!(profile.threads(), target.threads());
        for sample in profile.samples {
            println!(
                "{}: {} samples of {}",
                machine::name(interpreter),
                sample.count,
                sample.thread.name
            );
        }
    });
}
