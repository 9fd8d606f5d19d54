//! Decimal numbers with a fixed scale.

use super::parse::{Parse, trim};
use arrow_array::types::Decimal128Type;

/// Exact: digits beyond the scale must be zero.
pub(crate) struct Decimal {
    precision: u32,
    scale: usize,
}

impl Decimal {
    /// `None` for a negative scale, which text does not need.
    pub(crate) fn new(precision: u8, scale: i8) -> Option<Self> {
        Some(Self { precision: u32::from(precision), scale: usize::try_from(scale).ok()? })
    }
}

impl Parse for Decimal {
    type Arrow = Decimal128Type;

    fn parse_plain(&self, text: &[u8]) -> Option<i128> {
        let (is_negative, digits) = match text {
            [b'-', digits @ ..] => (true, digits),
            digits => (false, digits),
        };
        let mut parts = digits.splitn(2, |byte| *byte == b'.');
        let (whole, fraction) = (parts.next()?, parts.next().unwrap_or_default());
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let (kept, rest) = fraction.split_at_checked(self.scale).unwrap_or((fraction, &[]));
        if rest.iter().any(|byte| *byte != b'0') {
            return None;
        }
        let padding = std::iter::repeat_n(&b'0', self.scale.saturating_sub(kept.len()));
        let mut value = 0i128;
        for byte in whole.iter().chain(kept).chain(padding) {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                return None;
            }
            value = value.checked_mul(10)?.checked_add(i128::from(digit))?;
        }
        let is_in_bounds = 10i128.checked_pow(self.precision).is_none_or(|bound| value < bound);
        is_in_bounds.then_some(if is_negative { -value } else { value })
    }

    fn parse(&self, text: &[u8]) -> Option<i128> {
        self.parse_plain(trim(text))
    }
}
