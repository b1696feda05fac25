//! Shares of a whole.

/// For example 12.5 for an eighth; 0 of nothing.
#[expect(
    clippy::cast_precision_loss,
    reason = "what is shown has three digits, and so many samples nobody takes"
)]
pub(crate) fn percent(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}
