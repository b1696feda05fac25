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

    /// Index of the word that contains the number of the system call.
    #[cfg(not(any(target_arch = "aarch64", bpf_target_arch = "aarch64")))]
    pub const SYSTEM_CALL: usize = 15;
    /// Index of the word that contains the number of the system call.
    #[cfg(any(target_arch = "aarch64", bpf_target_arch = "aarch64"))]
    pub const SYSTEM_CALL: usize = 35;

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
    #[inline(always)]
    #[must_use]
    pub fn are_of_64_bits(&self) -> bool {
        Self::is_mode_of_64_bits(self.words[Self::MODE])
    }

    /// Whether the word with the [mode](Self::MODE) is that of a 64-bit program.
    #[cfg(not(any(target_arch = "aarch64", bpf_target_arch = "aarch64")))]
    #[inline(always)]
    #[must_use]
    pub fn is_mode_of_64_bits(mode: u64) -> bool {
        /// `__USER_CS`.
        const CODE_SEGMENT: u64 = 0x33;
        mode == CODE_SEGMENT
    }

    /// Whether the word with the [mode](Self::MODE) is that of a 64-bit program.
    #[cfg(any(target_arch = "aarch64", bpf_target_arch = "aarch64"))]
    #[inline(always)]
    #[must_use]
    pub fn is_mode_of_64_bits(mode: u64) -> bool {
        /// `PSR_MODE32_BIT` and the bits of the exception level.
        const MODE: u64 = 0x1f;
        mode & MODE == 0
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

    /// What is known of those of a 64-bit program that is in a system call, if one is given, without its registers: its
    /// number and its arguments, the stack pointer, and the address of the next instruction. The others are 0.
    #[cfg(all(feature = "user", not(target_arch = "aarch64")))]
    #[must_use]
    pub fn at_rest(call: Option<(u32, [u64; 6])>, stack_pointer: u64, instruction: u64) -> Self {
        /// `rdi`, `rsi`, `rdx`, `r10`, `r8`, `r9`.
        const ARGUMENTS: [usize; 6] = [14, 13, 12, 7, 9, 8];

        let mut registers = Self::ZERO;
        registers.words[Self::SYSTEM_CALL] = u64::MAX;
        if let Some((number, arguments)) = call {
            registers.words[Self::SYSTEM_CALL] = number.into();
            for (place, argument) in ARGUMENTS.into_iter().zip(arguments) {
                registers.words[place] = argument;
            }
        }
        registers.words[16] = instruction;
        // `__USER_CS`.
        registers.words[Self::MODE] = 0x33;
        registers.words[19] = stack_pointer;
        registers
    }

    /// What is known of those of a 64-bit program that is in a system call, if one is given, without its registers: its
    /// number and its arguments, the stack pointer, and the address of the next instruction. The others are 0.
    #[cfg(all(feature = "user", target_arch = "aarch64"))]
    #[must_use]
    pub fn at_rest(call: Option<(u32, [u64; 6])>, stack_pointer: u64, instruction: u64) -> Self {
        let mut registers = Self::ZERO;
        registers.words[Self::SYSTEM_CALL] = u64::MAX;
        if let Some((number, arguments)) = call {
            registers.words[Self::SYSTEM_CALL] = number.into();
            registers.words[34] = arguments[0];
            registers.words[..6].copy_from_slice(&arguments);
        }
        registers.words[31] = stack_pointer;
        registers.words[32] = instruction;
        registers
    }

    /// Those of the caller, where a call has led to an address that is no code: nothing of it was executed.
    /// `at_stack_pointer` is the word at the stack pointer.
    #[cfg(all(feature = "user", not(target_arch = "aarch64")))]
    #[must_use]
    pub fn of_caller(&self, at_stack_pointer: u64) -> Self {
        let mut caller = *self;
        // Within the call instruction, behind which the function may end.
        caller.words[16] = at_stack_pointer.wrapping_sub(1);
        caller.words[19] = self.words[19].wrapping_add(8);
        caller
    }

    /// Those of the caller, where a call has led to an address that is no code: nothing of it was executed.
    /// The word at the stack pointer is not used: the return address is in a register.
    #[cfg(all(feature = "user", target_arch = "aarch64"))]
    #[must_use]
    pub fn of_caller(&self, _: u64) -> Self {
        let mut caller = *self;
        caller.words[32] = self.words[30].wrapping_sub(1);
        caller
    }

    /// The stack pointer.
    #[inline(always)]
    #[must_use]
    pub fn stack_pointer(&self) -> u64 {
        const PLACE: usize = if cfg!(any(target_arch = "aarch64", bpf_target_arch = "aarch64")) {
            31
        } else {
            19
        };
        self.words[PLACE]
    }

    /// The address of the next instruction.
    #[cfg(feature = "user")]
    #[must_use]
    pub fn instruction(&self) -> u64 {
        const PLACE: usize = if cfg!(target_arch = "aarch64") {
            32
        } else {
            16
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

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn a_thread_at_rest_is_in_its_system_call() {
        let arguments = [1, 2, 3, 4, 5, 6];
        let registers = Registers::at_rest(Some((202, arguments)), 0x7f00_0000, 0x40_0000);
        assert!(registers.are_of_64_bits());
        assert_eq!(registers.system_call(), Some((202, arguments)));
        assert_eq!(registers.stack_pointer(), 0x7f00_0000);
        let in_none = Registers::at_rest(None, 0x7f00_0000, 0x40_0000);
        assert!(in_none.are_of_64_bits() && in_none.system_call().is_none());
    }

    #[test]
    fn the_caller_is_behind_the_call() {
        let mut registers = Registers::at_rest(None, 0x7ffe_0000, 0x10);
        registers.words[5] = 7;
        let caller = registers.of_caller(0x40_1005);
        assert_eq!(caller.instruction(), 0x40_1004);
        assert_eq!(caller.stack_pointer(), 0x7ffe_0008);
        assert_eq!(caller.words[5], 7);
    }
}
