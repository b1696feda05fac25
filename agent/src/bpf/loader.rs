//! aya's loader, made without reading all of the kernel's BTF.
//!
//! `EbpfLoader::new` (aya 0.14) reads and parses the types of the whole kernel, tens of milliseconds
//! and of megabytes at each start, although the programs need none of them: the offsets that they need
//! are constants that [`btf`](super::btf) reads. aya goes on without BTF where it cannot be read, so
//! the loader is made on a thread that may not open files. Where the kernel has no Landlock (before
//! Linux 5.13), it costs what it costs, and nothing else changes.

use std::thread;

use aya::EbpfLoader;
use landlock::{AccessFs, Ruleset, RulesetAttr as _, RulesetError};

/// A loader without BTF.
pub(super) fn without_btf() -> EbpfLoader<'static> {
    let maker = thread::spawn(|| {
        // Without Landlock the loader reads BTF, and ignores it.
        let _ = forbid_reading();
        EbpfLoader::new()
    });
    let mut loader = maker.join().unwrap_or_else(|_| EbpfLoader::new());
    loader.btf(None);
    loader
}

/// Forbids this thread to open files for reading, until it ends.
fn forbid_reading() -> Result<(), RulesetError> {
    let rules = Ruleset::default().handle_access(AccessFs::ReadFile)?;
    rules.create()?.restrict_self()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::forbid_reading;
    use std::{fs::File, thread};

    #[test]
    fn only_its_own_thread_may_not_read() {
        let open = || File::open("/proc/self/maps").is_ok();
        let restricted = move || forbid_reading().is_ok() && open();
        assert!(!thread::spawn(restricted).join().unwrap());
        assert!(open());
    }
}
