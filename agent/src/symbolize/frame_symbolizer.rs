//! Frames of all kinds → functions and lines.

use agent_common::record::{Frame, NativeFrame};

use super::{
    native_symbolizer::NativeSymbolizer,
    python::PythonSymbolizer,
    symbolized::{SymbolizeFrames, SymbolizedNativeFrame, SymbolizedPythonFrame, unsymbolized},
};
use crate::{binaries::executables::Executables, profile::UnsymbolizedReason};

/// Puts frames into words.
pub struct FrameSymbolizer<'a> {
    python: &'a mut PythonSymbolizer,
    native: Option<&'a mut NativeSymbolizer>,
    code: Option<&'a Executables>,
}

impl<'a> FrameSymbolizer<'a> {
    pub fn new(
        python: &'a mut PythonSymbolizer,
        native: Option<(&'a mut NativeSymbolizer, &'a Executables)>,
    ) -> Self {
        let (native, code) = native.unzip();
        Self {
            python,
            native,
            code,
        }
    }
}

impl SymbolizeFrames for FrameSymbolizer<'_> {
    fn python(&mut self, frame: &Frame) -> Option<SymbolizedPythonFrame> {
        self.python.symbolize(frame)
    }

    fn native(&mut self, _tgid: u32, frame: &NativeFrame) -> SymbolizedNativeFrame {
        let resolved = match (&mut self.native, self.code) {
            (Some(native), Some(code)) => native.symbolize(code, frame),
            _ => None,
        };
        resolved.unwrap_or_else(|| unsymbolized(frame, UnsymbolizedReason::Unreadable))
    }
}
