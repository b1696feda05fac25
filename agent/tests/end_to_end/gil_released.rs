//! Threads that run without the global lock.

use super::{capture::Capture, machine, target::Target};

#[test]
fn stacks_are_complete_when_the_lock_is_released() {
    let _machine = machine::shared();
    machine::for_each_representative(|interpreter| {
        let target = Target::start(interpreter, "gil_released");
        let threads = target.threads();
        // In old versions, threads that release the lock wait long to reacquire it.
        let profile = Capture::pprof_until(target.pid(), "-d 1.5 -r 499", threads.len());
        assert_eq!(profile.threads(), threads);
        for sample in profile.samples {
            println!(
                "{}: {} samples of {}",
                interpreter.name, sample.count, sample.thread.name
            );
        }
    });
}
