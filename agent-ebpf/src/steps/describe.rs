//! What are the code objects that are seen for the first time?

use agent_common::{
    code::{DESCRIPTION_BYTES, Description, Known, read_head},
    counter::Counter,
    held::masked,
    limits::{LINE_TABLE_PIECE_BYTES, LINE_TABLE_PIECES},
    memory::{Fault, UserAddr},
    trust::Trust,
};

use crate::{
    code_objects::OfProcess,
    emit,
    maps::{CODE_OBJECTS, DESCRIPTION, HASH_SEED, PROCESSES, SENT_SYMBOLS, count},
    memory::Current,
    sampler::Sampler,
};

/// Bits of the bytes of a record: a mask that the verifier sees.
const RECORD_MASK: u32 = 16_383;

const _: () = assert!(DESCRIPTION_BYTES <= RECORD_MASK as usize);
const _: () = assert!(size_of::<Description>() > RECORD_MASK as usize);

/// Describes the code object of the `nth` frame that was kept, if that has to be done.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn describe(nth: u32) -> u32 {
    match try_describe(nth) {
        Some(Ok(())) => 1,
        Some(Err(Fault)) => {
            count(Counter::CODE_FAULTS);
            0
        }
        None => 0,
    }
}

#[inline(always)]
fn try_describe(nth: u32) -> Option<Result<(), Fault>> {
    let sampler = Sampler::current()?;
    let layout = sampler.layout()?;
    let description = DESCRIPTION.get_ptr_mut(0)?;
    // SAFETY: the value is this processor's own, and no other reference to it is made.
    let description = unsafe { &mut *description };
    let code = sampler.walk.unresolved(nth)?;
    let code_objects = OfProcess::of(sampler);
    let scratch = &mut sampler.scratch;
    let Ok(head) = read_head(&Current, scratch, layout, code) else {
        return Some(Err(Fault));
    };
    let key = code_objects.key(code);
    if let Some(known) = CODE_OBJECTS.get_ptr(key)
        // SAFETY: values of the map stay readable while the program runs.
        && unsafe { (*known).head == head }
    {
        // An earlier frame of the same stack had it.
        return None;
    }
    let Ok(symbol) = description.read(&Current, scratch, layout, &head, HASH_SEED.load()) else {
        return Some(Err(Fault));
    };
    if SENT_SYMBOLS.get_ptr(symbol).is_none() {
        if !send(
            description,
            UserAddr(head.line_table).field(layout.text.bytes_data),
        ) {
            count(Counter::LOST_CODE_OBJECTS);
            return None;
        }
        count(Counter::CODE_OBJECTS);
        let _ = SENT_SYMBOLS.insert(symbol, 1, 0);
    }
    let known = Known {
        symbol,
        head,
        trust: Trust::new(code_objects.now_ns),
    };
    let _ = CODE_OBJECTS.insert(key, known, 0);
    if let Some(process) = PROCESSES.get_ptr_mut(sampler.tgid.get()) {
        // SAFETY: values of the map stay writable while the program runs; two processors may
        // write at the same time, and either time is right.
        unsafe { (*process).new_code_ns = code_objects.now_ns };
    }
    Some(Ok(()))
}

/// Sends the description, and then the rest of the line table that starts at `line_table`.
#[inline(always)]
fn send(description: &mut Description, line_table: UserAddr) -> bool {
    let bytes = masked(description.head.header.bytes, RECORD_MASK);
    // SAFETY: a description has room for all that the mask allows.
    if !unsafe { emit::send((&raw const *description).cast(), bytes as usize) } {
        return false;
    }
    let mut start = LINE_TABLE_PIECE_BYTES as u32;
    let mut pieces = 0;
    while pieces < LINE_TABLE_PIECES {
        let from = UserAddr(line_table.0.wrapping_add(u64::from(start)));
        let Ok(bytes) = description.read_piece(&Current, from, start) else {
            return false;
        };
        if bytes == 0 {
            break;
        }
        let bytes = masked(bytes, RECORD_MASK);
        // SAFETY: as above.
        if !unsafe { emit::send((&raw const *description).cast(), bytes as usize) } {
            return false;
        }
        start += LINE_TABLE_PIECE_BYTES as u32;
        pieces += 1;
    }
    true
}
