//! The file descriptors of another process.

use std::os::fd::OwnedFd;

use rustix::{
    fs::{self, Mode, OFlags},
    io::Errno,
};

/// The file descriptors of a process: an open directory `/proc/PID/fd`, which stays that of this
/// process.
#[derive(Debug)]
pub struct Descriptors(OwnedFd);

impl Descriptors {
    /// Opens the directory `fd` of `process`, an open directory `/proc/PID`.
    pub(super) fn open(process: &OwnedFd) -> Result<Self, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        fs::openat(process, "fd", flags, Mode::empty()).map(Self)
    }

    /// The text of the link to what a descriptor refers to, as much of it as there is room for in `text`;
    /// [`None`] when it is closed, the process is gone or access is denied.
    ///
    /// This does not touch the file.
    pub fn link<'a>(&self, descriptor: i32, text: &'a mut [u8]) -> Option<&'a [u8]> {
        let name = descriptor.to_string();
        let bytes = fs::readlinkat_raw(&self.0, name, &mut *text).ok()?;
        text.get(..bytes)
    }
}

#[cfg(test)]
mod tests {
    use crate::process::Process;
    use std::{fs::File, os::fd::AsRawFd as _, process::id};

    #[test]
    fn a_link_is_read_as_far_as_there_is_room() {
        let descriptors = Process::open(id()).unwrap().descriptors().unwrap();
        let file = File::open("/dev/null").unwrap();
        let link = |descriptor, room: usize| {
            let mut text = vec![0; room];
            descriptors.link(descriptor, &mut text).map(<[u8]>::to_vec)
        };
        let expected = |text: &str| Some(text.as_bytes().to_vec());
        assert_eq!(link(file.as_raw_fd(), 64), expected("/dev/null"));
        assert_eq!(link(file.as_raw_fd(), 4), expected("/dev"));
        assert_eq!(link(-1, 64), None);
        assert_eq!(link(i32::MAX, 64), None);
    }
}
