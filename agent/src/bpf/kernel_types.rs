//! The types of the kernel, for programs that are attached to its functions.

use std::{
    io,
    thread::{self, JoinHandle},
};

use aya::{Btf, BtfError};

use super::error::Error;

/// The types of the kernel, which are being read: that takes as long as the verification of a program, and is done
/// meanwhile.
pub(super) struct KernelTypes(JoinHandle<Result<Btf, BtfError>>);

impl KernelTypes {
    /// Starts to read them.
    pub(super) fn read() -> Self {
        Self(thread::spawn(Btf::from_sys_fs))
    }

    /// Waits for them.
    pub(super) fn finish(self) -> Result<Btf, Error> {
        let read = self.0.join().unwrap_or_else(|_| Btf::from_sys_fs());
        read.map_err(|error| Error::System {
            call: "read the kernel's BTF",
            source: io::Error::other(error),
        })
    }
}
