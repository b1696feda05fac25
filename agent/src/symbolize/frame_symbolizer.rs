//! Symbolizes frames of all kinds.

use agent_common::record::{Frame, NativeFrame};

use super::{
    native_symbolizer::NativeSymbolizer,
    python::PythonSymbolizer,
    symbolized::{SymbolizeFrames, SymbolizedNativeFrame, SymbolizedPythonFrame, unsymbolized},
};
use crate::{binaries::executables::Executables, profile::UnsymbolizedReason};

/// Symbolizes frames of all kinds.
pub struct FrameSymbolizer<'a> {
    python: &'a mut PythonSymbolizer,
    native: Option<&'a mut NativeSymbolizer>,
    executables: Option<&'a Executables>,
}

impl<'a> FrameSymbolizer<'a> {
    pub fn new(
        python: &'a mut PythonSymbolizer,
        native: Option<(&'a mut NativeSymbolizer, &'a Executables)>,
    ) -> Self {
        let (native, executables) = native.unzip();
        Self {
            python,
            native,
            executables,
        }
    }
}

impl SymbolizeFrames for FrameSymbolizer<'_> {
    fn prepare(&mut self, frames: &[(u32, NativeFrame)]) {
        if let (Some(native), Some(executables)) = (&mut self.native, self.executables) {
            native.prepare(executables, frames);
        }
    }

    fn python(&mut self, frame: &Frame) -> Option<SymbolizedPythonFrame> {
        self.python.symbolize(frame)
    }

    fn native(&mut self, _tgid: u32, frame: &NativeFrame) -> SymbolizedNativeFrame {
        let symbolized = match (&mut self.native, self.executables) {
            (Some(native), Some(executables)) => native.symbolize(executables, frame),
            _ => None,
        };
        symbolized.unwrap_or_else(|| unsymbolized(frame, UnsymbolizedReason::Unreadable))
    }
}
