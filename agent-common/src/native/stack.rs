//! The native stack: frames of the kernel, native frames and runs of Python frames, and their
//! record.

use core::mem::offset_of;

use crate::{
    hash::Hash,
    limits::{MAX_KERNEL_FRAMES, MAX_NATIVE_FRAMES, MAX_PYTHON_RUNS},
    record::{Header, NativeFrame, NativeKind, NativeStackHead, RecordKind},
    volatile::{Volatile, masked},
};

use super::location::CodeLocation;

/// Kernel frames, native frames and runs of Python frames of one stack.
pub const MAX_ENTRIES: usize = 1024;

const _: () = assert!(MAX_KERNEL_FRAMES + MAX_NATIVE_FRAMES + MAX_PYTHON_RUNS <= MAX_ENTRIES);

/// The entries of a stack.
#[repr(C)]
#[derive(Debug)]
pub struct NativeStack {
    hash: Volatile<Hash>,
    /// Native frames that were pushed.
    kept: Volatile<u32>,
    /// Python frames that have no entry yet.
    pending: Volatile<u32>,
    /// Entries.
    count: Volatile<u32>,
    reserved: u32,
    /// The head of the record; the entries follow it directly.
    pub head: NativeStackHead,
    /// The entries, leaf first.
    pub frames: [NativeFrame; MAX_ENTRIES],
}

const NO_FRAME: NativeFrame = NativeFrame {
    address: 0,
    id_or_count: 0,
    kind: NativeKind(0),
};

const NO_STACK: NativeStackHead = NativeStackHead {
    header: Header {
        kind: RecordKind::NATIVE_STACK,
        reserved: 0,
        bytes: 0,
    },
    stack: 0,
    frame_count: 0,
    reserved: 0,
};

impl NativeStack {
    /// No frames.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            hash: Volatile::new(Hash::new(0)),
            kept: Volatile::new(0),
            pending: Volatile::new(0),
            count: Volatile::new(0),
            reserved: 0,
            head: NO_STACK,
            frames: [NO_FRAME; MAX_ENTRIES],
        }
    }

    /// Removes all frames; hashes begin from `seed`.
    #[inline(always)]
    pub(super) fn clear(&mut self, seed: u64) {
        self.hash.set(Hash::new(seed));
        self.kept.set(0);
        self.pending.set(0);
        self.count.set(0);
    }

    /// Adds Python frames that get an entry before the next native frame.
    #[inline(always)]
    pub(super) fn add_pending(&mut self, frames: u32) {
        self.pending.set(self.pending.get().wrapping_add(frames));
    }

    /// Adds a kernel frame.
    #[inline(always)]
    pub fn push_kernel_frame(&mut self, address: u64) {
        self.push(NativeFrame {
            address,
            id_or_count: 0,
            kind: NativeKind::KERNEL,
        });
    }

    /// Adds a native frame, after the pending Python frames; [`false`] when there is no room.
    #[inline(always)]
    pub(super) fn push_frame(&mut self, place: &CodeLocation) -> bool {
        let kept = self.kept.get();
        if kept >= MAX_NATIVE_FRAMES as u32 {
            return false;
        }
        self.kept.set(kept + 1);
        self.push_pending_run();
        self.push(NativeFrame {
            address: place.address,
            id_or_count: place.file_or_pid,
            kind: place.kind,
        });
        true
    }

    /// Adds an entry for the pending Python frames.
    #[inline(always)]
    pub fn push_pending_run(&mut self) {
        let pending = self.pending.get();
        if pending == 0 {
            return;
        }
        self.pending.set(0);
        self.push(NativeFrame {
            address: 0,
            id_or_count: pending,
            kind: NativeKind::PYTHON,
        });
    }

    #[inline(always)]
    fn push(&mut self, frame: NativeFrame) {
        let count = self.count.get();
        if count >= MAX_ENTRIES as u32 {
            return;
        }
        self.count.set(count + 1);
        self.frames[masked(count, MAX_ENTRIES as u32 - 1) as usize] = frame;
        let hash = self.hash.get();
        let hash = hash
            .word(frame.address)
            .word(u64::from(frame.kind.0) << 32 | u64::from(frame.id_or_count));
        self.hash.set(hash);
    }

    /// The hash of the stack; 0 when it has no frames.
    #[inline(always)]
    #[must_use]
    pub fn hash(&self) -> u64 {
        if self.count.get() == 0 {
            0
        } else {
            self.hash.get().finish()
        }
    }

    /// Fills in the head of the record; returns the bytes of the record.
    #[inline(always)]
    pub fn finish_record(&mut self) -> usize {
        let count = self.count.get() as usize & (2 * MAX_ENTRIES - 1);
        let bytes = size_of::<NativeStackHead>() + count * size_of::<NativeFrame>();
        self.head = NativeStackHead {
            header: Header {
                kind: RecordKind::NATIVE_STACK,
                reserved: 0,
                bytes: bytes as u32,
            },
            stack: self.hash(),
            frame_count: count as u32,
            reserved: 0,
        };
        bytes
    }

    /// Fills in the head of the record as of a stack that no other sample has, since its walk is to be continued; returns
    /// its hash. `sample` tells samples apart.
    #[inline(always)]
    pub fn finish_unique_record(&mut self, sample: [u64; 2]) -> u64 {
        let [first, second] = sample;
        let stack = self.hash.get().word(first).word(second).finish();
        self.finish_record();
        self.head.stack = stack;
        stack
    }

    /// Native frames that it has.
    #[inline(always)]
    #[must_use]
    pub fn kept(&self) -> u32 {
        self.kept.get()
    }

    /// Counts so many native frames as its own that are in another stack, which it continues.
    #[cfg(feature = "user")]
    pub(super) fn continue_from(&mut self, kept: u32) {
        self.kept.set(kept);
    }

    /// The entries, leaf first.
    #[cfg(feature = "user")]
    #[must_use]
    pub fn entries(&self) -> &[NativeFrame] {
        let count = self.count.get() as usize;
        self.frames.get(..count).unwrap_or_default()
    }

    /// The bytes of the record that was finished last.
    #[must_use]
    pub fn record(&self) -> &[u8] {
        const START: usize = offset_of!(NativeStack, head);
        let bytes = (size_of::<Self>() - START).min(self.head.header.bytes as usize);
        // SAFETY: from its head on a walk is made of integers without padding between them, and
        // the record is no longer than that.
        unsafe { core::slice::from_raw_parts((&raw const *self).cast::<u8>().add(START), bytes) }
    }
}

impl Default for NativeStack {
    fn default() -> Self {
        Self::new()
    }
}
