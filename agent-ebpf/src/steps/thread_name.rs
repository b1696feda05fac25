//! The steps that read and send the name of the sampled thread.
//!
//! The kernel's name is its `comm`; Python's own name is the attribute `_name` of the
//! `threading.Thread` that is the first variable of its root frame. The agent decides whether the
//! root frame is that of a `threading.Thread`.

use agent_common::{
    counter::Counter,
    hash::Hash,
    limits::TEXT_BYTES,
    memory::{Fault, UserAddr, UserMemory as _},
    python::{AttributeName, PythonOutcome, locate_text},
    record::{Header, PythonUnwindStatus, RecordKind, Text, ThreadName},
    volatile::masked,
};
use aya_ebpf::helpers::bpf_get_current_comm;

use crate::{
    current, emit,
    maps::{HASH_SEED, count},
    memory::CurrentMemory,
    threads,
    values::TEXT_MASK,
};

/// The attribute of a `threading.Thread` that is its name.
const NAME: AttributeName = AttributeName::new("_name");

/// Decides whether the name has to be read; `end` is the status of the Python frames.
///
/// [`PythonOutcome::NEXT`] when there may be a `threading.Thread`, [`PythonOutcome::DONE`] when
/// there is only the kernel's name, anything else when it is not time yet.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn begin_name(end: u32) -> u32 {
    try_begin_name(end).unwrap_or(PythonOutcome::FAULT).0
}

#[inline(always)]
fn try_begin_name(end: u32) -> Option<PythonOutcome> {
    let sampler = current::sampler()?;
    let now_ns = sampler.time_ns.get();
    let thread = &mut sampler.thread.thread;
    if sampler.thread.tid != u64::from(sampler.tid.get()) {
        // It has no thread state that could be read.
        return None;
    }
    if thread.name != 0 && !thread.named.is_due(now_ns) {
        return None;
    }
    thread.named.revalidated_ns = now_ns;
    threads::store(sampler);
    let layout = current::layout(sampler)?;
    let memory = CurrentMemory::of(sampler);
    let thread_name = current::thread_name()?;
    let is_complete = end == u32::from(PythonUnwindStatus::COMPLETE.0);
    thread_name.head = ThreadName {
        header: Header {
            kind: RecordKind::THREAD_NAME,
            reserved: 0,
            bytes: size_of::<ThreadName>() as u32,
        },
        tgid: sampler.tgid.get(),
        tid: sampler.tid.get(),
        root: sampler.walk.stack.root_symbol(),
        comm: bpf_get_current_comm().unwrap_or_default(),
        python: Text::default(),
        is_complete: u32::from(is_complete),
    };
    if !is_complete {
        return Some(PythonOutcome::DONE);
    }
    let first_variable = sampler.walk.root().field(layout.frame.locals);
    let Ok(object) = memory.word(first_variable) else {
        return Some(PythonOutcome::DONE);
    };
    // The low bits are a tag from 3.14 on.
    let object = UserAddr(object & !7);
    match thread_name
        .attributes
        .begin(&memory, &mut sampler.scratch, layout, object)
    {
        Ok(()) => Some(PythonOutcome::NEXT),
        Err(Fault) => Some(PythonOutcome::DONE),
    }
}

/// Checks the next attribute of what may be a `threading.Thread`.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn find_name() -> u32 {
    try_find_name().unwrap_or(PythonOutcome::DONE).0
}

#[inline(always)]
fn try_find_name() -> Option<PythonOutcome> {
    let sampler = current::sampler()?;
    let memory = CurrentMemory::of(sampler);
    let layout = current::layout(sampler)?;
    let thread_name = current::thread_name()?;
    let scratch = &mut sampler.scratch;
    let found = thread_name.attributes.step(&memory, scratch, layout, NAME);
    let Some(value) = found.ok()? else {
        return Some(PythonOutcome::NEXT);
    };
    let (data, text) = locate_text(&memory, scratch, &layout.text, value).ok()?;
    let bytes = masked(u32::from(text.bytes), TEXT_MASK);
    thread_name.text[masked(bytes / 8, TEXT_MASK / 8) as usize] = 0;
    // SAFETY: the text has room for all that the mask allows.
    unsafe {
        memory
            .copy(data, thread_name.text.as_mut_ptr().cast(), bytes)
            .ok()?;
    }
    thread_name.head.python = text;
    Some(PythonOutcome::DONE)
}

/// Sends the name unless it is the one that was sent last.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn send_name() -> u32 {
    u32::from(try_send_name().is_some())
}

#[inline(always)]
fn try_send_name() -> Option<()> {
    let sampler = current::sampler()?;
    let thread = &mut sampler.thread.thread;
    let thread_name = current::thread_name()?;
    let words = thread_name.head.python.words();
    let mut hash = Hash::new(HASH_SEED.load())
        .word(thread_name.head.root)
        .word(u64::from(thread_name.head.python.descriptor()));
    let mut index = 0;
    while index < 16 {
        hash = hash.word(u64::from(thread_name.head.comm[index]));
        index += 1;
    }
    let mut index = 0;
    while index < TEXT_BYTES / 8 && index < words {
        hash = hash.word(thread_name.text[index]);
        index += 1;
    }
    let hash = hash.finish();
    let is_sent = thread.named.since_ns >= sampler.resend_before_ns.get();
    if hash == thread.name && is_sent {
        return None;
    }
    let bytes = size_of::<ThreadName>() as u32 + (words as u32) * 8;
    thread_name.head.header.bytes = bytes;
    let bytes = masked(bytes, TEXT_MASK);
    // SAFETY: the record has room for all that the mask allows.
    if unsafe { emit::send((&raw const *thread_name).cast(), bytes as usize) } {
        thread.name = hash;
        thread.named.since_ns = sampler.time_ns.get();
        threads::store(sampler);
    } else {
        count(Counter::LOST_THREAD_NAMES);
    }
    Some(())
}
