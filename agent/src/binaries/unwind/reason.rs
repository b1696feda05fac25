//! Why rows of a file are unknown, and how many.

/// Why a row became [`Rule::UNKNOWN`](agent_common::unwind::Rule::UNKNOWN), or something in its
/// rule [`Saved::LOST`](agent_common::unwind::Saved::LOST), or a function has no rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum UnknownReason {
    /// The instructions of a function, or its description, are malformed.
    Malformed,
    /// A function lies outside of the file's code.
    NoCode,
    /// The CFA is an unsupported expression.
    FrameExpression,
    /// The CFA is relative to a register that is not a general-purpose one.
    FrameRegister,
    /// The CFA's offset from its register is out of range.
    FrameOffset,
    /// The return address is saved where a rule cannot express.
    ReturnAddress,
    /// The stack pointer of the caller is not the CFA.
    StackPointer,
    /// Only the frame pointer is lost: it is saved where a rule cannot express.
    FramePointer,
    /// Only the base register is lost.
    Base,
    /// A limit on bytes, functions, rows or rules is exceeded.
    TooMany,
}

impl UnknownReason {
    /// All reasons, in the order of their numbers.
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

/// Number of rows for each [`UnknownReason`]; a function without rows counts as one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnknownCounts([u64; UnknownReason::ALL.len()]);

impl UnknownCounts {
    pub(super) fn count(&mut self, reason: UnknownReason) {
        self.0[reason as usize] += 1;
    }
}

#[cfg(test)]
impl UnknownCounts {
    /// The number of rows for a reason.
    #[must_use]
    pub fn get(&self, reason: UnknownReason) -> u64 {
        self.0[reason as usize]
    }

    /// The reasons with at least one row, each with their number.
    pub fn iter(&self) -> impl Iterator<Item = (UnknownReason, u64)> {
        UnknownReason::ALL
            .into_iter()
            .zip(self.0)
            .filter(|(_, count)| *count != 0)
    }
}
