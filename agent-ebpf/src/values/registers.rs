//! The registers of a thread in user space.

use agent_common::native::NativeWalk;

/// `pt_regs`, as the kernel saves them on entry.
#[repr(C)]
#[derive(Clone, Copy)]
#[cfg(not(bpf_target_arch = "aarch64"))]
pub(crate) struct Registers {
    /// `r15` to `ss`, in the order of the structure.
    pub(crate) words: [u64; 21],
}

/// `pt_regs`, as the kernel saves them on entry, up to `pstate`.
#[repr(C)]
#[derive(Clone, Copy)]
#[cfg(bpf_target_arch = "aarch64")]
pub(crate) struct Registers {
    /// `regs[31]`, `sp`, `pc` and `pstate`.
    pub(crate) words: [u64; 34],
}

impl Registers {
    /// Index of the word that contains the mode of the processor.
    #[cfg(not(bpf_target_arch = "aarch64"))]
    pub(crate) const MODE: usize = 17;
    #[cfg(bpf_target_arch = "aarch64")]
    pub(crate) const MODE: usize = 33;

    /// Whether the processor ran code of a program, not of the kernel.
    #[cfg(not(bpf_target_arch = "aarch64"))]
    #[inline(always)]
    pub(crate) fn is_user_mode(code_segment: u64) -> bool {
        code_segment & 3 == 3
    }

    #[cfg(bpf_target_arch = "aarch64")]
    #[inline(always)]
    pub(crate) fn is_user_mode(state: u64) -> bool {
        /// `PSR_MODE_MASK`; 0 is that of programs.
        const MODE: u64 = 0xf;
        state & MODE == 0
    }

    #[cfg(not(bpf_target_arch = "aarch64"))]
    #[inline(always)]
    pub(crate) fn are_of_64_bits(&self) -> bool {
        /// `__USER_CS`.
        const CODE_SEGMENT: u64 = 0x33;
        self.words[Self::MODE] == CODE_SEGMENT
    }

    #[cfg(bpf_target_arch = "aarch64")]
    #[inline(always)]
    pub(crate) fn are_of_64_bits(&self) -> bool {
        /// `PSR_MODE32_BIT` and the bits of the exception level.
        const MODE: u64 = 0x1f;
        self.words[Self::MODE] & MODE == 0
    }

    /// Starts a walk at these registers.
    #[cfg(not(bpf_target_arch = "aarch64"))]
    #[inline(always)]
    pub(crate) fn begin(&self, walk: &mut NativeWalk) {
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
    #[cfg(bpf_target_arch = "aarch64")]
    #[inline(always)]
    pub(crate) fn begin(&self, walk: &mut NativeWalk) {
        let mut nth = 0;
        while nth < 32 {
            walk.set_register(nth as u8, self.words[nth]);
            nth += 1;
        }
        walk.begin(self.words[32]);
    }
}
