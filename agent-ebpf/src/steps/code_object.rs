//! The steps that read and send the code objects that are new.

use agent_common::{
    counter::Counter,
    limits::{
        DESCRIPTION_PERIOD_NS, LINE_TABLE_PIECE_BYTES, LINE_TABLE_PIECES, MAX_DESCRIBED_BYTES,
        MAX_PROCESS_DESCRIBED_BYTES,
    },
    maps::CachedCode,
    memory::{Fault, UserAddr},
    python::{CODE_OBJECT_RECORD_BYTES, CodeObjectRecord, HASH_STEPS, HASHED_WORDS, read_identity},
    volatile::masked,
};

use crate::{
    code_objects::ProcessCode,
    current, emit,
    maps::{CODE_OBJECTS, HASH_SEED, PROCESS_STATES, SENT_SYMBOLS, count, is_sent},
    memory::CurrentMemory,
    values::{CACHED_FRAMES, Sampler},
};

/// Mask of the bytes of a record, as the bound that the verifier needs.
const RECORD_MASK: u32 = 16_383;

const _: () = assert!(CODE_OBJECT_RECORD_BYTES <= RECORD_MASK as usize);
const _: () = assert!(size_of::<CodeObjectRecord>() > RECORD_MASK as usize);

/// Finds the symbol of the code object at `code`, that of the frame with `from_root` others nearer
/// the root; reads and sends the code object if that has to be. 0 when it has no symbol, else it is
/// [`Sampler::resolved`].
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn resolve(code: u64, from_root: u32) -> u32 {
    if find_symbol(code, from_root) != 0 {
        return 1;
    }
    if may_read() == 0 {
        count(Counter::DEFERRED_CODE_OBJECTS);
        return 0;
    }
    if read_code_object(code) == 0 {
        return 0;
    }
    let symbol = finish_code_object();
    send_code_object(symbol)
}

/// Finds the symbol of a code object that was sent; 0 when there is none.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn find_symbol(code: u64, from_root: u32) -> u32 {
    u32::from(try_find_symbol(UserAddr(code), from_root).is_some())
}

#[inline(always)]
fn try_find_symbol(code: UserAddr, from_root: u32) -> Option<()> {
    let sampler = current::sampler()?;
    let process = ProcessCode::of(sampler);
    let table = current::code_cache()?.entry(code);
    let entry = if let Some(symbol) = process.fresh(code, table) {
        sampler.resolved.set(symbol);
        *table
    } else {
        let memory = CurrentMemory::of(sampler);
        let layout = current::layout(sampler)?;
        let scratch = &mut sampler.scratch;
        let (symbol, age) = process.revalidated(&memory, scratch, layout, code)?;
        sampler.resolved.set(symbol);
        *table = process.entry(code, symbol, age);
        *table
    };
    if from_root < CACHED_FRAMES as u32 {
        current::thread_cache(sampler.tid.get())?
            .code(from_root)
            .set(&entry);
    }
    Some(())
}

/// Whether the sample may read another code object: a process that makes ever new ones must not take
/// the time of the processor, nor fill the ring buffer.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn may_read() -> u32 {
    u32::from(try_may_read().unwrap_or(false))
}

#[inline(always)]
fn try_may_read() -> Option<bool> {
    let sampler = current::sampler()?;
    if sampler.described_bytes.get() >= MAX_DESCRIBED_BYTES {
        return Some(false);
    }
    let state = PROCESS_STATES.get_ptr(sampler.tgid.get())?;
    // SAFETY: values of the map stay readable while the program runs.
    let state = unsafe { &*state };
    let age_ns = sampler.time_ns.get().wrapping_sub(state.described_since_ns);
    let is_over = age_ns >= DESCRIPTION_PERIOD_NS;
    Some(is_over || state.described_bytes < MAX_PROCESS_DESCRIBED_BYTES)
}

/// Notes that so many bytes of a code object were read.
#[inline(always)]
fn note_read(sampler: &mut Sampler, bytes: u32) -> Option<()> {
    let so_far = sampler.described_bytes.get();
    sampler.described_bytes.set(so_far.wrapping_add(bytes));
    let state = PROCESS_STATES.get_ptr_mut(sampler.tgid.get())?;
    let now_ns = sampler.time_ns.get();
    // SAFETY: values of the map stay writable while the program runs. What another processor notes at
    // the same time may be left out.
    unsafe {
        let age_ns = now_ns.wrapping_sub((*state).described_since_ns);
        if age_ns >= DESCRIPTION_PERIOD_NS {
            (*state).described_since_ns = now_ns;
            (*state).described_bytes = 0;
        }
        (*state).described_bytes = (*state).described_bytes.saturating_add(bytes);
    }
    Some(())
}

/// Reads the code object; 0 when it cannot be read.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn read_code_object(code: u64) -> u32 {
    match try_read(UserAddr(code)) {
        Some(Ok(())) => 1,
        Some(Err(Fault)) => {
            count(Counter::CODE_FAULTS);
            0
        }
        None => 0,
    }
}

#[inline(always)]
fn try_read(code: UserAddr) -> Option<Result<(), Fault>> {
    let sampler = current::sampler()?;
    let memory = CurrentMemory::of(sampler);
    let layout = current::layout(sampler)?;
    let scratch = &mut sampler.scratch;
    let Ok(identity) = read_identity(&memory, scratch, layout, code) else {
        return Some(Err(Fault));
    };
    sampler.code = code.0;
    sampler.code_identity = identity;
    let record = current::code_object_record()?;
    let result = record.read(&memory, scratch, layout, &identity);
    if result.is_ok() {
        note_read(sampler, record.head.header.bytes);
    }
    Some(result)
}

/// Hashes the record: that is the symbol of the code object.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn finish_code_object() -> u64 {
    try_finish().unwrap_or(0)
}

#[inline(always)]
fn try_finish() -> Option<u64> {
    let hash = current::code_object_record()?.begin_hash(HASH_SEED.load());
    current::sampler()?.code_hash.set(hash);
    let mut step = 0;
    while step < HASH_STEPS && hash_code_object(step * HASHED_WORDS) != 0 {
        step += 1;
    }
    let hash = current::sampler()?.code_hash.get();
    Some(current::code_object_record()?.set_symbol(hash))
}

/// Hashes a part of the record, from the word `first` on; 0 when that is its end.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn hash_code_object(first: u32) -> u32 {
    let (Some(sampler), Some(record)) = (current::sampler(), current::code_object_record()) else {
        return 0;
    };
    let hash = record.hash_words(sampler.code_hash.get(), first);
    sampler.code_hash.set(hash);
    u32::from(first.wrapping_add(HASHED_WORDS) < record.payload_words())
}

/// Sends the record unless it was sent before, and caches the symbol of the code object.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn send_code_object(symbol: u64) -> u32 {
    u32::from(try_send(symbol).is_some())
}

#[inline(always)]
fn try_send(symbol: u64) -> Option<()> {
    let sampler = current::sampler()?;
    if !is_sent(&SENT_SYMBOLS, symbol, sampler.resend_before_ns.get()) {
        if !send(current::code_object_record()?) {
            count(Counter::LOST_CODE_OBJECTS);
            return None;
        }
        count(Counter::CODE_OBJECTS);
        let _ = SENT_SYMBOLS.insert(symbol, sampler.time_ns.get(), 0);
    }
    let code_objects = ProcessCode::of(sampler);
    let cached = CachedCode::new(symbol, sampler.code_identity, code_objects.now_ns);
    let key = code_objects.key(UserAddr(sampler.code));
    let _ = CODE_OBJECTS.insert(key, cached, 0);
    sampler.resolved.set(cached.code_symbol());
    sampler.new_code_ns.set(code_objects.now_ns);
    if let Some(state) = PROCESS_STATES.get_ptr_mut(sampler.tgid.get()) {
        // SAFETY: values of the map stay writable while the program runs; two processors may
        // write at the same time, and either time is right.
        unsafe { (*state).new_code_ns = code_objects.now_ns };
    }
    Some(())
}

/// Sends the record, and then the rest of the line table, piece by piece.
#[inline(always)]
fn send(record: &CodeObjectRecord) -> bool {
    let bytes = masked(record.head.header.bytes, RECORD_MASK);
    // SAFETY: a record has room for all that the mask allows.
    if !unsafe { emit::send((&raw const *record).cast(), bytes as usize) } {
        return false;
    }
    let mut start = LINE_TABLE_PIECE_BYTES as u32;
    let mut pieces = 0;
    let mut sent = SENT;
    while sent == SENT && pieces < LINE_TABLE_PIECES {
        sent = send_line_table_piece(start);
        start += LINE_TABLE_PIECE_BYTES as u32;
        pieces += 1;
    }
    sent != NOT_SENT
}

/// The piece could not be read or sent.
const NOT_SENT: u32 = 0;
/// It was sent.
const SENT: u32 = 1;
/// There is no such piece.
const NO_PIECE: u32 = 2;

/// Sends the piece of the line table that starts at `start`.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn send_line_table_piece(start: u32) -> u32 {
    try_send_line_table_piece(start).unwrap_or(NOT_SENT)
}

#[inline(always)]
fn try_send_line_table_piece(start: u32) -> Option<u32> {
    let sampler = current::sampler()?;
    let layout = current::layout(sampler)?;
    let line_table = UserAddr(sampler.code_identity.line_table).field(layout.text.bytes_data);
    let from = UserAddr(line_table.0.wrapping_add(u64::from(start)));
    let memory = CurrentMemory::of(sampler);
    let record = current::code_object_record()?;
    let bytes = record.read_line_table_piece(&memory, from, start).ok()?;
    if bytes == 0 {
        return Some(NO_PIECE);
    }
    note_read(sampler, bytes);
    let bytes = masked(bytes, RECORD_MASK);
    // SAFETY: a record has room for all that the mask allows.
    let is_sent = unsafe { emit::send((&raw const *record).cast(), bytes as usize) };
    is_sent.then_some(SENT)
}
