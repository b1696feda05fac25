//! Shared by the tests of exporters.

use std::{
    array,
    collections::BTreeMap,
    fs::File,
    io::Write as _,
    path::Path,
    sync::{Arc, OnceLock},
};

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use tempfile::TempDir;

use super::batch::ProfileBatch;
use crate::profile::{SERVICE_NAME_LABEL, TypeNaming, fixtures::example_profile};

/// A batch of a service, with these bytes as its pprof.
pub fn batch(service: &str, pprof: &[u8]) -> ProfileBatch {
    let pprof: Arc<[u8]> = pprof.into();
    ProfileBatch {
        labels: BTreeMap::from([(SERVICE_NAME_LABEL.to_owned(), service.to_owned())]).into(),
        profile: Arc::new(example_profile("/srv/app/main.py")),
        thread_labels: false,
        // The same, however functions are named; all kinds of these batches have the names of pprof.
        pprofs: Arc::new(array::from_fn(|_| {
            let mut pprofs = [const { OnceLock::new() }; TypeNaming::COUNT];
            pprofs[TypeNaming::Pprof as usize] = OnceLock::from(Arc::clone(&pprof));
            pprofs
        })),
    }
}

/// A small file system, mounted for a test.
pub(super) struct SmallDisk(TempDir);

impl SmallDisk {
    /// Mounts one, as root.
    pub(super) fn mount(bytes: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options = std::ffi::CString::new(format!("size={bytes}")).unwrap();
        let flags = MountFlags::empty();
        let mounted = mount("tmpfs", folder.path(), "tmpfs", flags, options.as_c_str());
        mounted.expect("a file system is mounted by root only: run the tests as root");
        Self(folder)
    }

    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Uses all free space.
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
