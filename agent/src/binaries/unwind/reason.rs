//! What is not known of a file, why, and how often.

/// Why a row became [`Rule::UNKNOWN`](agent_common::unwind::Rule::UNKNOWN), or something in its
/// rule [`Saved::LOST`](agent_common::unwind::Saved::LOST), or a function has no rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Reason {
    /// The instructions of a function, or its description, are malformed.
    Malformed,
    /// A function lies where the file has no code.
    NoCode,
    /// The CFA is an expression that is not understood.
    FrameExpression,
    /// The CFA is counted from a register that is not a general one.
    FrameRegister,
    /// The CFA is too far from its register.
    FrameOffset,
    /// The return address is saved in a way that a rule cannot say.
    ReturnAddress,
    /// The stack pointer of the caller is not the CFA.
    StackPointer,
    /// Only the caller's frame pointer is lost, for that reason.
    FramePointer,
    /// Only the caller's base register is.
    Base,
    /// There are more bytes, functions, rows or rules than are read of one file.
    TooMany,
}

impl Reason {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 10] = [
        Self::Malformed,
        Self::NoCode,
        Self::FrameExpression,
        Self::FrameRegister,
        Self::FrameOffset,
        Self::ReturnAddress,
        Self::StackPointer,
        Self::FramePointer,
        Self::Base,
        Self::TooMany,
    ];
}

/// How many rows each [`Reason`] is true of; a function without any row counts as one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unknown([u64; Reason::ALL.len()]);

impl Unknown {
    pub(super) fn count(&mut self, reason: Reason) {
        self.0[reason as usize] += 1;
    }
}

#[cfg(test)]
impl Unknown {
    /// How many for this reason.
    #[must_use]
    pub fn get(&self, reason: Reason) -> u64 {
        self.0[reason as usize]
    }

    /// Each reason that there was, with how many for it.
    pub fn iter(&self) -> impl Iterator<Item = (Reason, u64)> {
        Reason::ALL
            .into_iter()
            .zip(self.0)
            .filter(|(_, count)| *count != 0)
    }
}
