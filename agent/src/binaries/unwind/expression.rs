//! What a DWARF expression comes to, for the few shapes that compilers and linkers write.
//!
//! An expression is run on values that are not known, only where they come from:
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
//! Invariant: nothing is guessed at: a shape that is not understood comes to nothing.

use gimli::{EndianSlice, Expression, LittleEndian, Operation, Register};

use super::machine::Machine;

pub(super) type Bytes<'a> = EndianSlice<'a, LittleEndian>;

/// Most operations that are looked at; a procedure linkage table takes eight.
const MAX_OPERATIONS: usize = 32;

/// Bytes of what is indexed.
const WORD: i64 = 8;

/// Log2 of what a procedure linkage table pushes.
const LINKAGE_SHIFT: i64 = 3;

/// An entry of a procedure linkage table has 16 bytes.
const LINKAGE_MASK: i64 = 15;

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value {
    /// It is this.
    Constant(i64),
    /// It is so far from the canonical frame address.
    Frame(i64),
    /// It is so far from what a register holds.
    Register(Register, i64),
    /// It is the word there, plus so much.
    Dereferenced(Register, i64, i64),
    /// It is what a register holds, in words.
    Scaled(Register),
    /// It is so many words as a register holds from the stack pointer, and so many bytes.
    Indexed(Register, i64),
    /// It is the word there, plus so much.
    DereferencedIndexed(Register, i64, i64),
    /// It is the byte of the entry of a procedure linkage table that is run.
    EntryByte,
    /// It is 1 from this byte on, and 0 before.
    FromByte(i64),
    /// It is 8 from this byte on, and 0 before.
    WordFromByte(i64),
    /// It is so far from the stack pointer, and 8 more from a byte on.
    Linkage(i64, i64),
}

/// Runs an expression that starts with the value `first`, if any.
pub(super) fn run(
    machine: &Machine,
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
                sum(machine, stack.pop()?, Value::Constant(value.cast_signed()))?
            }
            Operation::Deref {
                size: 8,
                space: false,
                ..
            } => word_at(stack.pop()?)?,
            operation => {
                let right = stack.pop()?;
                pair(machine, &operation, stack.pop()?, right)?
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

fn pair(
    machine: &Machine,
    operation: &Operation<Bytes<'_>>,
    left: Value,
    right: Value,
) -> Option<Value> {
    use Value::{Constant, EntryByte, FromByte, Register, Scaled, WordFromByte};
    match (operation, left, right) {
        (Operation::Plus, left, right) => sum(machine, left, right),
        (Operation::Minus, left, Constant(right)) => {
            sum(machine, left, Constant(right.checked_neg()?))
        }
        (Operation::Mul, Register(register, 0), Constant(WORD)) => Some(Scaled(register)),
        (Operation::And, Register(register, 0), Constant(LINKAGE_MASK))
            if Some(register) == machine.instruction_pointer =>
        {
            Some(EntryByte)
        }
        (Operation::Ge, EntryByte, Constant(byte)) => Some(FromByte(byte)),
        (Operation::Shl, FromByte(byte), Constant(LINKAGE_SHIFT)) => Some(WordFromByte(byte)),
        _ => None,
    }
}

fn sum(machine: &Machine, left: Value, right: Value) -> Option<Value> {
    use Value::{
        Constant, Dereferenced, DereferencedIndexed, Frame, Indexed, Linkage, Register, Scaled,
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
            if register == machine.stack_pointer =>
        {
            Some(Indexed(index, offset))
        }
        (Register(register, offset), WordFromByte(byte))
        | (WordFromByte(byte), Register(register, offset))
            if register == machine.stack_pointer =>
        {
            Some(Linkage(offset, byte))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Value, run};
    use crate::binaries::unwind::machine::Machine;
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
        run(
            &Machine::of(EM_X86_64).unwrap(),
            expression,
            encoding,
            first,
        )
    }

    #[test]
    fn known_shapes_come_to_something() {
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
        assert_eq!(value(&linkage, None), Some(Value::Linkage(8, 10)));
    }

    #[test]
    fn nothing_is_guessed_at() {
        let unknown: [&[u8]; 9] = [
            // nothing; plus without anything; breg7 0; deref; deref
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
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let _ = value(&bytes, None);
            let _ = value(&bytes, Some(Value::Frame(i64::MAX)));
        }
    }
}
