//! Conversions between sides and the floats that rules compute with.

#[expect(
    clippy::cast_precision_loss,
    reason = "as Python's division: products of two sides are below 2^53"
)]
pub(super) fn as_f64(value: u64) -> f64 {
    value as f64
}

/// Truncates, as Python's `int`. A number that does not fit becomes the nearest one that does.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "truncation is meant, and sizes are positive"
)]
pub(super) fn truncated(value: f64) -> u64 {
    value as u64
}
