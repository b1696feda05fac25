//! The flags of classes (`tp_flags`): the same bits in all versions that have them.

/// `Py_TPFLAGS_INLINE_VALUES` and `Py_TPFLAGS_MANAGED_DICT`: how instances keep their attributes, in newer versions.
pub(super) const INLINE_VALUES: u64 = 1 << 2;
pub(super) const MANAGED_DICT: u64 = 1 << 4;

/// `Py_TPFLAGS_HEAPTYPE`: made at run time, as those that are written in Python. `Py_TPFLAGS_READY`.
pub(super) const HEAP: u64 = 1 << 9;
pub(super) const READY: u64 = 1 << 12;

/// `Py_TPFLAGS_*_SUBCLASS`: of `int` in 2.7, then `int`, `list`, `tuple`, `bytes`, `str`, `dict`, exceptions, classes.
pub(super) const SHORT: u64 = 1 << 23;
pub(super) const INTEGER: u64 = 1 << 24;
pub(super) const LIST: u64 = 1 << 25;
pub(super) const TUPLE: u64 = 1 << 26;
pub(super) const BYTES: u64 = 1 << 27;
pub(super) const TEXT: u64 = 1 << 28;
pub(super) const DICT: u64 = 1 << 29;
pub(super) const TYPE: u64 = 1 << 31;
pub(super) const FAMILIES: u64 = 0xff << 24;
