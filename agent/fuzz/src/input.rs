//! The bytes of one run, from front to end.

/// What is left of the bytes; where there are none, it has zeros.
pub(crate) struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    /// All bytes of a run.
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Whether nothing is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next bytes.
    pub(crate) fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut array = [0; N];
        let bytes = self.bytes(N);
        array[..bytes.len()].copy_from_slice(bytes);
        array
    }

    /// The next byte.
    pub(crate) fn byte(&mut self) -> u8 {
        u8::from_le_bytes(self.array())
    }

    /// The next two bytes.
    pub(crate) fn half(&mut self) -> u16 {
        u16::from_le_bytes(self.array())
    }

    /// The next four bytes.
    pub(crate) fn number(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    /// At most so many bytes.
    pub(crate) fn bytes(&mut self, most: usize) -> &'a [u8] {
        let (bytes, rest) = self.0.split_at(most.min(self.0.len()));
        self.0 = rest;
        bytes
    }

    /// As many bytes as the next two say.
    pub(crate) fn sized(&mut self) -> &'a [u8] {
        let bytes = self.half();
        self.bytes(bytes.into())
    }

    /// All that is left.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        self.bytes(usize::MAX)
    }
}
