//! What a DWARF expression comes to, for the few shapes that compilers and linkers write.
//!
//! An expression is run on values that are not known, only where they come from:
//!
//! ```text
//! breg7 8                                       rsp + 8
//! breg6 -8; deref; plus_uconst 16               *(rbp - 8) + 16
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
        _ => None,
    }
}

fn pair(
    machine: &Machine,
    operation: &Operation<Bytes<'_>>,
    left: Value,
    right: Value,
) -> Option<Value> {
    use Value::{Constant, EntryByte, FromByte, Register, WordFromByte};
    match (operation, left, right) {
        (Operation::Plus, left, right) => sum(machine, left, right),
        (Operation::Minus, left, Constant(right)) => {
            sum(machine, left, Constant(right.checked_neg()?))
        }
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
    use Value::{Constant, Dereferenced, Frame, Linkage, Register, WordFromByte};
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
        (Register(register, offset), WordFromByte(byte))
        | (WordFromByte(byte), Register(register, offset))
            if register == machine.stack_pointer =>
        {
            Some(Linkage(offset, byte))
        }
        _ => None,
    }
}
