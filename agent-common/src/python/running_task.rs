//! The task of asyncio that a thread runs.
//!
//! A task without a name of its own has a number, which its class makes the text `Task-N` when somebody asks for it. It
//! is named by its coroutine instead: numbers say nothing, and there may be any number of them.

use crate::{
    hash::Hash,
    layout::{Layout, RunningTaskLayout},
    memory::{UserAddr, UserMemory},
    record::{MAX_TASK_NAME_BYTES, TASK_NAME_BYTES, TaskName, Text},
    scratch::Scratch,
    volatile::masked,
};

use super::text::locate_text;

/// From `ob_type` to the name of a coroutine: behind the head, `cr_weakreflist` and `cr_name`.
const QUALIFIED_NAME: u16 = 24;

/// From `tp_name` to `tp_flags`.
const FLAGS: u16 = 144;

/// `Py_TPFLAGS_UNICODE_SUBCLASS`.
const IS_TEXT: u64 = 1 << 28;

/// The name of the class of coroutines with its zero byte, in two words.
const COROUTINE: [u64; 2] = [
    u64::from_le_bytes(*b"coroutin"),
    u64::from_le_bytes(*b"e\0\0\0\0\0\0\0"),
];

/// Which bytes of the second word are those of the name.
const COROUTINE_END: u64 = 0xffff;

/// How a name begins that is only a number, and the mask for it.
const NUMBERED: u64 = u64::from_le_bytes(*b"Task-\0\0\0");
const NUMBERED_BYTES: u64 = (1 << 40) - 1;

const MASK: u32 = TASK_NAME_BYTES as u32 - 1;

/// Reads the name of the task that the thread with this state runs, and returns its hash, 0 where it runs none or that
/// cannot be read.
///
/// The slot is overwritten. `seed` is the start value of the hash.
#[inline(always)]
pub fn read_running_task<M: UserMemory>(
    memory: &M,
    scratch: &mut Scratch,
    layout: &Layout,
    tasks: RunningTaskLayout,
    state: UserAddr,
    seed: u64,
    name: &mut TaskName,
) -> u64 {
    name.task = 0;
    if !tasks.is_known() || state.is_null() {
        return 0;
    }
    let task = UserAddr(memory.word_or_zero(state.field(tasks.running)));
    read_task(memory, scratch, layout, tasks, task, seed, name)
}

/// Reads the name of the task at this address, as [`read_running_task`] does of one that runs.
#[inline(always)]
pub fn read_task<M: UserMemory>(
    memory: &M,
    scratch: &mut Scratch,
    layout: &Layout,
    tasks: RunningTaskLayout,
    task: UserAddr,
    seed: u64,
    name: &mut TaskName,
) -> u64 {
    name.task = 0;
    if !tasks.is_known() || !task.could_be_structure() {
        return 0;
    }
    let own = memory.word_or_zero(task.field(tasks.name));
    let is_named = read_text(memory, scratch, layout, UserAddr(own), name) && !is_number(name);
    if !is_named {
        let coroutine = UserAddr(memory.word_or_zero(task.field(tasks.coroutine)));
        if !is_coroutine(memory, layout, coroutine) {
            return 0;
        }
        let qualified = coroutine.field(layout.object.class).field(QUALIFIED_NAME);
        let qualified = memory.word_or_zero(qualified);
        if !read_text(memory, scratch, layout, UserAddr(qualified), name) {
            return 0;
        }
    }
    let mut hash = Hash::new(seed).word(u64::from(name.text.descriptor()));
    let mut index = 0;
    while index < TASK_NAME_BYTES / 8 {
        hash = hash.word(name.name[index]);
        index += 1;
    }
    name.task = hash.finish();
    name.task
}

/// Reads the characters of what may be a string; [`false`] where it is none or is empty.
#[inline(always)]
fn read_text<M: UserMemory>(
    memory: &M,
    scratch: &mut Scratch,
    layout: &Layout,
    object: UserAddr,
    name: &mut TaskName,
) -> bool {
    if !object.could_be_structure() {
        return false;
    }
    let class = UserAddr(memory.word_or_zero(object.field(layout.object.class)));
    let flags = class.field(layout.exception.class_name).field(FLAGS);
    if class.is_null() || memory.word_or_zero(flags) & IS_TEXT == 0 {
        return false;
    }
    let Ok((data, text)) = locate_text(memory, scratch, &layout.text, object) else {
        return false;
    };
    let is_cut = text.bytes > MAX_TASK_NAME_BYTES;
    let bytes = if is_cut {
        MAX_TASK_NAME_BYTES
    } else {
        text.bytes
    };
    name.text = Text {
        kind: text.kind,
        truncated: u8::from(is_cut) | text.truncated,
        bytes,
    };
    name.name = [0; TASK_NAME_BYTES / 8];
    let bytes = masked(u32::from(bytes), MASK);
    // SAFETY: the name has room for all that the mask allows.
    let copied = unsafe { memory.copy(data, name.name.as_mut_ptr().cast(), bytes) };
    copied.is_ok() && bytes != 0
}

#[inline(always)]
fn is_number(name: &TaskName) -> bool {
    name.name[0] & NUMBERED_BYTES == NUMBERED
}

/// Whether this is the address of a coroutine, by the name of its class.
#[inline(always)]
fn is_coroutine<M: UserMemory>(memory: &M, layout: &Layout, object: UserAddr) -> bool {
    if !object.could_be_structure() {
        return false;
    }
    let class = UserAddr(memory.word_or_zero(object.field(layout.object.class)));
    let name = UserAddr(memory.word_or_zero(class.field(layout.exception.class_name)));
    !class.is_null()
        && memory.word_or_zero(name) == COROUTINE[0]
        && memory.word_or_zero(name.field(8)) & COROUTINE_END == COROUTINE[1]
}
