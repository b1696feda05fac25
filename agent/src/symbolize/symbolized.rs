//! Symbolized frames, and the trait of what symbolizes them.

use std::{num::NonZeroU32, path::PathBuf, sync::Arc};

use agent_common::record::{Frame, NativeFrame, NativeKind};

use crate::profile::{Executable, ExecutableKind, Function, UnsymbolizedReason};

/// Symbolizes frames. Equal frames are symbolized once per profile, in whichever process they are.
pub trait SymbolizeFrames {
    /// Called once for each profile, before all other calls, with the native and kernel frames that
    /// it has, each once and with the id of a process that has it: addresses of a file are looked
    /// up faster together.
    fn prepare(&mut self, frames: &[(u32, NativeFrame)]) {
        let _ = frames;
    }

    /// Symbolizes a Python frame; [`None`] if its code object is not known.
    fn python(&mut self, frame: &Frame) -> Option<SymbolizedPythonFrame>;

    /// Symbolizes a native or kernel frame, which is never [`NativeKind::PYTHON`]; `tgid` is one of
    /// the processes that have it.
    fn native(&mut self, tgid: u32, frame: &NativeFrame) -> SymbolizedNativeFrame;
}

/// A symbolized Python frame.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SymbolizedPythonFrame {
    /// Its function.
    pub function: Function,
    /// Line number; [`None`] where the code object has none for the instruction.
    pub line: Option<NonZeroU32>,
}

/// A symbolized native or kernel frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SymbolizedNativeFrame {
    /// The executable that contains it: the same for many frames.
    pub executable: Arc<Executable>,
    /// Address in the executable's own address space.
    pub address: u64,
    /// The functions, inlined ones first and the innermost of them at the start; or why there are
    /// none.
    pub functions: Result<Arc<[NativeFunction]>, UnsymbolizedReason>,
}

/// A function of native or kernel code, and a line of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NativeFunction {
    /// Demangled name.
    pub name: Arc<str>,
    /// Source file as the compiler recorded it, where it is known.
    pub file: Option<Arc<str>>,
    /// Line in that file, where it is known.
    pub line: Option<NonZeroU32>,
}

/// A native or kernel frame that could not be symbolized, with what the BPF programs sent of it.
#[must_use]
pub fn unsymbolized(frame: &NativeFrame, reason: UnsymbolizedReason) -> SymbolizedNativeFrame {
    let (kind, path) = match frame.kind {
        NativeKind::KERNEL => (ExecutableKind::Kernel, PathBuf::new()),
        NativeKind::FILE => (
            ExecutableKind::File,
            format!("[file {}]", frame.id_or_count).into(),
        ),
        _ => (ExecutableKind::Anonymous, PathBuf::new()),
    };
    SymbolizedNativeFrame {
        executable: Arc::new(Executable {
            path,
            build_id: None,
            kind,
            start: 0,
            limit: 0,
            file_offset: 0,
        }),
        address: frame.address,
        functions: Err(reason),
    }
}
