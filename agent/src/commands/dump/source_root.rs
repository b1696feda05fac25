//! Where the source files of a process are, and which of them may be shown.

use std::{path::Path, sync::Arc, time::Duration};

use crate::{
    binaries::core_dump::CoreDump,
    process::{Process, RegularFile},
};

/// How exactly it is known when a process was started.
const START_PRECISION: Duration = Duration::from_millis(100);

/// The files that a process had as its source.
pub(super) trait SourceRoot {
    /// Opens the file at a path in a code object.
    fn open(&self, path: &Path) -> Option<RegularFile>;

    /// Whether the user of the process may read it: the process may name any file as its source.
    fn may_read(&self, file: &RegularFile) -> bool;

    /// Whether it may have changed since the process has read it.
    fn has_changed(&self, file: &RegularFile) -> bool;
}

/// Files are opened in the root directory of the process. A path that is not absolute, as that of a script in CPython
/// until 3.8, is one from its working directory.
impl SourceRoot for Process {
    fn open(&self, path: &Path) -> Option<RegularFile> {
        if path.is_absolute() {
            return self.open_in_root(path).ok();
        }
        self.open_in_root(&self.working_directory().ok()?.join(path))
            .ok()
    }

    fn may_read(&self, file: &RegularFile) -> bool {
        self.user().is_some_and(|user| file.is_readable_by(user))
    }

    fn has_changed(&self, file: &RegularFile) -> bool {
        let (Ok(started), Ok(identity)) = (self.started(), file.identity()) else {
            return false;
        };
        identity.is_changed_after(started + START_PRECISION)
    }
}

/// A core dump does not say what the working directory was. Its owner is the user of the process, or who has written it.
impl SourceRoot for CoreDump {
    fn open(&self, path: &Path) -> Option<RegularFile> {
        let is_absolute = path.is_absolute();
        is_absolute.then(|| self.open_file(path).ok()).flatten()
    }

    fn may_read(&self, file: &RegularFile) -> bool {
        let owner = self.owner().and_then(|owner| u32::try_from(owner).ok());
        owner.is_some_and(|owner| file.is_readable_by(owner))
    }

    fn has_changed(&self, file: &RegularFile) -> bool {
        self.is_older_than(file)
    }
}

impl<R: SourceRoot> SourceRoot for Arc<R> {
    fn open(&self, path: &Path) -> Option<RegularFile> {
        R::open(self, path)
    }

    fn may_read(&self, file: &RegularFile) -> bool {
        R::may_read(self, file)
    }

    fn has_changed(&self, file: &RegularFile) -> bool {
        R::has_changed(self, file)
    }
}
