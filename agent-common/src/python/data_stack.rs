//! A thread's data stack, on which the interpreter keeps its frames from 3.11 on.
//!
//! It is made of chunks; in each the frames lie side by side. Since a read costs the same
//! whatever its size, a *window* of the newest chunk is copied at once, and another one when the
//! walk leaves it, up to [`MAX_WINDOWS`] of them. Frames elsewhere (generators' are in the generator, entry frames on the C
//! stack, and all frames before 3.11) are copied one by one.

use crate::{
    layout::FrameLayout,
    limits::{MAX_WINDOWS, USER_ADDRESS_END, WINDOW_BYTES},
    memory::{Fault, UserAddr, UserMemory},
    scratch::{SLOT, Scratch},
    volatile::Volatile,
};

/// See [`DataStack::older_bytes`].
const NOT_READ: u64 = u64::MAX;

/// Which part of a data stack the window holds.
#[repr(C)]
#[derive(Debug)]
pub(super) struct DataStack {
    /// What the start of the window holds.
    window_start: Volatile<u64>,
    /// How much of the window is filled.
    window_bytes: Volatile<u64>,
    /// The chunk of the data stack that the walk is in.
    chunk_start: Volatile<u64>,
    /// Its size, or how much of it is in use.
    chunk_bytes: Volatile<u64>,
    /// The chunk before it.
    older_start: Volatile<u64>,
    /// The size of that, 0 when there is none, [`NOT_READ`] before it was read.
    older_bytes: Volatile<u64>,
    /// Windows that the sample has copied, of all data stacks.
    windows: Volatile<u32>,
}

impl DataStack {
    /// No data stack.
    #[must_use]
    pub(super) const fn new() -> Self {
        Self {
            window_start: Volatile::new(0),
            window_bytes: Volatile::new(0),
            chunk_start: Volatile::new(0),
            chunk_bytes: Volatile::new(0),
            older_start: Volatile::new(0),
            older_bytes: Volatile::new(NOT_READ),
            windows: Volatile::new(0),
        }
    }

    /// Another sample begins.
    #[inline(always)]
    pub(super) fn begin_sample(&mut self) {
        self.windows.set(0);
    }

    /// No data stack.
    #[inline(always)]
    pub(super) fn clear(&mut self) {
        self.window_start.set(0);
        self.window_bytes.set(0);
        self.chunk_start.set(0);
        self.chunk_bytes.set(0);
        self.older_bytes.set(NOT_READ);
    }

    /// Copies the newest part of the data stack whose newest chunk is at `chunk` and in use up
    /// to `top`.
    #[inline(always)]
    pub(super) fn begin<M: UserMemory>(
        &mut self,
        memory: &M,
        scratch: &mut Scratch,
        chunk: u64,
        top: u64,
    ) {
        if chunk.is_multiple_of(8) && top > chunk {
            self.chunk_start.set(chunk);
            self.chunk_bytes.set(top - chunk);
            self.load_window(memory, scratch, top);
        }
    }

    /// Copies the part of the chunk that ends at `end`; the window is empty when it cannot be
    /// read, or the sample has copied too many: a process may arrange its frames so that each needs
    /// another one.
    #[inline(always)]
    fn load_window<M: UserMemory>(&mut self, memory: &M, scratch: &mut Scratch, end: u64) {
        let windows = self.windows.get();
        if windows >= MAX_WINDOWS {
            self.window_bytes.set(0);
            return;
        }
        self.windows.set(windows + 1);
        let chunk = self.chunk_start.get();
        let lowest = end.wrapping_sub(WINDOW_BYTES as u64);
        let start = if end < WINDOW_BYTES as u64 || lowest < chunk {
            chunk
        } else {
            (lowest + 7) & !7
        };
        let bytes = end - start;
        self.window_start.set(start);
        self.window_bytes
            .set(match scratch.load_window(memory, UserAddr(start), bytes) {
                Ok(()) => bytes,
                Err(Fault) => 0,
            });
    }

    /// Copies the frame at `address` into the scratch memory and returns its offset there.
    ///
    /// # Errors
    ///
    /// [`Fault`] when it cannot be read.
    #[inline(always)]
    pub(super) fn locate<M: UserMemory>(
        &mut self,
        memory: &M,
        scratch: &mut Scratch,
        layout: &FrameLayout,
        address: UserAddr,
    ) -> Result<usize, Fault> {
        let bytes = u64::from(layout.bytes);
        let offset = address.0.wrapping_sub(self.window_start.get());
        if offset < WINDOW_BYTES as u64 && offset + bytes <= self.window_bytes.get() {
            return Ok(offset as usize);
        }
        if self.find_chunk(memory, scratch, address, bytes) {
            self.load_window(memory, scratch, address.0.wrapping_add(bytes));
            let offset = address.0.wrapping_sub(self.window_start.get());
            if offset + bytes <= self.window_bytes.get() {
                return Ok(offset as usize);
            }
        }
        scratch.load_slot(memory, address, layout.bytes)?;
        Ok(SLOT)
    }

    /// Whether the frame at `address` lies in the chunk of the data stack that the walk is in,
    /// or in the one before it, which the walk then enters.
    ///
    /// A chunk begins with the address of the one before it and its own size
    /// (`_PyStackChunk.previous`, `.size`).
    #[inline(always)]
    fn find_chunk<M: UserMemory>(
        &mut self,
        memory: &M,
        scratch: &Scratch,
        address: UserAddr,
        bytes: u64,
    ) -> bool {
        const SIZE: u16 = 8;
        // A window that could not be loaded is not part of a data stack.
        if self.window_bytes.get() == 0 {
            return false;
        }
        let chunk = self.chunk_start.get();
        let offset = address.0.wrapping_sub(chunk);
        let chunk_bytes = self.chunk_bytes.get();
        if offset < chunk_bytes {
            return offset + bytes <= chunk_bytes;
        }
        if self.older_bytes.get() == NOT_READ {
            let older = if self.window_start.get() == chunk {
                scratch.word(0)
            } else {
                memory.word_or_zero(UserAddr(chunk))
            };
            let older_bytes = if older == 0 {
                0
            } else {
                memory.word_or_zero(UserAddr(older).field(SIZE))
            };
            self.older_start.set(older);
            // A size as large as the address space is invalid.
            self.older_bytes.set(older_bytes & (USER_ADDRESS_END - 1));
        }
        let older_bytes = self.older_bytes.get();
        let offset = address.0.wrapping_sub(self.older_start.get());
        if offset >= older_bytes || offset + bytes > older_bytes {
            return false;
        }
        self.chunk_start.set(self.older_start.get());
        self.chunk_bytes.set(older_bytes);
        self.older_bytes.set(NOT_READ);
        true
    }
}

impl Default for DataStack {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::DataStack;
    use crate::{
        layout::{ABSENT, FrameLayout, InstructionStyle, RunStyle},
        limits::{FRAME_BYTES, MAX_VISITED, MAX_WINDOWS, WINDOW_BYTES},
        memory::{Fault, UserAddr, UserMemory},
        scratch::Scratch,
    };
    use core::cell::Cell;

    /// Memory that can be read everywhere.
    struct Counted(Cell<usize>);

    impl UserMemory for Counted {
        unsafe fn copy(&self, _: UserAddr, into: *mut u8, bytes: u32) -> Result<(), Fault> {
            self.0.set(self.0.get() + bytes as usize);
            // SAFETY: the caller vouches for `into`.
            unsafe { into.write_bytes(0, bytes as usize) };
            Ok(())
        }
    }

    #[test]
    fn frames_far_apart_do_not_each_cost_a_window() {
        const CHUNK: u64 = 0x10_0000;
        const CHUNK_BYTES: u64 = 64 * WINDOW_BYTES as u64;
        let layout = FrameLayout {
            bytes: FRAME_BYTES as u16,
            previous: 8,
            function: ABSENT,
            code: 0,
            instruction: 56,
            owner: 70,
            locals: 72,
            bytecode_copy: ABSENT,
            entry: ABSENT,
            run_style: RunStyle::EACH,
            instruction_style: InstructionStyle::POINTER,
            instruction_unit: 1,
        };
        let memory = Counted(Cell::new(0));
        let mut scratch = Scratch::new();
        let mut data_stack = DataStack::new();
        data_stack.begin(&memory, &mut scratch, CHUNK, CHUNK + CHUNK_BYTES);
        for visited in 0..u64::from(MAX_VISITED) {
            let far = if visited % 2 == 0 { 0 } else { CHUNK_BYTES / 2 };
            let frame = UserAddr(CHUNK + WINDOW_BYTES as u64 + far);
            data_stack
                .locate(&memory, &mut scratch, &layout, frame)
                .unwrap();
        }
        let most = MAX_WINDOWS as usize * WINDOW_BYTES + MAX_VISITED as usize * FRAME_BYTES;
        assert!(memory.0.get() <= most, "{} bytes", memory.0.get());
        // The next sample has windows again.
        data_stack.begin_sample();
        memory.0.set(0);
        data_stack.begin(&memory, &mut scratch, CHUNK, CHUNK + CHUNK_BYTES);
        assert_eq!(memory.0.get(), WINDOW_BYTES);
    }
}
