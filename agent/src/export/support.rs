//! What tests of exporters share.

use std::{collections::BTreeMap, fs::File, io::Write as _, path::Path, sync::Arc};

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use tempfile::TempDir;

use super::batch::{ProfileBatch, SERVICE_NAME};
use crate::profile::fixtures::example_profile;

/// A report of a service.
pub(super) fn report(service: &str, pprof: &[u8]) -> ProfileBatch {
    ProfileBatch {
        labels: BTreeMap::from([(SERVICE_NAME.to_owned(), service.to_owned())]).into(),
        pprof: pprof.into(),
        profile: Arc::new(example_profile("/srv/app/main.py")),
    }
}

/// A file system of its own that is soon full.
pub(super) struct SmallDisk(TempDir);

impl SmallDisk {
    /// Mounts one, which only root can.
    pub(super) fn mount(bytes: u64) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let options = std::ffi::CString::new(format!("size={bytes}")).unwrap();
        match mount(
            "tmpfs",
            folder.path(),
            "tmpfs",
            MountFlags::empty(),
            options.as_c_str(),
        ) {
            Ok(()) => Some(Self(folder)),
            Err(error) => {
                assert!(!rustix::process::geteuid().is_root(), "{error}");
                None
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Takes all the room that is left.
    pub(super) fn fill(&self) {
        let number = std::fs::read_dir(self.path()).unwrap().count();
        let mut file = File::create(self.path().join(format!("filler {number}"))).unwrap();
        while file.write_all(&[0; 4_096]).is_ok() {}
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = unmount(self.path(), UnmountFlags::DETACH);
    }
}
