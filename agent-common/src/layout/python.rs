//! Where the fields of an interpreter's structures are.

use crate::record::{LineTableFormat, Text};

/// The offset of a field that the interpreter does not have.
pub const ABSENT: u16 = u16::MAX;

/// How the position inside a code object is kept in a frame.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstructionStyle(pub u16);

impl InstructionStyle {
    /// `f_lasti`: a 32-bit index, in units of [`FrameLayout::instruction_unit`] bytes; -1
    /// before the first instruction (`PyFrameObject`, up to 3.10).
    pub const INDEX: Self = Self(0);
    /// A pointer into the bytecode that follows the code object (3.11 and later).
    pub const POINTER: Self = Self(1);
}

/// How the frames of one evaluation loop are distinguished from those of the loop that called it.
#[repr(transparent)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunStyle(pub u16);

impl RunStyle {
    /// Each frame has a loop of its own (up to 3.10).
    ///
    /// Not quite: in 3.9 and 3.10 there are frames of generators without one while `throw` hands an
    /// exception on to what they wait for. The frames below are then taken for those of loops that
    /// are as many further down.
    pub const EACH: Self = Self(0);
    /// The outermost frame of a loop is marked, and the thread state leads to a `_PyCFrame` on the
    /// stack of each loop (3.11).
    pub const MARKED: Self = Self(1);
    /// Before its outermost frame a loop puts one of the interpreter's own, which is on the loop's
    /// stack (3.12 and later).
    pub const ENTRY_FRAMES: Self = Self(2);
}

/// Where it stands which thread holds the GIL, or is attached where there is none.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GilStyle(pub u16);

impl GilStyle {
    /// In a pointer to its thread state, null when it is free (up to 3.6).
    pub const HOLDER: Self = Self(0);
    /// In a pointer to its thread state, which stays when it is released, and a 32-bit word
    /// after it that is then 0 (3.7 to 3.11).
    pub const LAST_HOLDER: Self = Self(1);
    /// In the thread state itself, see [`ThreadLayout::attached`] (3.12 and later).
    pub const IN_THREAD: Self = Self(2);
}

/// `_PyRuntimeState` and `PyInterpreterState`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterpreterLayout {
    /// `_PyRuntimeState.interpreters.head`, or [`ABSENT`] where that is a variable of its own
    /// (up to 3.6).
    pub runtime_head: u16,
    /// `_PyRuntimeState.ceval.gil.last_holder` of [`GilStyle::LAST_HOLDER`], else [`ABSENT`].
    pub runtime_gil_holder: u16,
    /// `PyInterpreterState.next`.
    pub next: u16,
    /// `PyInterpreterState.threads.head`.
    pub threads_head: u16,
    /// `PyInterpreterState.threads.next_unique_id`, the id of the newest thread state, or
    /// [`ABSENT`] before 3.11, where it is not at the same place in all builds.
    pub newest_state_id: u16,
    /// `PyInterpreterState.ceval.gil`, a pointer to the GIL of [`GilStyle::IN_THREAD`], else
    /// [`ABSENT`].
    pub gil: u16,
    /// Where the holder of the GIL is.
    pub gil_style: GilStyle,
    /// `PyInterpreterState.gc.collecting`, a 32-bit word that is 1 during a garbage collection (3.9 and
    /// later), else [`ABSENT`].
    pub gc_collecting: u16,
    /// `_PyRuntimeState.gc.collecting`, the same for all interpreters (3.7, 3.8), else [`ABSENT`].
    pub runtime_gc_collecting: u16,
}

/// `PyThreadState`, and how its newest frame is found.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadLayout {
    /// Bytes that hold all the fields below; at most [`crate::limits::THREAD_BYTES`].
    pub bytes: u16,
    /// `prev`, or [`ABSENT`] (2.7).
    pub previous: u16,
    /// `next`.
    pub next: u16,
    /// `interp`.
    pub interpreter: u16,
    /// `thread_id`, the value of `pthread_self()`.
    pub thread_id: u16,
    /// `id`, which no other state of the interpreter has or had, or [`ABSENT`] (up to 3.6); not among
    /// the `bytes` above.
    pub id: u16,
    /// `frame` (up to 3.10), `cframe` (3.11, 3.12) or `current_frame` (3.13 and later).
    pub frame: u16,
    /// `_PyCFrame.current_frame` where the field above is `cframe`, else [`ABSENT`].
    pub cframe_current_frame: u16,
    /// `_PyCFrame.previous`, as above.
    pub cframe_previous: u16,
    /// `datastack_chunk`, or [`ABSENT`] before 3.11.
    pub datastack_chunk: u16,
    /// `datastack_top`, or [`ABSENT`] before 3.11.
    pub datastack_top: u16,
    /// The 32-bit word with the bits that are set while the thread is attached to its interpreter,
    /// that is, holds the GIL where there is one: `_status` (3.12) or `state` (3.13 and later);
    /// else [`ABSENT`].
    pub attached: u16,
    /// The bits of that word that count.
    pub attached_mask: u16,
    /// What they are in a thread that is attached.
    pub attached_value: u16,
}

/// `PyFrameObject` (up to 3.10) or `_PyInterpreterFrame`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameLayout {
    /// Bytes that hold all the fields below; at most [`crate::limits::FRAME_BYTES`].
    pub bytes: u16,
    /// `f_back` or `previous`.
    pub previous: u16,
    /// `f_funcobj` of [`RunStyle::ENTRY_FRAMES`], else [`ABSENT`].
    pub function: u16,
    /// `f_code` or `f_executable`.
    pub code: u16,
    /// `f_lasti`, `prev_instr` or `instr_ptr`.
    pub instruction: u16,
    /// `owner`, or [`ABSENT`] before 3.11.
    pub owner: u16,
    /// `f_localsplus` or `localsplus`; not among the `bytes` above.
    pub locals: u16,
    /// `tlbc_index`, which of the code object's copies of the bytecode runs (free-threaded
    /// builds from 3.14 on), else [`ABSENT`].
    pub bytecode_copy: u16,
    /// `is_entry` of [`RunStyle::MARKED`], else [`ABSENT`].
    pub entry: u16,
    /// How the frames of one evaluation loop are distinguished from those of the next.
    pub run_style: RunStyle,
    /// How `instruction` is to be read.
    pub instruction_style: InstructionStyle,
    /// Bytes of one unit of an [`InstructionStyle::INDEX`].
    pub instruction_unit: u16,
}

/// `PyCodeObject`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeLayout {
    /// Bytes that hold all the fields below up to `first_traceable`; at most
    /// [`crate::limits::CODE_BYTES`].
    pub bytes: u16,
    /// `co_filename`.
    pub file: u16,
    /// `co_qualname`, or `co_name` before 3.11.
    pub name: u16,
    /// `co_firstlineno`.
    pub first_line: u16,
    /// `co_linetable` or `co_lnotab`.
    pub line_table: u16,
    /// `_co_firsttraceable`, or [`ABSENT`] before 3.11.
    pub first_traceable: u16,
    /// `co_code_adaptive`, or [`ABSENT`] before 3.11.
    pub bytecode: u16,
    /// `co_tlbc`, a pointer to the copies of the bytecode, where frames have a
    /// [`bytecode_copy`](FrameLayout::bytecode_copy), else [`ABSENT`].
    pub bytecode_copies: u16,
    /// What `line_table` holds.
    pub line_table_format: LineTableFormat,
}

/// What names are.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextStyle(u16);

impl TextStyle {
    /// `PyUnicodeObject`: characters of one, two or four bytes.
    pub const UNICODE: Self = Self(0);
    /// `PyStringObject`, laid out like a bytes object: bytes in an encoding that nothing names
    /// (2.7).
    pub const BYTES: Self = Self((Text::BYTES - 1) as u16);

    /// The [`Text::kind`] of characters of so many bytes.
    #[inline(always)]
    #[must_use]
    pub const fn kind(self, width: u32) -> u8 {
        width as u8 + self.0 as u8
    }
}

/// `PyUnicodeObject` and `PyBytesObject`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextLayout {
    /// Bytes of a string's head up to and with `state`.
    pub bytes: u16,
    /// `length`, in characters; `ob_size` of [`TextStyle::BYTES`].
    pub length: u16,
    /// `hash`, of the characters; names have it.
    pub hash: u16,
    /// The word of bit fields.
    pub state: u16,
    /// Bits of that word that count: none of [`TextStyle::BYTES`], which has no such word.
    pub state_mask: u16,
    /// Bits that are set whatever the word is.
    pub state_bits: u16,
    /// First bit of `state.kind` (three bits: 1, 2 or 4 bytes a character).
    pub kind_bit: u16,
    /// Bit `state.compact`.
    pub compact_bit: u16,
    /// Bit `state.ascii`.
    pub ascii_bit: u16,
    /// Where the characters of a compact ASCII string start.
    pub ascii_data: u16,
    /// Where the characters of any other compact string start, and where a string that is not compact
    /// refers to them.
    pub compact_data: u16,
    /// `ob_size` of a bytes object.
    pub bytes_size: u16,
    /// `ob_sval` of a bytes object.
    pub bytes_data: u16,
    /// What names are.
    pub style: TextStyle,
}

/// How an instance keeps its attributes.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstanceStyle(pub u16);

impl InstanceStyle {
    /// A dictionary, at the offset that the class names (up to 3.10).
    pub const DICT_OFFSET: Self = Self(0);
    /// A pointer to a dictionary before the object, and one to values before that (3.11).
    pub const VALUES_AND_DICT: Self = Self(1);
    /// A pointer to either before the object; that to values is odd and one less than their
    /// address (3.12).
    pub const VALUES_OR_DICT: Self = Self(2);
    /// A pointer to a dictionary before the object; when it is null, the values stand behind
    /// the object (3.13 and later).
    pub const INLINE_VALUES: Self = Self(3);
    /// In a way that is not looked into (2.7).
    pub const OPAQUE: Self = Self(4);
}

/// What stands at the head of a dictionary's keys.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeysStyle(pub u16);

impl KeysStyle {
    /// The number of indices; all entries have a hash (up to 3.10).
    pub const SIZE: Self = Self(0);
    /// The logarithm of the bytes of the indices; entries may lack the hash (3.11 and later).
    pub const LOG2: Self = Self(1);
}

/// `PyObject`, `PyTypeObject` and `PyDictObject`, as far as attributes of instances go.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectLayout {
    /// `ob_type`.
    pub class: u16,
    /// `tp_basicsize`.
    pub class_basic_size: u16,
    /// `tp_dictoffset`.
    pub class_dict_offset: u16,
    /// `ht_cached_keys` of a `PyHeapTypeObject`.
    pub class_cached_keys: u16,
    /// `ma_keys`.
    pub dict_keys: u16,
    /// `ma_values`.
    pub dict_values: u16,
    /// Bytes before the first value of a `PyDictValues`.
    pub values_head: u16,
    /// Bytes before an object at which a pointer to its attributes stands, where there is one.
    pub before_object: u16,
    /// Bytes of the `PyGC_Head` before an object that is collected, at most; 0 in free-threaded builds, which have none.
    pub gc_head: u16,
    /// How an instance keeps its attributes.
    pub instance: InstanceStyle,
    /// How a dictionary's keys begin.
    pub keys: KeysStyle,
}

impl ObjectLayout {
    /// `tp_flags`: sixteen pointers and sizes after `tp_basicsize`.
    #[inline(always)]
    #[must_use]
    pub const fn class_flags(&self) -> u16 {
        self.class_basic_size.wrapping_add(136)
    }
}

/// Where the exception is that a thread is raising.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExceptionLayout {
    /// `PyThreadState.current_exception`, or [`ABSENT`] before 3.12.
    pub current: u16,
    /// `PyBaseExceptionObject.traceback` of that, or [`ABSENT`] as well.
    pub traceback: u16,
    /// `PyThreadState.curexc_type`, or [`ABSENT`] from 3.12 on.
    pub thread_class: u16,
    /// `PyThreadState.curexc_traceback`, or [`ABSENT`] as well.
    pub thread_traceback: u16,
    /// `PyTypeObject.tp_name`.
    pub class_name: u16,
}

/// The layout of an interpreter.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The list of interpreters.
    pub interpreter: InterpreterLayout,
    /// A thread state.
    pub thread: ThreadLayout,
    /// A frame.
    pub frame: FrameLayout,
    /// A code object.
    pub code: CodeLayout,
    /// Strings.
    pub text: TextLayout,
    /// Attributes of instances.
    pub object: ObjectLayout,
    /// The exception that is being raised.
    pub exception: ExceptionLayout,
}

impl Layout {
    /// Whether the interpreter was built to run without a GIL.
    #[inline(always)]
    #[must_use]
    pub const fn is_free_threaded(&self) -> bool {
        self.object.gc_head == 0
    }
}

#[cfg(feature = "user")]
// SAFETY: made of `u16` alone, so without padding and valid for any bytes.
unsafe impl aya::Pod for Layout {}
