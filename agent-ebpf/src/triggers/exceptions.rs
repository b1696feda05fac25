//! Exceptions: samples the thread that raises one.
//!
//! The interpreter calls `PyTraceBack_Here` for each frame that an exception leaves or in which it is caught. Where the
//! exception has no traceback yet, that is the frame in which it was raised.

use agent_common::{
    counter::Counter,
    hash::Hash,
    limits::MAX_COUNTED_PROBE_NS,
    maps::{ProbeRun, WEIGHT_UNIT},
    memory::{UserAddr, UserMemory as _},
    python::{PythonOutcome, raised_class},
    record::{EXCEPTION_NAME_BYTES, ExceptionName, Header, ProfileKind, RecordKind},
};
use aya_ebpf::{
    helpers::{
        bpf_ktime_get_ns,
        generated::{bpf_get_prandom_u32, bpf_probe_read_user_str},
    },
    macros::uprobe,
    programs::ProbeContext,
};

use crate::{
    current, emit,
    maps::{
        HASH_SEED, RAISE_GAPS, RAISE_WINDOWS, SENT_EXCEPTIONS, WITH_CONTROL_FLOW, add, count,
        is_sent, kernel_offset,
    },
    memory::CurrentMemory,
    sample,
    task::Task,
};

/// Words of a name that are compared.
const COMPARED_WORDS: usize = 3;

/// The classes of exceptions by which iterators, generators and tasks end.
const CONTROL_FLOW: [[u64; COMPARED_WORDS]; 6] = [
    words(b"StopIteration"),
    words(b"GeneratorExit"),
    words(b"StopAsyncIteration"),
    words(b"CancelledError"),
    // Of Python 2.
    words(b"exceptions.StopIteration"),
    words(b"exceptions.GeneratorExit"),
];

/// Attached to `PyTraceBack_Here`.
#[uprobe]
pub(crate) fn on_traceback(_: ProbeContext) -> u32 {
    // SAFETY: the helper takes no arguments.
    let began_ns = unsafe { bpf_ktime_get_ns() };
    count(Counter::TRACEBACKS);
    let Some(windows) = RAISE_WINDOWS.get(0) else {
        return 0;
    };
    let raises = raises_per_sample(windows.weight(began_ns));
    note_run(began_ns, windows.detached, u64::from(raises != 0));
    if raises == 0 {
        return 0;
    }
    if !current::begin_probe() {
        count(Counter::LOST_RAISES);
        return 0;
    }
    if begin_raise(raises) != 0 {
        sample::take_raise();
    }
    current::end_probe();
    // SAFETY: as above.
    let ended_ns = unsafe { bpf_ktime_get_ns() };
    let ns = ended_ns.wrapping_sub(began_ns);
    add(Counter::PROBE_NS, ns.min(MAX_COUNTED_PROBE_NS));
    0
}

/// Has the time counted since the last run.
#[inline(always)]
fn note_run(began_ns: u64, detached: u64, is_recorded: u64) {
    let Some(gaps) = RAISE_GAPS.get_ptr_mut(0) else {
        return;
    };
    if kernel_offset(|layout| &layout.run_time_end) == 0
        || kernel_offset(|layout| &layout.migrations) == 0
    {
        return;
    }
    let task = Task::current();
    // SAFETY: the value lives as long as the map and belongs to this processor. Where another thread takes that in
    // between, a run may have parts of both, and few of millions of gaps are lost or wrong, each by less than a second.
    let gaps = unsafe { &mut *gaps };
    gaps.add(ProbeRun {
        thread: task.start_time(),
        migrations: task.migrations(),
        detached,
        began_ns,
        run_time_ns: task.run_time(),
        run_time_end_ns: task.run_time_end(),
        is_recorded,
    });
}

/// Prepares the sample of a thread that raises an exception; returns 0 where it does not.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn begin_raise(raises: u64) -> u32 {
    u32::from(try_begin_raise(raises).is_some())
}

/// For how many exceptions one of this weight stands, 0 where none is recorded: a number whose mean is the weight.
#[inline(always)]
fn raises_per_sample(weight: u64) -> u64 {
    let part = weight % WEIGHT_UNIT;
    // SAFETY: the helper takes no arguments.
    let is_above = part != 0 && u64::from(unsafe { bpf_get_prandom_u32() }) % WEIGHT_UNIT < part;
    weight / WEIGHT_UNIT + u64::from(is_above)
}

#[inline(always)]
fn try_begin_raise(raises: u64) -> Option<()> {
    let (sampler, _) = sample::begin_in_probe()?;
    sampler.measures(ProfileKind::EXCEPTIONS, 1, raises);
    if sampler.interpreters_head.get() == 0 || sample::find_state() != PythonOutcome::DONE.0 {
        return None;
    }
    let class = class_of_raise();
    if class == 0 || name_class(class) == 0 && WITH_CONTROL_FLOW.load() == 0 {
        return None;
    }
    Some(())
}

/// The address of the class of the exception that the thread raises, 0 where it raises none.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn class_of_raise() -> u64 {
    let Some(sampler) = current::sampler() else {
        return 0;
    };
    let memory = CurrentMemory::of(sampler);
    let Some(layout) = current::layout(sampler) else {
        return 0;
    };
    let state = sampler.thread.thread.states.first().address;
    raised_class(&memory, layout, state).0
}

/// Reads the name of a class of exceptions and sends it if it is new; returns 0 for one of [`CONTROL_FLOW`].
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn name_class(class: u64) -> u32 {
    const WORDS: usize = EXCEPTION_NAME_BYTES / 8;
    let Some(sampler) = current::sampler() else {
        return 1;
    };
    let memory = CurrentMemory::of(sampler);
    let Some(layout) = current::layout(sampler) else {
        return 1;
    };
    let name = memory.word_or_zero(UserAddr(class).field(layout.exception.class_name));
    let resend_before_ns = sampler.resend_before_ns.get();
    let now_ns = sampler.time_ns.get();
    let record = &mut sampler.exception;
    record.exception = 0;
    let mut text = [0_u64; WORDS];
    // SAFETY: the text has room for so many bytes; the helper checks the address.
    let bytes = unsafe {
        bpf_probe_read_user_str(
            (&raw mut text).cast(),
            EXCEPTION_NAME_BYTES as u32,
            name as *const _,
        )
    };
    if bytes <= 0 {
        // So that the page is loaded.
        let _ = memory.word(UserAddr(name));
        return 1;
    }
    let mut hash = Hash::new(HASH_SEED.load());
    for word in text {
        hash = hash.word(word);
    }
    let hash = hash.finish();
    *record = ExceptionName {
        header: Header {
            kind: RecordKind::EXCEPTION_NAME,
            reserved: 0,
            bytes: size_of::<ExceptionName>() as u32,
        },
        exception: hash,
        name: bytes_of(text),
    };
    let [first, second, third, ..] = text;
    let is_control_flow = CONTROL_FLOW
        .iter()
        .any(|of| of[0] == first && of[1] == second && of[2] == third);
    if !is_sent(&SENT_EXCEPTIONS, hash, resend_before_ns) {
        // SAFETY: the record is as long as it says.
        if unsafe { emit::send((&raw const *record).cast(), size_of::<ExceptionName>()) } {
            let _ = SENT_EXCEPTIONS.insert(hash, now_ns, 0);
        }
    }
    u32::from(!is_control_flow)
}

/// The words in memory.
#[inline(always)]
const fn bytes_of(words: [u64; EXCEPTION_NAME_BYTES / 8]) -> [u8; EXCEPTION_NAME_BYTES] {
    // SAFETY: both are as many bytes, of any value.
    unsafe { core::mem::transmute(words) }
}

/// The first words of a name that is ended by zeros.
const fn words(name: &[u8]) -> [u64; COMPARED_WORDS] {
    let mut words = [0; COMPARED_WORDS];
    let mut index = 0;
    while index < name.len() {
        words[index / 8] |= (name[index] as u64) << (8 * (index % 8));
        index += 1;
    }
    words
}
