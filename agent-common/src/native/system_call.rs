//! The system call that a thread is in: as much of its [registers](Registers) as tells what is called, with which
//! arguments.
//!
//! Invariant: two runs of words beside each other, few enough for the stack of a BPF program.

use super::registers::Registers;

/// The numbers of the system calls `futex` and `futex_wake`.
#[cfg(not(any(target_arch = "aarch64", bpf_target_arch = "aarch64")))]
const FUTEX: u64 = 202;
#[cfg(any(target_arch = "aarch64", bpf_target_arch = "aarch64"))]
const FUTEX: u64 = 98;
const FUTEX_WAKE: u64 = 454;

/// The number of the system call `mremap`.
#[cfg(not(any(target_arch = "aarch64", bpf_target_arch = "aarch64")))]
pub const MREMAP: u64 = 25;
/// The number of the system call `mremap`.
#[cfg(any(target_arch = "aarch64", bpf_target_arch = "aarch64"))]
pub const MREMAP: u64 = 216;

/// Words with arguments: `r10` to `rdi` on x86-64, `x1` to `x4` on aarch64.
#[cfg(not(any(target_arch = "aarch64", bpf_target_arch = "aarch64")))]
const ARGUMENT_WORDS: usize = 8;
#[cfg(any(target_arch = "aarch64", bpf_target_arch = "aarch64"))]
const ARGUMENT_WORDS: usize = 4;

/// What is read of the registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SystemCall {
    /// The words from [`Self::FIRST_ARGUMENT`] on.
    pub arguments: [u64; ARGUMENT_WORDS],
    /// The words from [`Self::FIRST_STATE`] on.
    pub state: [u64; 3],
}

impl SystemCall {
    /// Index in [`Registers::words`] of the first word of [`arguments`](Self::arguments).
    #[cfg(not(any(target_arch = "aarch64", bpf_target_arch = "aarch64")))]
    pub const FIRST_ARGUMENT: usize = 7;
    /// Index in [`Registers::words`] of the first word of [`arguments`](Self::arguments).
    #[cfg(any(target_arch = "aarch64", bpf_target_arch = "aarch64"))]
    pub const FIRST_ARGUMENT: usize = 1;

    /// Index in [`Registers::words`] of the first word of [`state`](Self::state), which has the number of the call and
    /// the mode of the processor.
    pub const FIRST_STATE: usize = if Registers::MODE < Registers::SYSTEM_CALL {
        Registers::MODE
    } else {
        Registers::SYSTEM_CALL
    };

    /// The number of the call; [`None`] when the thread is in none, as after an interrupt.
    #[inline(always)]
    #[must_use]
    pub fn number(&self) -> Option<u64> {
        let number = self.state[Registers::SYSTEM_CALL - Self::FIRST_STATE] as u32;
        // -1 in none.
        (number.cast_signed() >= 0).then_some(number.into())
    }

    /// Whether it is of a 64-bit program.
    #[inline(always)]
    #[must_use]
    pub fn is_of_64_bits(&self) -> bool {
        Registers::is_mode_of_64_bits(self.state[Registers::MODE - Self::FIRST_STATE])
    }

    /// Whether a 64-bit program wakes threads with it that wait for this word of memory.
    #[inline(always)]
    #[must_use]
    pub fn wakes(&self, word: u64) -> bool {
        /// Bits `FUTEX_PRIVATE_FLAG` and `FUTEX_CLOCK_REALTIME`.
        const FLAGS: u64 = 0x180;
        /// `FUTEX_WAKE`, `FUTEX_REQUEUE`, `FUTEX_CMP_REQUEUE`, `FUTEX_WAKE_OP`, `FUTEX_UNLOCK_PI` and
        /// `FUTEX_WAKE_BITSET`, as bits.
        const WAKES: u64 = 1 << 1 | 1 << 3 | 1 << 4 | FUTEX_WAKE_OP | 1 << 7 | 1 << 10;
        const FUTEX_WAKE_OP: u64 = 1 << 5;

        let [first, operation, _, _, fifth] = self.first_arguments();
        let number = self.number();
        if !self.is_of_64_bits() || word == 0 {
            return false;
        }
        if number == Some(FUTEX_WAKE) {
            return first == word;
        }
        let operation = operation & 0xffff_ffff & !FLAGS;
        if number != Some(FUTEX) || operation > 63 {
            return false;
        }
        let operation = 1 << operation;
        operation & WAKES != 0 && (first == word || operation == FUTEX_WAKE_OP && fifth == word)
    }

    /// At the end of `mremap` of a 64-bit program: where memory was, and how many bytes of it are elsewhere if it was
    /// moved. [`None`] for another call.
    #[inline(always)]
    #[must_use]
    pub fn remapped(&self) -> Option<(u64, u64)> {
        let [from, before, now, ..] = self.first_arguments();
        (self.number() == Some(MREMAP) && self.is_of_64_bits()).then_some((from, before.min(now)))
    }

    /// The first five arguments of a 64-bit program.
    #[cfg(not(any(target_arch = "aarch64", bpf_target_arch = "aarch64")))]
    #[inline(always)]
    fn first_arguments(&self) -> [u64; 5] {
        // `r8` comes behind `r9`, and `rax` and `rcx` are between them and `rdx`.
        let [r10, _, r8, _, _, rdx, rsi, rdi] = self.arguments;
        [rdi, rsi, rdx, r10, r8]
    }

    /// The first five arguments of a 64-bit program.
    #[cfg(any(target_arch = "aarch64", bpf_target_arch = "aarch64"))]
    #[inline(always)]
    fn first_arguments(&self) -> [u64; 5] {
        // `orig_x0`: the register itself has the result when the call ends.
        let first = self.state[1];
        let [x1, x2, x3, x4] = self.arguments;
        [first, x1, x2, x3, x4]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OF_64_BITS: u64 = if cfg!(target_arch = "aarch64") {
        0
    } else {
        0x33
    };
    const OF_32_BITS: u64 = if cfg!(target_arch = "aarch64") {
        0x10
    } else {
        0x23
    };

    /// A call with the first, the second, the third and the fifth argument.
    fn call(number: u64, mode: u64, [first, second, third, fifth]: [u64; 4]) -> SystemCall {
        let arguments = Some((
            number.try_into().unwrap(),
            [first, second, third, 0, fifth, 0],
        ));
        let mut registers = Registers::at_rest(arguments, 0x7ffe_0000, 0x40_0000);
        registers.words[Registers::MODE] = mode;
        SystemCall::of(&registers)
    }

    fn wakes(number: u64, [first, second, fifth]: [u64; 3], word: u64) -> bool {
        call(number, OF_64_BITS, [first, second, 0, fifth]).wakes(word)
    }

    impl SystemCall {
        fn of(registers: &Registers) -> Self {
            let words = |first: usize| &registers.words[first..];
            let (arguments, _) = words(Self::FIRST_ARGUMENT).split_first_chunk().unwrap();
            let (state, _) = words(Self::FIRST_STATE).split_first_chunk().unwrap();
            Self {
                arguments: *arguments,
                state: *state,
            }
        }
    }

    #[test]
    fn who_wakes_the_threads_that_wait_for_a_word_is_in_a_call_that_does() {
        const WORD: u64 = 0x7f00_0010;
        // `FUTEX_WAKE_PRIVATE`, `FUTEX_WAKE_BITSET`, `FUTEX_CMP_REQUEUE_PRIVATE`.
        for operation in [0x81, 10, 0x84] {
            assert!(wakes(FUTEX, [WORD, operation, 0], WORD));
            assert!(!wakes(FUTEX, [WORD + 8, operation, WORD], WORD));
        }
        // `FUTEX_WAKE_OP_PRIVATE` has two words.
        assert!(wakes(FUTEX, [WORD + 8, 0x85, WORD], WORD));
        assert!(wakes(FUTEX_WAKE, [WORD, 0, 0], WORD));
        // `FUTEX_WAIT`, `FUTEX_WAIT_BITSET`, no operation, and another call.
        for operation in [0x80, 0x89, 64, u64::MAX] {
            assert!(!wakes(FUTEX, [WORD, operation, WORD], WORD));
        }
        assert!(!wakes(0, [WORD, 0x81, 0], WORD));
        assert!(!wakes(FUTEX, [0, 0x81, 0], 0));
        assert!(!call(FUTEX, OF_32_BITS, [WORD, 0x81, 0, 0]).wakes(WORD));
        let in_none = SystemCall::of(&Registers::at_rest(None, 0x7ffe_0000, 0x40_0000));
        assert_eq!(in_none.number(), None);
        assert!(!in_none.wakes(WORD));
    }

    #[test]
    fn memory_that_is_moved_is_as_much_as_was_there_and_is() {
        let moved =
            |mode, before, now| call(MREMAP, mode, [0x7f00_0000, before, now, 0]).remapped();
        assert_eq!(moved(OF_64_BITS, 4096, 8192), Some((0x7f00_0000, 4096)));
        assert_eq!(moved(OF_64_BITS, 8192, 4096), Some((0x7f00_0000, 4096)));
        assert_eq!(moved(OF_32_BITS, 8192, 4096), None);
        let other = call(FUTEX, OF_64_BITS, [0x7f00_0000, 4096, 8192, 0]);
        assert_eq!(other.remapped(), None);
    }
}
