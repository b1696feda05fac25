//! A layout from the members of C structures.

use agent_common::{
    layout::{
        ABSENT, CodeLayout, ExceptionLayout, FrameLayout, GilStyle, InstanceStyle,
        InterpreterLayout, Layout, ObjectLayout, TextLayout, TextStyle, ThreadLayout,
    },
    limits::{CODE_BYTES, FRAME_BYTES, THREAD_BYTES},
};

use super::{
    error::Error,
    structures::{Sections, Structures},
};
use crate::{
    binaries::elf::{Elf, Source},
    python::layout_sizes::{code_bytes, frame_bytes, text_bytes, thread_bytes},
};

/// Reads the layout from the debugging information in a file. `base` is the table of the nearest
/// version, `runtime_bytes` the size of `_PyRuntime` where there is one.
///
/// # Errors
///
/// When a member is missing or out of bounds, or when the debugging information is absent,
/// malformed or of another build.
pub fn layout<S: Source>(
    elf: &Elf<S>,
    base: &Layout,
    runtime_bytes: Option<u64>,
) -> Result<Layout, Error> {
    if !elf.has_debug_info() {
        return Err(Error::Absent);
    }
    let sections = Sections::read(elf)?;
    let dwarf = sections.dwarf();
    let names = StructureNames::of(base);
    let fields = StructureFields(Structures::find(&dwarf, &names.wanted(base))?);
    let found = fields.0.bytes(RUNTIME);
    if let (Some(found), Some(actual)) = (found, runtime_bytes)
        && found != actual
    {
        return Err(Error::OtherBuild { found, actual });
    }
    let layout = Layout {
        interpreter: fields.interpreter(&base.interpreter)?,
        thread: fields.thread(base)?,
        frame: fields.frame(&base.frame, names.frame)?,
        code: fields.code(&base.code)?,
        text: fields.text(&base.text)?,
        object: fields.object(&base.object)?,
        exception: fields.exception(base)?,
    };
    let sizes = [
        (THREAD, layout.thread.bytes, THREAD_BYTES),
        (names.frame, layout.frame.bytes, FRAME_BYTES),
        (CODE, layout.code.bytes, CODE_BYTES),
    ];
    match sizes
        .iter()
        .find(|(_, bytes, most)| usize::from(*bytes) > *most)
    {
        Some((structure, _, _)) => Err(Error::OutOfBounds { structure }),
        None => Ok(layout),
    }
}

const RUNTIME: &str = "_PyRuntimeState";
const INTERPRETER: &str = "PyInterpreterState";
const THREAD: &str = "PyThreadState";
const C_FRAME: &str = "_PyCFrame";
const CODE: &str = "PyCodeObject";
const ASCII: &str = "PyASCIIObject";
const COMPACT: &str = "PyCompactUnicodeObject";
const BYTES: &str = "PyBytesObject";
const STRING: &str = "PyStringObject";
const OBJECT: &str = "PyObject";
const CLASS: &str = "PyTypeObject";
const HEAP_CLASS: &str = "PyHeapTypeObject";
const EXCEPTION: &str = "PyBaseExceptionObject";
const DICT: &str = "PyDictObject";
const VALUES: &str = "PyDictValues";

/// Names of structures that differ between versions.
struct StructureNames {
    frame: &'static str,
    strings: &'static [&'static str],
}

impl StructureNames {
    fn of(base: &Layout) -> Self {
        Self {
            frame: if base.frame.owner == ABSENT {
                "PyFrameObject"
            } else {
                "_PyInterpreterFrame"
            },
            strings: if base.text.style == TextStyle::BYTES {
                &[STRING]
            } else {
                &[ASCII, COMPACT, BYTES]
            },
        }
    }

    /// All structures with fields of a layout.
    fn wanted(&self, base: &Layout) -> Vec<&'static str> {
        let mut wanted = vec![INTERPRETER, THREAD, CODE, self.frame];
        wanted.extend(self.strings);
        if base.interpreter.runtime_head != ABSENT {
            wanted.push(RUNTIME);
        }
        if base.thread.cframe_current_frame != ABSENT {
            wanted.push(C_FRAME);
        }
        if base.object.instance != InstanceStyle::OPAQUE {
            wanted.extend([OBJECT, CLASS, HEAP_CLASS, DICT]);
        }
        if base.exception.current != ABSENT {
            wanted.push(EXCEPTION);
        }
        if has_values(&base.object) {
            wanted.push(VALUES);
        }
        wanted
    }
}

/// Whether instances can have attribute values without a dictionary.
fn has_values(object: &ObjectLayout) -> bool {
    !matches!(
        object.instance,
        InstanceStyle::DICT_OFFSET | InstanceStyle::OPAQUE
    )
}

/// Fills layouts from the members of structures.
struct StructureFields<'a>(Structures<'a>);

impl StructureFields<'_> {
    fn interpreter(&self, base: &InterpreterLayout) -> Result<InterpreterLayout, Error> {
        let in_runtime = |field| {
            if base.runtime_head == ABSENT {
                Ok(ABSENT)
            } else {
                self.offset(RUNTIME, &[field])
            }
        };
        Ok(InterpreterLayout {
            runtime_head: in_runtime("interpreters.head")?,
            runtime_gil_holder: if base.gil_style == GilStyle::LAST_HOLDER {
                in_runtime("ceval.gil.last_holder")?
            } else {
                ABSENT
            },
            next: self.offset(INTERPRETER, &["next"])?,
            threads_head: self.offset(INTERPRETER, &["threads.head", "tstate_head"])?,
            newest_state_id: self.optional(INTERPRETER, "threads.next_unique_id")?,
            gil: if base.gil_style == GilStyle::IN_THREAD {
                self.offset(INTERPRETER, &["ceval.gil"])?
            } else {
                ABSENT
            },
            gil_style: base.gil_style,
            gc_collecting: self.optional(INTERPRETER, "gc.collecting")?,
            runtime_gc_collecting: if base.runtime_gc_collecting == ABSENT {
                ABSENT
            } else {
                in_runtime("gc.collecting")?
            },
        })
    }

    fn thread(&self, base: &Layout) -> Result<ThreadLayout, Error> {
        let offset = |names: &[&'static str]| self.offset(THREAD, names);
        let in_c_frame = |field| {
            if base.thread.cframe_current_frame == ABSENT {
                Ok(ABSENT)
            } else {
                self.offset(C_FRAME, &[field])
            }
        };
        let mut thread = ThreadLayout {
            bytes: 0,
            previous: self.optional(THREAD, "prev")?,
            next: offset(&["next"])?,
            interpreter: offset(&["interp"])?,
            thread_id: offset(&["thread_id"])?,
            id: self.optional(THREAD, "id")?,
            // 3.10 has a `cframe` too, without a frame in it.
            frame: offset(&["frame", "current_frame", "cframe"])?,
            cframe_current_frame: in_c_frame("current_frame")?,
            cframe_previous: in_c_frame("previous")?,
            datastack_chunk: self.optional(THREAD, "datastack_chunk")?,
            datastack_top: self.optional(THREAD, "datastack_top")?,
            ..base.thread
        };
        if base.interpreter.gil_style == GilStyle::IN_THREAD {
            thread.attached = offset(&["state", "_status"])?;
            // 3.12 has a bit instead of a number.
            if self.0.member(THREAD, "state")?.is_none() {
                let bit = self.bit(THREAD, "_status.active")?;
                thread.attached_mask = 1_u16.checked_shl(bit.into()).unwrap_or(0);
                thread.attached_value = thread.attached_mask;
            }
        }
        thread.bytes = thread_bytes(&thread);
        Ok(thread)
    }

    fn frame(&self, base: &FrameLayout, name: &'static str) -> Result<FrameLayout, Error> {
        let offset = |names: &[&'static str]| self.offset(name, names);
        let mut frame = FrameLayout {
            bytes: 0,
            previous: offset(&["previous", "f_back"])?,
            function: self.optional(name, "f_funcobj")?,
            code: offset(&["f_executable", "f_code"])?,
            instruction: offset(&["instr_ptr", "prev_instr", "f_lasti"])?,
            owner: self.optional(name, "owner")?,
            entry: self.optional(name, "is_entry")?,
            locals: offset(&["localsplus", "f_localsplus"])?,
            bytecode_copy: self.optional(name, "tlbc_index")?,
            ..*base
        };
        frame.bytes = frame_bytes(&frame);
        Ok(frame)
    }

    fn code(&self, base: &CodeLayout) -> Result<CodeLayout, Error> {
        let offset = |names: &[&'static str]| self.offset(CODE, names);
        let mut code = CodeLayout {
            bytes: 0,
            file: offset(&["co_filename"])?,
            name: offset(&["co_qualname", "co_name"])?,
            first_line: offset(&["co_firstlineno"])?,
            line_table: offset(&["co_linetable", "co_lnotab"])?,
            first_traceable: self.optional(CODE, "_co_firsttraceable")?,
            bytecode: self.optional(CODE, "co_code_adaptive")?,
            bytecode_copies: self.optional(CODE, "co_tlbc")?,
            ..*base
        };
        code.bytes = code_bytes(&code);
        Ok(code)
    }

    fn text(&self, base: &TextLayout) -> Result<TextLayout, Error> {
        let mut text = *base;
        if base.style == TextStyle::BYTES {
            text.length = self.offset(STRING, &["ob_size"])?;
            text.hash = self.offset(STRING, &["ob_shash"])?;
            text.ascii_data = self.offset(STRING, &["ob_sval"])?;
            text.compact_data = text.ascii_data;
            text.bytes_size = text.length;
            text.bytes_data = text.ascii_data;
        } else {
            text.length = self.offset(ASCII, &["length"])?;
            text.hash = self.offset(ASCII, &["hash"])?;
            text.state = self.offset(ASCII, &["state"])?;
            text.kind_bit = self.bit(ASCII, "state.kind")?;
            text.compact_bit = self.bit(ASCII, "state.compact")?;
            text.ascii_bit = self.bit(ASCII, "state.ascii")?;
            text.ascii_data = self.size(ASCII)?;
            text.compact_data = self.size(COMPACT)?;
            text.bytes_size = self.offset(BYTES, &["ob_base.ob_size"])?;
            text.bytes_data = self.offset(BYTES, &["ob_sval"])?;
        }
        text.bytes = text_bytes(&text);
        Ok(text)
    }

    fn object(&self, base: &ObjectLayout) -> Result<ObjectLayout, Error> {
        if base.instance == InstanceStyle::OPAQUE {
            return Ok(*base);
        }
        Ok(ObjectLayout {
            class: self.offset(OBJECT, &["ob_type"])?,
            class_basic_size: self.offset(CLASS, &["tp_basicsize"])?,
            class_dict_offset: self.offset(CLASS, &["tp_dictoffset"])?,
            class_cached_keys: self.offset(HEAP_CLASS, &["ht_cached_keys"])?,
            dict_keys: self.offset(DICT, &["ma_keys"])?,
            dict_values: self.offset(DICT, &["ma_values"])?,
            values_head: if has_values(base) {
                self.offset(VALUES, &["values"])?
            } else {
                base.values_head
            },
            ..*base
        })
    }

    fn exception(&self, base: &Layout) -> Result<ExceptionLayout, Error> {
        let current = self.optional(THREAD, "current_exception")?;
        Ok(ExceptionLayout {
            current,
            traceback: if current == ABSENT {
                ABSENT
            } else {
                self.offset(EXCEPTION, &["traceback"])?
            },
            thread_class: self.optional(THREAD, "curexc_type")?,
            thread_traceback: self.optional(THREAD, "curexc_traceback")?,
            class_name: if base.object.instance == InstanceStyle::OPAQUE {
                base.exception.class_name
            } else {
                self.offset(CLASS, &["tp_name"])?
            },
        })
    }

    /// The offset of the first of these members that exists.
    fn offset(&self, structure: &'static str, names: &[&'static str]) -> Result<u16, Error> {
        for name in names {
            let found = self.optional(structure, name)?;
            if found != ABSENT {
                return Ok(found);
            }
        }
        let field = names.first().copied().unwrap_or_default();
        Err(Error::Missing { structure, field })
    }

    /// The offset of a member, or [`ABSENT`].
    fn optional(&self, structure: &'static str, name: &'static str) -> Result<u16, Error> {
        match self.0.member(structure, name)? {
            Some(member) => small(structure, member.offset),
            None => Ok(ABSENT),
        }
    }

    /// The first bit of a bit field.
    fn bit(&self, structure: &'static str, field: &'static str) -> Result<u16, Error> {
        let member = self.0.member(structure, field)?;
        match member.and_then(|member| member.bit) {
            Some(bit @ 0..32) => small(structure, bit),
            _ => Err(Error::Missing { structure, field }),
        }
    }

    /// The size of a structure.
    fn size(&self, structure: &'static str) -> Result<u16, Error> {
        let field = "size";
        let bytes = self.0.bytes(structure);
        small(structure, bytes.ok_or(Error::Missing { structure, field })?)
    }
}

/// An offset in the type of layouts.
fn small(structure: &'static str, offset: u64) -> Result<u16, Error> {
    u16::try_from(offset)
        .ok()
        .filter(|offset| *offset != ABSENT)
        .ok_or(Error::OutOfBounds { structure })
}
