//! Paths of the host, which in golden tests lead to the files of a recorded machine.

use std::path::PathBuf;

#[cfg(feature = "testing")]
pub use recorded::{RECORDED_VDSO, enter_machine, present_machine, recorded_vdso};

/// A path of the host: itself, or below the root of the recorded machine.
pub fn on_machine(path: impl Into<PathBuf>) -> PathBuf {
    let path = path.into();
    #[cfg(feature = "testing")]
    if let Some(root) = recorded::root() {
        return root.join(path.strip_prefix("/").unwrap_or(&path));
    }
    path
}

#[cfg(feature = "testing")]
mod recorded {
    use std::{
        cell::RefCell,
        fs, io,
        path::{Path, PathBuf},
    };

    /// Path of the vDSO on a recorded machine, below its root.
    pub const RECORDED_VDSO: &str = "/vdso";

    thread_local! {
        static ROOT: RefCell<Option<PathBuf>> = const { RefCell::new(None) };
    }

    /// Makes this thread read the files of the host below `root` from now on.
    pub fn enter_machine(root: &Path) {
        ROOT.with_borrow_mut(|current| *current = Some(root.to_owned()));
    }

    /// The root of the recorded machine of this thread, for threads that work for it.
    pub fn present_machine() -> Option<PathBuf> {
        root()
    }

    /// The root of the recorded machine.
    pub(super) fn root() -> Option<PathBuf> {
        ROOT.with_borrow(Clone::clone)
    }

    /// The vDSO of the recorded machine.
    pub fn recorded_vdso() -> Option<io::Result<Vec<u8>>> {
        Some(fs::read(
            root()?.join(RECORDED_VDSO.trim_start_matches('/')),
        ))
    }
}
