//! The profile of a core dump: one sample of each of its threads.
//!
//! Nothing is sampled here, and no process is looked at: threads are read from the dump, and what is found goes the way
//! of all samples.

use std::time::{Duration, SystemTime};

use super::profiles::Profiles;
use crate::{
    aggregate::{Filter, ProfileTiming, Windows},
    binaries::{core_dump::CoreDump, elf::Source, executables::Executables},
    profile::{Periods, Process, Profile, kinds::wall},
    python::Interpreter,
    symbolize::NativeSymbolizer,
    threads::{CoreThreads, core_threads},
};

/// The threads of a core dump, and the profile with their stacks.
#[derive(Debug)]
pub struct CoreProfile {
    /// Of the kind *wall*; each thread has one sample, with the value 1.
    pub profile: Profile,
    /// The threads.
    pub threads: CoreThreads,
}

/// Reads the threads of a core dump of this process, with its interpreter if it had one; native frames are read and
/// symbolized where a symbolizer is given.
#[must_use]
pub fn read_core<S: Source>(
    core: &CoreDump<S>,
    process: Process,
    interpreter: Option<&Interpreter>,
    native: Option<NativeSymbolizer>,
    filter: &Filter,
) -> CoreProfile {
    let executables = Executables::default();
    // That of a core dump does not fail.
    let read = || executables.read_mappings(core).unwrap_or_default();
    let mapped = native.is_some().then(read);
    let native_code = mapped.as_ref().map(|it| (&executables, &*it.mappings));
    let (threads, records) = core_threads(core, interpreter, native_code);
    let mut profiles = Profiles::new(native, executables.clone());
    profiles.catalog.add_process(process);
    profiles.receive(&records);
    let mut windows = Windows::default();
    for stack in threads.threads.iter().filter_map(|thread| thread.stack) {
        windows.add_lock_sample(&stack.sample, stack.lock);
    }
    let about = ProfileTiming {
        kind: &wall::KIND,
        start: SystemTime::UNIX_EPOCH,
        duration: Duration::ZERO,
        periods: Periods::new(1, None),
    };
    let profile = profiles.profile_of(&windows.take(), &about, filter);
    CoreProfile { profile, threads }
}
