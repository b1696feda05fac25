//! What puts frames into words.

use std::{num::NonZeroU32, path::PathBuf};

use agent_common::record::{Frame, NativeFrame, NativeKind};

use crate::profile::{Executable, ExecutableKind, Function, UnsymbolizedReason};

/// Puts frames into words. Equal frames are asked for once, whichever process they are of.
pub trait SymbolizeFrames {
    /// A Python frame; [`None`] if its function could not be told.
    fn python(&mut self, frame: &Frame) -> Option<SymbolizedPythonFrame>;

    /// A native or kernel frame, which is never [`NativeKind::PYTHON`]; `tgid` is a process in
    /// which it was seen.
    fn native(&mut self, tgid: u32, frame: &NativeFrame) -> SymbolizedNativeFrame;
}

/// A Python frame in words.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SymbolizedPythonFrame {
    /// The function.
    pub function: Function,
    /// The line; [`None`] where the interpreter has none either.
    pub line: Option<NonZeroU32>,
}

/// A native or a kernel frame in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SymbolizedNativeFrame {
    /// What its code lies in.
    pub executable: Executable,
    /// Where, in the executable's own addresses.
    pub address: u64,
    /// The function and those that the compiler had put into it there, the innermost first; or why
    /// it could not be told.
    pub functions: Result<Vec<NativeFunction>, UnsymbolizedReason>,
}

/// A function of native or kernel code, and the place in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NativeFunction {
    /// Its name, demangled.
    pub name: String,
    /// File as the compiler named it, where that is known.
    pub file: Option<String>,
    /// The line in that file, where it is known.
    pub line: Option<NonZeroU32>,
}

/// A native or kernel frame of which nothing is known but what the kernel half told, and why.
#[must_use]
pub fn unsymbolized(frame: &NativeFrame, reason: UnsymbolizedReason) -> SymbolizedNativeFrame {
    let (kind, path) = match frame.kind {
        NativeKind::KERNEL => (ExecutableKind::Kernel, PathBuf::new()),
        NativeKind::FILE => (ExecutableKind::File, format!("[file {}]", frame.of).into()),
        _ => (ExecutableKind::Anonymous, PathBuf::new()),
    };
    SymbolizedNativeFrame {
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
