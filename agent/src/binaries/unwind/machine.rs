//! The registers that matter, by DWARF's numbers.

use gimli::{Register, Vendor};
use goblin::elf::header::{EM_AARCH64, EM_X86_64};

/// A kind of machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Machine {
    pub(super) stack_pointer: Register,
    pub(super) frame_pointer: Register,
    /// The one that counts as the base of frames besides, if any.
    pub(super) base: Option<Register>,
    pub(super) return_address: Register,
    /// What stands for the address of the instruction in procedure linkage tables, if any.
    pub(super) instruction_pointer: Option<Register>,
    /// The general registers are those below.
    general: u16,
    /// Whether a call leaves the return address in its register, not on the stack.
    pub(super) has_link_register: bool,
    /// Whose instructions are understood besides the common ones.
    pub(super) vendor: Vendor,
}

const X86_64: Machine = Machine {
    stack_pointer: gimli::X86_64::RSP,
    frame_pointer: gimli::X86_64::RBP,
    base: Some(gimli::X86_64::RBX),
    return_address: gimli::X86_64::RA,
    instruction_pointer: Some(gimli::X86_64::RA),
    general: 16,
    has_link_register: false,
    vendor: Vendor::Default,
};

const AARCH64: Machine = Machine {
    stack_pointer: gimli::AArch64::SP,
    frame_pointer: gimli::AArch64::X29,
    base: None,
    return_address: gimli::AArch64::X30,
    instruction_pointer: None,
    general: 32,
    has_link_register: true,
    vendor: Vendor::AArch64,
};

impl Machine {
    /// The machine of an ELF header, if it is one that is known.
    pub(super) const fn of(machine: u16) -> Option<Self> {
        match machine {
            EM_X86_64 => Some(X86_64),
            EM_AARCH64 => Some(AARCH64),
            _ => None,
        }
    }

    /// The number of a general register.
    pub(super) fn general(&self, register: Register) -> Option<u8> {
        u8::try_from(register.0)
            .ok()
            .filter(|number| u16::from(*number) < self.general)
    }
}
