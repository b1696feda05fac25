//! What puts frames into words.

use std::path::PathBuf;

use agent_common::record::{Frame, NativeFrame, NativeKind};

use crate::profile::{Executable, ExecutableKind, NativeResolved, Resolved, Unnamed};

/// Puts frames into words. Equal frames are asked for once, whichever process they are of.
pub trait Resolve {
    /// A Python frame; [`None`] if its function could not be told.
    fn python(&mut self, frame: &Frame) -> Option<Resolved>;

    /// A native or kernel frame, which is never [`NativeKind::PYTHON`]; `tgid` is a process in
    /// which it was seen.
    fn native(&mut self, tgid: u32, frame: &NativeFrame) -> NativeResolved;
}

/// A native or kernel frame of which nothing is known but what the kernel half told, and why.
#[must_use]
pub fn unknown(frame: &NativeFrame, reason: Unnamed) -> NativeResolved {
    let (kind, path) = match frame.kind {
        NativeKind::KERNEL => (ExecutableKind::Kernel, PathBuf::new()),
        NativeKind::FILE => (
            ExecutableKind::File,
            format!("[file {}]", frame.id_or_count).into(),
        ),
        _ => (ExecutableKind::Anonymous, PathBuf::new()),
    };
    NativeResolved {
        executable: Executable {
            path,
            build_id: None,
            kind,
            start: 0,
            limit: 0,
            file_offset: 0,
        },
        address: frame.address,
        functions: Err(reason),
    }
}
