//! The registers of a thread in user space.

use super::walk::NativeWalk;

/// `pt_regs`, as the kernel saves them on entry.
#[repr(C)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg(not(any(target_arch = "aarch64", bpf_target_arch = "aarch64")))]
pub struct Registers {
    /// `r15` to `ss`, in the order of the structure.
    pub words: [u64; 21],
}

/// `pt_regs`, as the kernel saves them on entry, up to `syscallno`.
#[repr(C)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg(any(target_arch = "aarch64", bpf_target_arch = "aarch64"))]
pub struct Registers {
    /// `regs[31]`, `sp`, `pc`, `pstate`, `orig_x0` and `syscallno`.
    pub words: [u64; 36],
}

impl Registers {
    /// No registers.
    pub const ZERO: Self = Self {
        words: [0; Self::WORDS],
    };

    #[cfg(not(any(target_arch = "aarch64", bpf_target_arch = "aarch64")))]
    const WORDS: usize = 21;
    #[cfg(any(target_arch = "aarch64", bpf_target_arch = "aarch64"))]
    const WORDS: usize = 36;

    /// Index of the word that contains the mode of the processor.
    #[cfg(not(any(target_arch = "aarch64", bpf_target_arch = "aarch64")))]
    pub const MODE: usize = 17;
    /// Index of the word that contains the mode of the processor.
    #[cfg(any(target_arch = "aarch64", bpf_target_arch = "aarch64"))]
    pub const MODE: usize = 33;

    /// Whether the processor ran code of a program, not of the kernel.
    #[cfg(not(any(target_arch = "aarch64", bpf_target_arch = "aarch64")))]
    #[inline(always)]
    #[must_use]
    pub fn is_user_mode(code_segment: u64) -> bool {
        code_segment & 3 == 3
    }

    /// Whether the processor ran code of a program, not of the kernel.
    #[cfg(any(target_arch = "aarch64", bpf_target_arch = "aarch64"))]
    #[inline(always)]
    #[must_use]
    pub fn is_user_mode(state: u64) -> bool {
        /// `PSR_MODE_MASK`; 0 is that of programs.
        const MODE: u64 = 0xf;
        state & MODE == 0
    }

    /// Whether they are those of a 64-bit program.
    #[cfg(not(any(target_arch = "aarch64", bpf_target_arch = "aarch64")))]
    #[inline(always)]
    #[must_use]
    pub fn are_of_64_bits(&self) -> bool {
        /// `__USER_CS`.
        const CODE_SEGMENT: u64 = 0x33;
        self.words[Self::MODE] == CODE_SEGMENT
    }

    /// Whether they are those of a 64-bit program.
    #[cfg(any(target_arch = "aarch64", bpf_target_arch = "aarch64"))]
    #[inline(always)]
    #[must_use]
    pub fn are_of_64_bits(&self) -> bool {
        /// `PSR_MODE32_BIT` and the bits of the exception level.
        const MODE: u64 = 0x1f;
        self.words[Self::MODE] & MODE == 0
    }

    /// The number of the system call that the thread is in, and its arguments; [`None`] when it is in
    /// none, as after an interrupt.
    #[cfg(all(feature = "user", not(target_arch = "aarch64")))]
    #[must_use]
    pub fn system_call(&self) -> Option<(u32, [u64; 6])> {
        /// `rdi`, `rsi`, `rdx`, `r10`, `r8`, `r9`; those of 32-bit calls are `ebx`, `ecx`, `edx`, `esi`,
        /// `edi`, `ebp`.
        const ARGUMENTS: [usize; 6] = [14, 13, 12, 7, 9, 8];
        const ARGUMENTS_32: [usize; 6] = [5, 11, 12, 13, 14, 4];
        // `orig_ax`.
        let number = u32::try_from(self.words[15]).ok()?;
        let places = if self.are_of_64_bits() {
            ARGUMENTS
        } else {
            ARGUMENTS_32
        };
        Some((number, places.map(|place| self.words[place])))
    }

    /// The number of the system call that the thread is in, and its arguments; [`None`] when it is in
    /// none, as after an interrupt.
    #[cfg(all(feature = "user", target_arch = "aarch64"))]
    #[must_use]
    pub fn system_call(&self) -> Option<(u32, [u64; 6])> {
        let words = &self.words;
        let number = u32::try_from((words[35] as u32).cast_signed()).ok()?;
        // The first register has the result already when a call is restarted.
        Some((
            number,
            [words[34], words[1], words[2], words[3], words[4], words[5]],
        ))
    }

    /// The stack pointer.
    #[cfg(feature = "user")]
    #[must_use]
    pub fn stack_pointer(&self) -> u64 {
        const PLACE: usize = if cfg!(target_arch = "aarch64") {
            31
        } else {
            19
        };
        self.words[PLACE]
    }

    /// Starts a walk at these registers.
    #[cfg(not(any(target_arch = "aarch64", bpf_target_arch = "aarch64")))]
    #[inline(always)]
    pub fn begin(&self, walk: &mut NativeWalk) {
        /// DWARF's numbers of the words, up to `rdi`.
        const NUMBERS: [u8; 15] = [15, 14, 13, 12, 6, 3, 11, 10, 9, 8, 0, 2, 1, 4, 5];
        let mut nth = 0;
        while nth < NUMBERS.len() {
            walk.set_register(NUMBERS[nth], self.words[nth]);
            nth += 1;
        }
        walk.set_register(7, self.words[19]);
        walk.begin(self.words[16]);
    }

    /// Starts a walk at these registers.
    #[cfg(any(target_arch = "aarch64", bpf_target_arch = "aarch64"))]
    #[inline(always)]
    pub fn begin(&self, walk: &mut NativeWalk) {
        let mut nth = 0;
        while nth < 32 {
            walk.set_register(nth as u8, self.words[nth]);
            nth += 1;
        }
        walk.begin(self.words[32]);
    }
}
