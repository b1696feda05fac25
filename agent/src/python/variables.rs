//! What is known of the variables of functions in one series, for reading their values.
//!
//! All offsets are in bytes from the end of the head of an object (`PyObject_HEAD`), so that they are the same in builds
//! with another head.

/// Where the variables of a function are, and what layouts do not say of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VariableFacts {
    /// `PyCodeObject.co_flags`.
    pub flags: u16,
    /// `co_argcount`, with those that are positional only.
    pub argument_count: u16,
    /// `co_kwonlyargcount`; [`None`] in 2.7.
    pub keyword_only_count: Option<u16>,
    /// The names of the variables.
    pub names: VariableNames,
    /// How an integer begins.
    pub integers: IntegerStyle,
    /// `PyTupleObject.ob_item`.
    pub tuple_items: u16,
}

/// Where a code object has the names of its variables, as tuples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VariableNames {
    /// `co_varnames`, `co_cellvars`, `co_freevars`, whose values follow one another in a frame (up to 3.10).
    Separate {
        /// `co_varnames`.
        variables: u16,
        /// `co_cellvars`.
        cells: u16,
        /// `co_freevars`.
        free: u16,
    },
    /// `co_localsplusnames`, with a byte for each name in `co_localspluskinds` (3.11 and later).
    Together {
        /// `co_localsplusnames`.
        names: u16,
        /// `co_localspluskinds`.
        kinds: u16,
    },
}

impl VariableNames {
    /// Where the last of them ends, and all else that is read of a code object has ended.
    #[must_use]
    pub const fn end(self) -> u16 {
        match self {
            Self::Separate { cells, .. } => cells + 8,
            Self::Together { kinds, .. } => kinds + 8,
        }
    }
}

/// How an integer begins, before its digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntegerStyle {
    /// `ob_size`, the number of digits, negative for negative numbers (up to 3.11).
    Size,
    /// `lv_tag`, the number of digits and in its low bits the sign (3.12 and later).
    Tag,
}

impl VariableFacts {
    /// 2.7.
    pub const V2_7: Self = Self {
        flags: 12,
        argument_count: 0,
        keyword_only_count: None,
        names: VariableNames::Separate {
            variables: 40,
            cells: 56,
            free: 48,
        },
        integers: IntegerStyle::Size,
        tuple_items: 8,
    };
    /// 3.6 and 3.7.
    pub const V3_6: Self = Self {
        flags: 16,
        argument_count: 0,
        keyword_only_count: Some(4),
        names: VariableNames::Separate {
            variables: 48,
            cells: 64,
            free: 56,
        },
        ..Self::V2_7
    };
    /// 3.8 to 3.10.
    pub const V3_8: Self = Self {
        flags: 20,
        argument_count: 0,
        keyword_only_count: Some(8),
        names: VariableNames::Separate {
            variables: 56,
            cells: 72,
            free: 64,
        },
        ..Self::V2_7
    };
    /// 3.11.
    pub const V3_11: Self = Self {
        flags: 32,
        argument_count: 40,
        keyword_only_count: Some(48),
        names: VariableNames::Together {
            names: 80,
            kinds: 88,
        },
        ..Self::V2_7
    };
    /// 3.12 and 3.13.
    pub const V3_12: Self = Self {
        flags: 32,
        argument_count: 36,
        keyword_only_count: Some(44),
        integers: IntegerStyle::Tag,
        ..Self::V3_11
    };
    /// 3.14 and 3.15, whose tuples keep their hash.
    pub const V3_14: Self = Self {
        tuple_items: 16,
        ..Self::V3_12
    };
}
