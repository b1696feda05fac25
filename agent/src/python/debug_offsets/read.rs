//! Reads and checks `_Py_DebugOffsets`.

use agent_common::{
    layout::{ABSENT, Layout},
    limits::{CODE_BYTES, FRAME_BYTES, THREAD_BYTES},
};
use thiserror::Error;

use super::positions::Positions;
use crate::python::{
    layout_sizes::{code_bytes, frame_bytes, text_bytes, thread_bytes},
    version::Version,
    versions::series_of,
};

/// Its first bytes.
pub(in crate::python) const COOKIE: [u8; 8] = *b"xdebugpy";

/// Bytes of it that are read at most; 3.15 has 888.
pub const MAX_BYTES: usize = 1024;

/// Largest plausible structure; the runtime of 3.12 has 460 KB.
const MAX_STRUCTURE: u64 = 1 << 20;

/// Why the debug offsets could not be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DebugOffsetsError {
    /// They are absent.
    #[error("there are no debug offsets")]
    Absent,
    /// They belong to another version than the file.
    #[error("the debug offsets belong to version {found:#x}")]
    OtherVersion {
        /// The version, as `PY_VERSION_HEX`.
        found: u64,
    },
    /// A value is implausible.
    #[error("the debug offsets have an implausible value for {field}: {value}")]
    Implausible {
        /// The field or structure.
        field: &'static str,
        /// Its offset or size.
        value: u64,
    },
}

/// The bytes of `_Py_DebugOffsets`.
#[derive(Clone, Copy, Debug)]
pub struct DebugOffsets<'a>(&'a [u8]);

impl<'a> DebugOffsets<'a> {
    /// Wraps the first bytes of `_PyRuntime`; [`None`] when they have no cookie.
    #[must_use]
    pub fn new(runtime: &'a [u8]) -> Option<Self> {
        let offsets = Self(runtime);
        runtime.starts_with(&COOKIE).then_some(offsets)
    }

    /// The size of `_PyRuntime`, if the version is supported and all values are plausible.
    pub(in crate::python) fn runtime_bytes(&self) -> Option<u64> {
        let version = Version::from_hex(self.version_hex())?;
        let series = series_of(version)?;
        let positions = series.debug_offsets.as_ref()?;
        self.layout(version, positions, &series.layout).ok()?;
        self.word(positions.runtime.bytes)
    }

    /// The version as `PY_VERSION_HEX`.
    #[must_use]
    pub fn version_hex(&self) -> u64 {
        self.word(8).unwrap_or(0)
    }

    /// Whether it is a free-threaded build.
    #[must_use]
    pub fn is_free_threaded(&self) -> bool {
        self.word(16) == Some(1)
    }

    /// The layout; fields without a debug offset are taken from `table`, that of the same series.
    ///
    /// # Errors
    ///
    /// When the version differs or a value is implausible.
    pub fn layout(
        &self,
        version: Version,
        positions: &Positions,
        table: &Layout,
    ) -> Result<Layout, DebugOffsetsError> {
        let found = self.version_hex();
        if Version::from_hex(found) != Some(version) {
            return Err(DebugOffsetsError::OtherVersion { found });
        }
        let mut layout = *table;
        self.read_interpreter(positions, &mut layout)?;
        self.read_thread(positions, &mut layout)?;
        self.read_frame(positions, &mut layout)?;
        self.read_code(positions, &mut layout)?;
        self.read_text(positions, &mut layout)?;
        shift_object_fields(table, &mut layout)?;
        Ok(layout)
    }

    fn read_interpreter(
        &self,
        at: &Positions,
        layout: &mut Layout,
    ) -> Result<(), DebugOffsetsError> {
        let most = u64::from(u16::MAX);
        let runtime = self.structure("runtime_state", at.runtime.bytes, MAX_STRUCTURE)?;
        let state = self.structure("interpreter_state", at.interpreter.bytes, MAX_STRUCTURE)?;
        let runtime = runtime.within(most);
        let state = state.within(most);
        let to = &mut layout.interpreter;
        to.runtime_head = runtime.word("interpreters_head", at.runtime.interpreters_head)?;
        to.next = state.word("next", at.interpreter.next)?;
        to.threads_head = state.word("threads_head", at.interpreter.threads_head)?;
        to.gil = state.word("ceval_gil", at.interpreter.gil)?;
        let collector = state.word("gc", at.interpreter.gc)?;
        let collecting = state.field("gc.collecting", at.interpreter.gc_collecting, 4)?;
        to.gc_collecting = collector.saturating_add(collecting);
        // `next_unique_id` is the field before this one.
        to.newest_state_id = match to.threads_head.checked_sub(8) {
            Some(offset) if offset > 0 => offset,
            _ => ABSENT,
        };
        Ok(())
    }

    fn read_thread(&self, at: &Positions, layout: &mut Layout) -> Result<(), DebugOffsetsError> {
        let at = &at.thread;
        let state = self
            .structure("thread_state", at.bytes, MAX_STRUCTURE)?
            .within(THREAD_BYTES as u64);
        let to = &mut layout.thread;
        to.previous = state.word("prev", at.previous)?;
        to.next = state.word("next", at.next)?;
        to.interpreter = state.word("interp", at.interpreter)?;
        to.thread_id = state.word("thread_id", at.thread_id)?;
        to.frame = state.word("current_frame", at.current_frame)?;
        // `datastack_top` is the field after this one.
        to.datastack_chunk = state
            .without_last(8)
            .word("datastack_chunk", at.datastack_chunk)?;
        to.datastack_top = to.datastack_chunk + 8;
        // `id` is the field before it.
        to.id = to.datastack_chunk.checked_sub(8).unwrap_or(ABSENT);
        to.bytes = thread_bytes(to);
        Ok(())
    }

    fn read_frame(&self, at: &Positions, layout: &mut Layout) -> Result<(), DebugOffsetsError> {
        let at = &at.frame;
        let frame = self.structure("interpreter_frame", at.bytes, FRAME_BYTES as u64)?;
        let to = &mut layout.frame;
        to.previous = frame.without_last(8).word("previous", at.previous)?;
        // `f_funcobj` is the field after this one.
        to.function = to.previous + 8;
        to.code = frame.word("executable", at.executable)?;
        to.instruction = frame.word("instr_ptr", at.instr_ptr)?;
        to.owner = frame.field("owner", at.owner, 1)?;
        to.locals = frame.word("localsplus", at.localsplus)?;
        to.bytecode_copy = frame.optional("tlbc_index", at.tlbc_index, 4)?;
        to.bytes = frame_bytes(to);
        Ok(())
    }

    fn read_code(&self, at: &Positions, layout: &mut Layout) -> Result<(), DebugOffsetsError> {
        let at = &at.code;
        let code = self.structure("code_object", at.bytes, CODE_BYTES as u64)?;
        let to = &mut layout.code;
        to.file = code.word("filename", at.filename)?;
        to.name = code.word("qualname", at.qualname)?;
        to.line_table = code.word("linetable", at.linetable)?;
        to.first_line = code.field("firstlineno", at.firstlineno, 4)?;
        // The bytecode is aligned like a pointer and may start at the end of the header.
        to.bytecode = code.word("co_code_adaptive", at.co_code_adaptive)?;
        to.bytecode_copies = code.optional("co_tlbc", at.co_tlbc, 8)?;
        to.bytes = code_bytes(to);
        Ok(())
    }

    fn read_text(&self, at: &Positions, layout: &mut Layout) -> Result<(), DebugOffsetsError> {
        let at = &at.text;
        let most = 512;
        let bytes = self.structure("bytes_object", at.bytes_object, most)?;
        let unicode = self.structure("unicode_object", at.unicode_object, most)?;
        let to = &mut layout.text;
        let ascii_data = unicode.field("asciiobject_size", at.ascii_data, 8)?;
        to.compact_data = match at.compact_data {
            Some(position) => unicode.field("compactunicodeobject_size", position, 8)?,
            // The rest of the header of a compact string: `utf8_length` and `utf8`.
            None => ascii_data + (to.compact_data - to.ascii_data),
        };
        to.ascii_data = ascii_data;
        // `hash` is the field after this one.
        to.length = unicode.without_last(8).word("length", at.length)?;
        to.hash = to.length + 8;
        to.state = unicode.field("state", at.state, 4)?;
        to.bytes_size = bytes.word("ob_size", at.bytes_size)?;
        to.bytes_data = bytes.field("ob_sval", at.bytes_data, 1)?;
        to.bytes = text_bytes(to);
        Ok(())
    }

    /// A structure whose size is among the debug offsets; `most` is the largest plausible size.
    fn structure(
        &self,
        name: &'static str,
        size_position: u16,
        most: u64,
    ) -> Result<Structure<'a>, DebugOffsetsError> {
        let value = self.word(size_position).unwrap_or(0);
        if value == 0 || value > most {
            return Err(DebugOffsetsError::Implausible { field: name, value });
        }
        Ok(Structure {
            offsets: *self,
            end: value,
        })
    }

    fn word(&self, position: u16) -> Option<u64> {
        let bytes = self.0.get(usize::from(position)..)?.first_chunk()?;
        Some(u64::from_le_bytes(*bytes))
    }
}

/// Shifts fields without a debug offset by the extra size of object headers, which are larger in
/// some builds (`--with-trace-refs`).
fn shift_object_fields(table: &Layout, layout: &mut Layout) -> Result<(), DebugOffsetsError> {
    let file = layout.code.file;
    let Some(by) = file.checked_sub(table.code.file) else {
        return Ok(());
    };
    let objects = &mut layout.object;
    for offset in [
        &mut objects.class,
        &mut objects.class_basic_size,
        &mut objects.class_dict_offset,
        &mut objects.class_cached_keys,
        &mut objects.dict_keys,
        &mut objects.dict_values,
        &mut layout.code.first_traceable,
        &mut layout.exception.traceback,
        &mut layout.exception.class_name,
    ] {
        *offset = offset.saturating_add(by);
    }
    layout.code.bytes = code_bytes(&layout.code);
    if usize::from(layout.code.bytes) > CODE_BYTES {
        return Err(DebugOffsetsError::Implausible {
            field: "filename",
            value: file.into(),
        });
    }
    Ok(())
}

/// A structure whose fields end before a known offset.
#[derive(Clone, Copy)]
struct Structure<'a> {
    offsets: DebugOffsets<'a>,
    end: u64,
}

impl Structure<'_> {
    /// The structure with all fields ending before `end` as well.
    fn within(self, end: u64) -> Self {
        Self {
            end: self.end.min(end),
            ..self
        }
    }

    /// The structure without its last `bytes` bytes.
    fn without_last(self, bytes: u64) -> Self {
        self.within(self.end.saturating_sub(bytes))
    }

    /// The offset of a pointer-sized field.
    fn word(self, name: &'static str, position: u16) -> Result<u16, DebugOffsetsError> {
        self.field(name, position, 8)
    }

    /// The offset of a field of this size that some builds lack.
    fn optional(
        self,
        name: &'static str,
        position: Option<u16>,
        bytes: u64,
    ) -> Result<u16, DebugOffsetsError> {
        match position {
            // Such a field is never the first one, so 0 means that it is absent.
            Some(position) if self.offsets.word(position) != Some(0) => {
                self.field(name, position, bytes)
            }
            _ => Ok(ABSENT),
        }
    }

    /// The offset of a field of this size, which must divide it.
    fn field(
        self,
        name: &'static str,
        position: u16,
        bytes: u64,
    ) -> Result<u16, DebugOffsetsError> {
        let value = self.offsets.word(position).unwrap_or(u64::MAX);
        let implausible = DebugOffsetsError::Implausible { field: name, value };
        if !value.is_multiple_of(bytes) || value.saturating_add(bytes) > self.end {
            return Err(implausible);
        }
        u16::try_from(value).map_err(|_| implausible)
    }
}
