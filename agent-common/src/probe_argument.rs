//! Where an argument of a USDT probe is when the probe is reached.
//!
//! Invariant: a location is one number, so that the kernel gives it to the program that runs at the probe.

use crate::{
    memory::{UserAddr, UserMemory},
    native::Registers,
};

/// Most bytes from a register to an argument, in both directions.
const MAX_OFFSET: i32 = (1 << 20) - 1;

/// Where an argument is: in a register, in memory near the address in a register, or nowhere because it is constant.
///
/// Bits 0 and 1 are the kind, 2 to 7 the word of [`Registers`], 8 and 9 the binary logarithm of the bytes, 10 whether
/// it is signed, and 11 to 31 the offset, or the constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProbeArgument(u32);

const REGISTER: u32 = 0;
const MEMORY: u32 = 1;
const CONSTANT: u32 = 2;

/// What is read of a register or of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Width {
    /// 1, 2, 4 or 8.
    pub bytes: u8,
    /// Whether the highest bit is the sign.
    pub is_signed: bool,
}

impl Width {
    fn bits(self) -> Option<u32> {
        let logarithm = match self.bytes {
            1 => 0,
            2 => 1,
            4 => 2,
            8 => 3,
            _ => return None,
        };
        Some(logarithm << 8 | u32::from(self.is_signed) << 10)
    }
}

impl ProbeArgument {
    /// In the register that is this word of [`Registers`].
    #[must_use]
    pub fn in_register(word: u8, width: Width) -> Option<Self> {
        Some(Self(REGISTER | word_bits(word)? | width.bits()?))
    }

    /// In memory, so far from the address in a register.
    #[must_use]
    pub fn in_memory(word: u8, offset: i32, width: Width) -> Option<Self> {
        Some(Self(
            MEMORY | word_bits(word)? | width.bits()? | number_bits(offset)?,
        ))
    }

    /// A constant.
    #[must_use]
    pub fn constant(value: i32) -> Option<Self> {
        Some(Self(CONSTANT | number_bits(value)?))
    }

    /// The number that stands for two arguments.
    #[must_use]
    pub fn pack(first: Self, second: Self) -> u64 {
        u64::from(first.0) << 32 | u64::from(second.0)
    }

    /// The two arguments for which a number stands.
    #[inline(always)]
    #[must_use]
    pub fn unpack(packed: u64) -> (Self, Self) {
        (Self((packed >> 32) as u32), Self(packed as u32))
    }

    /// The argument; [`None`] where it cannot be read.
    #[inline(always)]
    pub fn read<M: UserMemory>(self, registers: &Registers, memory: &M) -> Option<u64> {
        let number = i64::from(self.0.cast_signed() >> 11);
        if self.0 & 3 == CONSTANT {
            return Some(number.cast_unsigned());
        }
        let register = *registers.words.get((self.0 >> 2 & 0x3f) as usize)?;
        let value = if self.0 & 3 == REGISTER {
            register
        } else {
            memory
                .word(UserAddr(register.wrapping_add_signed(number)))
                .ok()?
        };
        let unused = 64 - (8 << (self.0 >> 8 & 3));
        let value = value << unused;
        Some(if self.0 & 1 << 10 == 0 {
            value >> unused
        } else {
            (value.cast_signed() >> unused).cast_unsigned()
        })
    }
}

fn word_bits(word: u8) -> Option<u32> {
    (word < 64).then_some(u32::from(word) << 2)
}

fn number_bits(number: i32) -> Option<u32> {
    (-MAX_OFFSET..=MAX_OFFSET)
        .contains(&number)
        .then_some(number.cast_unsigned() << 11)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Fault;

    /// Memory in which each word is its address.
    struct Addresses;

    impl UserMemory for Addresses {
        unsafe fn copy(&self, address: UserAddr, into: *mut u8, bytes: u32) -> Result<(), Fault> {
            assert_eq!(bytes, 8);
            // SAFETY: the caller's.
            unsafe { into.cast::<u64>().write_unaligned(address.0) };
            Ok(())
        }
    }

    fn read(argument: Option<ProbeArgument>) -> u64 {
        let mut registers = Registers::ZERO;
        registers.words[7] = 0x1_ffff_ff80;
        argument.unwrap().read(&registers, &Addresses).unwrap()
    }

    fn width(bytes: u8, is_signed: bool) -> Width {
        Width { bytes, is_signed }
    }

    #[test]
    fn an_argument_is_read_where_it_is() {
        let register = |width| read(ProbeArgument::in_register(7, width));
        assert_eq!(register(width(8, false)), 0x1_ffff_ff80);
        assert_eq!(register(width(4, false)), 0xffff_ff80);
        assert_eq!(register(width(1, false)), 0x80);
        assert_eq!(register(width(1, true)), (-128_i64).cast_unsigned());
        let memory = |offset| read(ProbeArgument::in_memory(7, offset, width(8, true)));
        assert_eq!(memory(-8), 0x1_ffff_ff78);
        assert_eq!(memory(MAX_OFFSET), 0x1_ffff_ff80 + (1 << 20) - 1);
        assert_eq!(read(ProbeArgument::constant(-3)), (-3_i64).cast_unsigned());
    }

    #[test]
    fn two_arguments_are_one_number() {
        let first = ProbeArgument::in_memory(19, -40, width(4, true)).unwrap();
        let second = ProbeArgument::constant(MAX_OFFSET).unwrap();
        assert_eq!(
            ProbeArgument::unpack(ProbeArgument::pack(first, second)),
            (first, second)
        );
    }

    #[test]
    fn what_has_no_room_is_refused() {
        assert!(ProbeArgument::constant(1 << 20).is_none());
        assert!(ProbeArgument::in_memory(7, i32::MIN, width(8, false)).is_none());
        assert!(ProbeArgument::in_register(64, width(8, false)).is_none());
        assert!(ProbeArgument::in_register(7, width(3, false)).is_none());
    }
}
