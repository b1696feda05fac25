//! Rules that find the caller of a native frame.

/// How the canonical frame address (CFA), the stack pointer of the caller after the return, is
/// known.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CfaRule(pub u8);

impl CfaRule {
    /// No rule: the walk falls back to frame pointers.
    pub const UNKNOWN: Self = Self(0);
    /// There is no caller: the process's entry or the thread's start.
    pub const END: Self = Self(1);
    /// It is [`Rule::register`] + [`Rule::offset`].
    pub const REGISTER: Self = Self(2);
    /// It is the word at [`Rule::register`] + [`Rule::offset`], plus [`Rule::addend`].
    pub const DEREFERENCED: Self = Self(3);
    /// In a procedure linkage table (PLT): the stack pointer + [`Rule::addend`], and 8 more from
    /// byte [`Rule::offset`] of the 16-byte entry on.
    pub const PLT: Self = Self(4);
    /// In the code that a signal handler returns to: the stack pointer points at what the kernel
    /// has saved of the interrupted code's registers.
    pub const SIGNAL: Self = Self(5);
    /// It is the word at the stack pointer + [`Rule::offset`] + eight times [`Rule::register`],
    /// plus [`Rule::addend`].
    pub const INDEXED: Self = Self(6);
}

/// Where a register of the caller is saved.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Saved(pub i16);

impl Saved {
    /// In itself.
    pub const UNCHANGED: Self = Self(i16::MIN);
    /// Not recoverable; only for a register that most callers do not need.
    pub const LOST: Self = Self(i16::MIN + 1);

    /// At so many words of eight bytes from the CFA.
    #[inline(always)]
    #[must_use]
    pub const fn at(words: i16) -> Self {
        Self(words)
    }

    /// Its distance in bytes from the CFA.
    #[inline(always)]
    #[must_use]
    pub const fn bytes(self) -> i64 {
        self.0 as i64 * 8
    }
}

/// Properties of a rule besides locations.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RuleFlags(pub u16);

impl RuleFlags {
    /// The code is an interpreter's evaluation loop.
    pub const EVALUATES: Self = Self(1);
    /// The caller's frame pointer is saved at [`Rule::frame_pointer`] from the frame pointer, not
    /// from the CFA, as in functions that realign their stack.
    pub const BY_FRAME_POINTER: Self = Self(2);
    /// The code has switched to another stack: its caller's frame may lie anywhere.
    pub const SWITCHES: Self = Self(4);

    /// The flags of both.
    #[inline(always)]
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all flags of `other` are set.
    #[inline(always)]
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// An address if the frame lies on the stack of its caller, else 0. Without a branch, which
    /// would cost the verifier too much.
    #[inline(always)]
    #[must_use]
    pub const fn on_same_stack(self, address: u64) -> u64 {
        let switches = (self.0 & Self::SWITCHES.0) / Self::SWITCHES.0;
        address & (switches as u64).wrapping_sub(1)
    }
}

/// How the caller is found at some addresses. The rule with index 0 is [`Rule::UNKNOWN`].
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Rule {
    /// How the CFA is known.
    pub cfa: CfaRule,
    /// DWARF's number of the register that the CFA is counted from.
    pub register: u8,
    /// Other properties.
    pub flags: RuleFlags,
    /// In bytes; see [`CfaRule`].
    pub offset: i32,
    /// In bytes; see [`CfaRule`].
    pub addend: i16,
    /// Where the caller's frame pointer is (`rbp`, `x29`).
    pub frame_pointer: Saved,
    /// Where the caller's `rbx` is, which counts as the base of frames that realign their stack in
    /// the dynamic loader; unused on aarch64.
    pub base: Saved,
    /// Where the return address is; unchanged means in the link register.
    pub return_address: Saved,
}

impl Rule {
    /// No rule.
    pub const UNKNOWN: Self = Self {
        cfa: CfaRule::UNKNOWN,
        register: 0,
        flags: RuleFlags(0),
        offset: 0,
        addend: 0,
        frame_pointer: Saved::UNCHANGED,
        base: Saved::UNCHANGED,
        return_address: Saved::UNCHANGED,
    };
}

#[cfg(feature = "user")]
// SAFETY: integers without padding, valid for any bytes.
unsafe impl aya::Pod for Rule {}

const _: () = assert!(size_of::<Rule>() == 16);
