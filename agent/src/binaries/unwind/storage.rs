//! Storage of an evaluation's state, of fixed size: untrusted instructions cannot make it grow.

use gimli::{Register, RegisterRule, UnwindContextStorage, UnwindTableRow};

/// Storage of the rules of registers while a function is evaluated.
pub(super) struct Storage;

impl UnwindContextStorage<usize> for Storage {
    /// Functions save at most twenty registers, code that handles signals all of them.
    type Rules = [(Register, RegisterRule<usize>); 64];
    /// Compilers nest `DW_CFA_remember_state` no deeper than one.
    type Stack = Box<[UnwindTableRow<usize, Self>; 8]>;
}
