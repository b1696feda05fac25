//! Symbolic evaluation of DWARF expressions, for the few shapes that compilers and linkers emit.
//!
//! Values are symbolic: where they come from is known, not what they are:
//!
//! ```text
//! breg7 8                                       rsp + 8
//! breg6 -8; deref; plus_uconst 16               *(rbp - 8) + 16
//! breg7 8; breg9 0; lit8; mul; plus;            *(rsp + r9 * 8 + 8) + 8
//!     deref; plus_uconst 8
//! breg7 8; breg16 0; lit15; and;                rsp + 8, and 8 more if rip & 15 >= 11:
//!     lit11; ge; lit3; shl; plus                a procedure linkage table
//! ```
//!
//! Invariant: nothing is guessed: an unsupported shape has no value.

use gimli::{EndianSlice, Expression, LittleEndian, Operation, Register};

use super::arch::Arch;

pub(super) type Bytes<'a> = EndianSlice<'a, LittleEndian>;

/// Most operations of an expression; a procedure linkage table's has eight.
const MAX_OPERATIONS: usize = 32;

/// Bytes of an indexed word.
const WORD: i64 = 8;

/// Log2 of the bytes that an entry of a procedure linkage table pushes.
const PLT_SHIFT: i64 = 3;

/// An entry of a procedure linkage table has 16 bytes.
const PLT_MASK: i64 = 15;

/// A symbolic value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value {
    /// A constant.
    Constant(i64),
    /// The canonical frame address (CFA) plus an offset.
    Frame(i64),
    /// A register plus an offset.
    Register(Register, i64),
    /// The word at a register plus an offset, plus an addend.
    Dereferenced(Register, i64, i64),
    /// A register times the word size.
    Scaled(Register),
    /// The stack pointer plus a register times the word size plus an offset.
    Indexed(Register, i64),
    /// The word at [`Self::Indexed`], plus an addend.
    DereferencedIndexed(Register, i64, i64),
    /// The offset of the instruction in its entry of a procedure linkage table.
    EntryByte,
    /// 1 from this offset in an entry on, else 0.
    FromByte(i64),
    /// 8 from this offset in an entry on, else 0.
    WordFromByte(i64),
    /// The stack pointer plus an offset, and 8 more from an offset in an entry on.
    Plt(i64, i64),
}

/// Evaluates an expression, whose stack starts with `first` if there is one.
pub(super) fn run(
    arch: &Arch,
    expression: Expression<Bytes<'_>>,
    encoding: gimli::Encoding,
    first: Option<Value>,
) -> Option<Value> {
    let mut stack = Vec::from_iter(first);
    let mut operations = expression.operations(encoding);
    for _ in 0..MAX_OPERATIONS {
        let Some(operation) = operations.next().ok()? else {
            return stack.pop();
        };
        let value = match operation {
            Operation::Nop => continue,
            Operation::UnsignedConstant { value } => Value::Constant(value.cast_signed()),
            Operation::SignedConstant { value } => Value::Constant(value),
            Operation::RegisterOffset {
                register, offset, ..
            } => Value::Register(register, offset),
            Operation::PlusConstant { value } => {
                sum(arch, stack.pop()?, Value::Constant(value.cast_signed()))?
            }
            Operation::Deref {
                size: 8,
                space: false,
                ..
            } => word_at(stack.pop()?)?,
            operation => {
                let right = stack.pop()?;
                pair(arch, &operation, stack.pop()?, right)?
            }
        };
        stack.push(value);
    }
    None
}

fn word_at(address: Value) -> Option<Value> {
    match address {
        Value::Register(register, offset) => Some(Value::Dereferenced(register, offset, 0)),
        Value::Indexed(index, offset) => Some(Value::DereferencedIndexed(index, offset, 0)),
        _ => None,
    }
}

fn pair(arch: &Arch, operation: &Operation<Bytes<'_>>, left: Value, right: Value) -> Option<Value> {
    use Value::{Constant, EntryByte, FromByte, Register, Scaled, WordFromByte};
    match (operation, left, right) {
        (Operation::Plus, left, right) => sum(arch, left, right),
        (Operation::Minus, left, Constant(right)) => {
            sum(arch, left, Constant(right.checked_neg()?))
        }
        (Operation::Mul, Register(register, 0), Constant(WORD)) => Some(Scaled(register)),
        (Operation::And, Register(register, 0), Constant(PLT_MASK))
            if Some(register) == arch.instruction_pointer =>
        {
            Some(EntryByte)
        }
        (Operation::Ge, EntryByte, Constant(byte)) => Some(FromByte(byte)),
        (Operation::Shl, FromByte(byte), Constant(PLT_SHIFT)) => Some(WordFromByte(byte)),
        _ => None,
    }
}

fn sum(arch: &Arch, left: Value, right: Value) -> Option<Value> {
    use Value::{
        Constant, Dereferenced, DereferencedIndexed, Frame, Indexed, Plt, Register, Scaled,
        WordFromByte,
    };
    match (left, right) {
        (Constant(left), Constant(right)) => left.checked_add(right).map(Constant),
        (Frame(offset), Constant(more)) | (Constant(more), Frame(offset)) => {
            offset.checked_add(more).map(Frame)
        }
        (Register(register, offset), Constant(more))
        | (Constant(more), Register(register, offset)) => {
            Some(Register(register, offset.checked_add(more)?))
        }
        (Dereferenced(register, offset, addend), Constant(more))
        | (Constant(more), Dereferenced(register, offset, addend)) => {
            Some(Dereferenced(register, offset, addend.checked_add(more)?))
        }
        (DereferencedIndexed(index, offset, addend), Constant(more))
        | (Constant(more), DereferencedIndexed(index, offset, addend)) => Some(
            DereferencedIndexed(index, offset, addend.checked_add(more)?),
        ),
        (Register(register, offset), Scaled(index))
        | (Scaled(index), Register(register, offset))
            if register == arch.stack_pointer =>
        {
            Some(Indexed(index, offset))
        }
        (Register(register, offset), WordFromByte(byte))
        | (WordFromByte(byte), Register(register, offset))
            if register == arch.stack_pointer =>
        {
            Some(Plt(offset, byte))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Value, run};
    use crate::binaries::unwind::arch::Arch;
    use gimli::{EndianSlice, Expression, Format, LittleEndian, Register};
    use goblin::elf::header::EM_X86_64;
    use proptest::prelude::{any, prop, proptest};

    fn value(bytes: &[u8], first: Option<Value>) -> Option<Value> {
        let encoding = gimli::Encoding {
            address_size: 8,
            format: Format::Dwarf32,
            version: 1,
        };
        let expression = Expression(EndianSlice::new(bytes, LittleEndian));
        run(&Arch::of(EM_X86_64).unwrap(), expression, encoding, first)
    }

    #[test]
    fn supported_shapes_have_values() {
        let rsp = Register(7);
        // breg7 8
        assert_eq!(value(&[0x77, 8], None), Some(Value::Register(rsp, 8)));
        // breg7 8; lit8; minus; const1s -16; plus; nop
        let sum = [0x77, 8, 0x38, 0x1c, 0x09, 0xf0, 0x22, 0x96];
        assert_eq!(value(&sum, None), Some(Value::Register(rsp, -16)));
        // lit8; breg7 8; deref; plus
        let word = [0x38, 0x77, 8, 0x06, 0x22];
        assert_eq!(value(&word, None), Some(Value::Dereferenced(rsp, 8, 8)));
        // plus_uconst 8, from the CFA
        let from = Some(Value::Frame(0));
        assert_eq!(value(&[0x23, 8], from), Some(Value::Frame(8)));
        // breg7 8; breg9 0; lit8; mul; plus; deref; plus_uconst 16
        let indexed = [0x77, 8, 0x79, 0, 0x38, 0x1e, 0x22, 0x06, 0x23, 16];
        let index = gimli::X86_64::R9;
        assert_eq!(
            value(&indexed, None),
            Some(Value::DereferencedIndexed(index, 8, 16))
        );
        // breg7 8; breg16 0; lit15; and; lit10; ge; lit3; shl; plus
        let linkage = [0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3a, 0x2a, 0x33, 0x24, 0x22];
        assert_eq!(value(&linkage, None), Some(Value::Plt(8, 10)));
    }

    #[test]
    fn unsupported_shapes_have_none() {
        let unknown: [&[u8]; 9] = [
            // empty; plus on an empty stack; breg7 0; deref; deref
            &[],
            &[0x22],
            &[0x77, 0, 0x06, 0x06],
            // breg7 8; lit8; mul
            &[0x77, 8, 0x38, 0x1e],
            // breg7 0; deref_size 4
            &[0x77, 0, 0x94, 4],
            // breg0 0; lit15; and: not the address of an instruction
            &[0x70, 0, 0x3f, 0x1a],
            // the sum of two registers; one more than any number
            &[0x77, 0, 0x76, 0, 0x22],
            &[0x77, 1, 0x0e, 255, 255, 255, 255, 255, 255, 255, 127, 0x22],
            // a jump to itself
            &[0x2f, 0xfd, 0xff],
        ];
        for bytes in unknown {
            assert_eq!(value(bytes, None), None, "{bytes:x?}");
        }
        assert_eq!(value(&[&[0x77, 0][..], &[0x96; 40]].concat(), None), None);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let _ = value(&bytes, None);
            let _ = value(&bytes, Some(Value::Frame(i64::MAX)));
        }
    }
}
