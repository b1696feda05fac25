//! What native code of an architecture has in common: its registers, as DWARF numbers them, and
//! what the kernel saves of them for a signal handler.
//!
//! Sources: System V ABI, AMD64 supplement, figure 3.36; DWARF for the Arm 64-bit architecture,
//! section 4.1; the kernel's `uapi/asm/sigcontext.h` and `uapi/asm/ucontext.h` of both.

/// An architecture, as far as native frames are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arch {
    /// DWARF's number of the stack pointer.
    pub stack_pointer: u8,
    /// That of the frame pointer.
    pub frame_pointer: u8,
    /// That of the register that some frames are counted from when they realign their stack.
    pub base: u8,
    /// That of the register that a call puts the return address into, if one does.
    pub link: Option<u8>,
    /// That of the first and of the last of the registers that functions must not change, and that
    /// are not followed when they save them.
    pub untracked: (u8, u8),
    /// Where, from the stack pointer of the code that a signal handler returns to, the kernel has
    /// saved the registers [`saved`](Self::saved), in bytes.
    pub signal_registers: u64,
    /// The registers that it has saved there side by side, by DWARF's numbers, and the program
    /// counter as [`PROGRAM_COUNTER`].
    pub saved: &'static [u8],
    /// The first eight bytes of what a signal handler returns to: the system call
    /// `rt_sigreturn`.
    pub signal_return: u64,
    /// Bits of a code address that count: the others may hold its signature.
    pub code_mask: u64,
}

/// Stands for the program counter among saved registers.
pub const PROGRAM_COUNTER: u8 = 0xff;

/// Registers that are kept, by DWARF's numbers.
pub const REGISTER_COUNT: usize = 32;

impl Arch {
    /// x86-64.
    pub const X86_64: Self = Self {
        stack_pointer: 7,
        frame_pointer: 6,
        base: 3,
        link: None,
        // `r12` to `r15`.
        untracked: (12, 15),
        // `uc_flags`, `uc_link` and `uc_stack` come before.
        signal_registers: 40,
        saved: &[
            8,
            9,
            10,
            11,
            12,
            13,
            14,
            15,
            5,
            4,
            6,
            3,
            1,
            0,
            2,
            7,
            PROGRAM_COUNTER,
        ],
        // `mov $15, %rax` and the first byte of `syscall`.
        signal_return: 0x0f00_0000_0fc0_c748,
        code_mask: u64::MAX,
    };

    /// aarch64.
    pub const AARCH64: Self = Self {
        stack_pointer: 31,
        frame_pointer: 29,
        base: 19,
        link: Some(30),
        untracked: (19, 28),
        // `siginfo_t`, then `uc_flags` to `uc_sigmask` with its padding and `fault_address`.
        signal_registers: 128 + 176 + 8,
        saved: &[
            0,
            1,
            2,
            3,
            4,
            5,
            6,
            7,
            8,
            9,
            10,
            11,
            12,
            13,
            14,
            15,
            16,
            17,
            18,
            19,
            20,
            21,
            22,
            23,
            24,
            25,
            26,
            27,
            28,
            29,
            30,
            31,
            PROGRAM_COUNTER,
        ],
        // `mov x8, #139`, `svc #0`.
        signal_return: 0xd400_0001_d280_1168,
        code_mask: (1 << 48) - 1,
    };

    /// The one that this is built for.
    pub const CURRENT: Self = if cfg!(any(target_arch = "aarch64", bpf_target_arch = "aarch64")) {
        Self::AARCH64
    } else {
        Self::X86_64
    };
}
