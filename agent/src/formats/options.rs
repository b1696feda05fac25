//! Choices of encoding.

/// What a user may choose about a file's content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EncodeOptions {
    /// Whether folded stacks and flame graphs begin with the thread; pprof tells it as a label.
    pub threads: bool,
    /// Whether samples of pprof have no labels: those of equal stacks are one, whichever threads
    /// and processes they are of.
    pub without_labels: bool,
}
