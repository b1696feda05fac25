//! Registers of the supported architectures, by their DWARF numbers.

use gimli::{Register, Vendor};
use goblin::elf::header::{EM_AARCH64, EM_X86_64};

/// What unwinding needs of an architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Arch {
    pub(super) stack_pointer: Register,
    pub(super) frame_pointer: Register,
    /// The second register that frames are relative to, if any.
    pub(super) base: Option<Register>,
    pub(super) return_address: Register,
    /// The instruction pointer in expressions of procedure linkage tables, if any.
    pub(super) instruction_pointer: Option<Register>,
    /// Numbers of general-purpose registers are less than this.
    general: u16,
    /// Whether calls store the return address in a register, not on the stack.
    pub(super) has_link_register: bool,
    /// Vendor of additional call-frame instructions.
    pub(super) vendor: Vendor,
}

const X86_64: Arch = Arch {
    stack_pointer: gimli::X86_64::RSP,
    frame_pointer: gimli::X86_64::RBP,
    base: Some(gimli::X86_64::RBX),
    return_address: gimli::X86_64::RA,
    instruction_pointer: Some(gimli::X86_64::RA),
    general: 16,
    has_link_register: false,
    vendor: Vendor::Default,
};

const AARCH64: Arch = Arch {
    stack_pointer: gimli::AArch64::SP,
    frame_pointer: gimli::AArch64::X29,
    base: None,
    return_address: gimli::AArch64::X30,
    instruction_pointer: None,
    general: 32,
    has_link_register: true,
    vendor: Vendor::AArch64,
};

impl Arch {
    /// The architecture of an ELF header's `e_machine`, if it is supported.
    pub(super) const fn of(machine: u16) -> Option<Self> {
        match machine {
            EM_X86_64 => Some(X86_64),
            EM_AARCH64 => Some(AARCH64),
            _ => None,
        }
    }

    /// The number of a general-purpose register.
    pub(super) fn general(&self, register: Register) -> Option<u8> {
        u8::try_from(register.0)
            .ok()
            .filter(|number| u16::from(*number) < self.general)
    }
}
