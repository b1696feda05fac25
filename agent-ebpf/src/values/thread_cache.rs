//! What the samples of one thread have in common, side by side in memory.
//!
//! Between two samples of a thread the memory that the programs use is evicted from the caches of
//! the processor: what counts is how many places a sample visits. The frames of a thread are mostly
//! those of its last sample, so what was looked up for them is kept together, in the order of the
//! frames.
//!
//! Invariants: threads share a value, and two processors may write it at the same time: every entry
//! has a check sum, and one that does not match it is none. An entry contains all that it depends
//! on, the process included, so that it is right for whichever thread finds it.

use agent_common::{
    maps::TrackedThread, native::CodeLocation, record::NativeKind, unwind::Rule, volatile::masked,
};

use super::{CachedLocation, CodeCacheEntry};

/// Entries of [`ThreadCache::code`].
pub(crate) const CACHED_FRAMES: usize = 64;

/// Entries of [`ThreadCache::locations`].
const CACHED_NATIVE_FRAMES: usize = 64;

/// Entries of [`SentHashes`].
const SENT_HASHES: usize = 8;

/// Mixes numbers (2^64 divided by the golden ratio, odd).
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// What the samples of a thread have in common.
#[repr(C)]
pub(crate) struct ThreadCache {
    /// The thread itself.
    pub(crate) thread: Checked<CachedThread>,
    /// Where the native stack began at the last sample, 0 where that is not known.
    pub(crate) stack_start: u64,
    /// Python stacks.
    pub(crate) stacks: SentHashes,
    /// Native stacks.
    pub(crate) native_stacks: SentHashes,
    /// The code objects of the root-most frames, root first.
    code: [Checked<CodeCacheEntry>; CACHED_FRAMES],
    /// The locations of the code of native frames, by their stack pointers.
    locations: [Checked<CachedLocation>; CACHED_NATIVE_FRAMES],
}

impl ThreadCache {
    /// The entry of the frame with `from_root` others nearer the root; one further from it shares
    /// the entry of one that is not.
    #[inline(always)]
    pub(crate) fn code(&mut self, from_root: u32) -> &mut Checked<CodeCacheEntry> {
        &mut self.code[masked(from_root, CACHED_FRAMES as u32 - 1) as usize]
    }

    /// The entry of the native frame with this stack pointer. Frames that lie side by side have
    /// entries that do.
    #[inline(always)]
    pub(crate) fn location(&mut self, stack_pointer: u64) -> &mut Checked<CachedLocation> {
        let place = masked((stack_pointer >> 5) as u32, CACHED_NATIVE_FRAMES as u32 - 1);
        &mut self.locations[place as usize]
    }
}

/// A thread, as in the map `THREADS`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct CachedThread {
    pub(crate) thread: TrackedThread,
    /// Its id, in the initial PID namespace.
    pub(crate) tid: u64,
}

/// Stacks that were sent lately.
#[repr(C)]
pub(crate) struct SentHashes([u64; SENT_HASHES]);

impl SentHashes {
    /// Whether the stack was noted as sent; `resend_before_ns` as at that time.
    #[inline(always)]
    pub(crate) fn has(&self, hash: u64, resend_before_ns: u64) -> bool {
        self.0[Self::index(hash)] == Self::entry(hash, resend_before_ns)
    }

    /// Notes that the stack was sent.
    #[inline(always)]
    pub(crate) fn add(&mut self, hash: u64, resend_before_ns: u64) {
        self.0[Self::index(hash)] = Self::entry(hash, resend_before_ns);
    }

    #[inline(always)]
    fn index(hash: u64) -> usize {
        masked(hash as u32, SENT_HASHES as u32 - 1) as usize
    }

    #[inline(always)]
    fn entry(hash: u64, resend_before_ns: u64) -> u64 {
        hash ^ resend_before_ns.wrapping_mul(MULTIPLIER)
    }
}

/// A value with its check sum.
#[repr(C)]
pub(crate) struct Checked<T> {
    value: T,
    sum: u64,
}

/// What has a check sum: structures of words of eight bytes without padding.
pub(crate) trait Summed: Copy {
    /// The check sum, not 0 for zeros.
    fn sum(&self) -> u64;
}

impl<T: Summed> Checked<T> {
    /// The value, which is whole if its check sum is right.
    #[inline(always)]
    pub(crate) fn get(&self) -> (&T, bool) {
        (&self.value, self.value.sum() == self.sum)
    }

    #[inline(always)]
    pub(crate) fn set(&mut self, value: &T) {
        copy(value, &mut self.value);
        self.sum = value.sum();
    }
}

impl Summed for CodeCacheEntry {
    #[inline(always)]
    fn sum(&self) -> u64 {
        let rest = u64::from(self.tgid) << 32
            | u64::from(self.valid_units) << 16
            | u64::from(self.first_traceable_bytes);
        !(self.symbol ^ spread(self.code) ^ spread(self.revalidated_ns).rotate_left(1) ^ rest)
    }
}

impl Summed for CachedLocation {
    #[inline(always)]
    fn sum(&self) -> u64 {
        let CodeLocation {
            address,
            rule,
            file_or_pid,
            kind: NativeKind(kind),
            table,
            reserved: _,
        } = self.location;
        let [first, second] = words(rule);
        let rest = u64::from(file_or_pid) << 32 | u64::from(kind) << 16 | u64::from(table.0);
        let code = spread(self.address) ^ spread(self.epoch).rotate_left(1) ^ address;
        !(code ^ spread(first) ^ spread(second).rotate_left(1) ^ rest)
    }
}

impl Summed for CachedThread {
    #[inline(always)]
    fn sum(&self) -> u64 {
        let words = (&raw const *self).cast::<u64>();
        let mut sum = 0;
        let mut nth = 0;
        while nth < size_of::<Self>() / 8 {
            // SAFETY: the structure consists of as many words, without padding.
            sum = spread(sum ^ unsafe { *words.add(nth) });
            nth += 1;
        }
        !sum
    }
}

/// Copies a value word by word: the compiler would copy a large one byte by byte.
#[inline(always)]
pub(crate) fn copy<T: Summed>(from: &T, into: &mut T) {
    let (from, into) = (
        (&raw const *from).cast::<u64>(),
        (&raw mut *into).cast::<u64>(),
    );
    let mut nth = 0;
    while nth < size_of::<T>() / 8 {
        // SAFETY: such values consist of words, and these are within them.
        unsafe { into.add(nth).write_volatile(from.add(nth).read_volatile()) };
        nth += 1;
    }
}

#[inline(always)]
fn spread(word: u64) -> u64 {
    word.wrapping_mul(MULTIPLIER)
}

/// A rule as numbers.
#[inline(always)]
fn words(rule: Rule) -> [u64; 2] {
    // SAFETY: a rule is 16 bytes of integers without padding.
    unsafe { core::mem::transmute(rule) }
}
