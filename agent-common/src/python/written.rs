//! What of a Python object a thread writes to.

use crate::{
    layout::Layout,
    memory::{UserAddr, UserMemory},
    record::MemoryType,
};

/// `Py_TPFLAGS_TYPE_SUBCLASS`: instances are classes.
const TYPE_SUBCLASS: u64 = 1 << 31;

/// `Py_TPFLAGS_HAVE_GC`: instances are collected.
const HAVE_GC: u64 = 1 << 14;

/// Words in the largest `PyGC_Head`.
const GC_HEAD_WORDS: u64 = 4;

/// `ob_tid`, `ob_ref_local` and `ob_ref_shared` of an object in a free-threaded build.
const FREE_THREADED_COUNTS: [u64; 3] = [0, 12, 16];

/// `ob_gc_bits` of one.
const FREE_THREADED_GC_BITS: u64 = 11;

/// What is at the address to which a thread writes: the reference count of an object, what the garbage collector keeps
/// with it, or [`MemoryType::DATA`], which is all that is neither.
///
/// An object is what has a class, and a class is an object whose own class makes classes. Reads at most 16 words.
#[inline(always)]
#[must_use]
pub fn written_part<M: UserMemory>(memory: &M, layout: &Layout, address: UserAddr) -> MemoryType {
    if layout.is_free_threaded() {
        for offset in FREE_THREADED_COUNTS {
            if class_flags(memory, layout, address.0.wrapping_sub(offset)).is_some() {
                return MemoryType::REFERENCE_COUNT;
            }
        }
        let object = address.0.wrapping_sub(FREE_THREADED_GC_BITS);
        return match class_flags(memory, layout, object) {
            Some(_) => MemoryType::GC_HEADER,
            None => MemoryType::DATA,
        };
    }
    if class_flags(memory, layout, address.0).is_some() {
        return MemoryType::REFERENCE_COUNT;
    }
    let head = u64::from(layout.object.gc_head);
    for words in 1..=GC_HEAD_WORDS {
        let object = address.0.wrapping_add(8 * words);
        if 8 * words <= head
            && class_flags(memory, layout, object).is_some_and(|flags| flags & HAVE_GC != 0)
        {
            return MemoryType::GC_HEADER;
        }
    }
    MemoryType::DATA
}

/// The flags of the class of the object at an address; [`None`] where there is no object.
#[inline(always)]
fn class_flags<M: UserMemory>(memory: &M, layout: &Layout, object: u64) -> Option<u64> {
    let fields = &layout.object;
    let class = pointer(memory, UserAddr(object), fields.class)?;
    let metaclass = pointer(memory, class, fields.class)?;
    if word(memory, metaclass.field(fields.class_flags())) & TYPE_SUBCLASS == 0 {
        return None;
    }
    Some(word(memory, class.field(fields.class_flags())))
}

/// The pointer in a field of a structure; [`None`] where there can be no structure, or the pointer is to none.
#[inline(always)]
fn pointer<M: UserMemory>(memory: &M, structure: UserAddr, field: u16) -> Option<UserAddr> {
    if !structure.could_be_structure() {
        return None;
    }
    let pointer = UserAddr(word(memory, structure.field(field)));
    pointer.could_be_structure().then_some(pointer)
}

/// A word, zero where it cannot be read: for what is no object no page has to be loaded.
#[inline(always)]
fn word<M: UserMemory>(memory: &M, address: UserAddr) -> u64 {
    let mut word = 0_u64;
    // SAFETY: `word` is eight bytes.
    match unsafe { memory.try_copy(address, (&raw mut word).cast(), 8) } {
        Ok(()) => word,
        Err(_) => 0,
    }
}
