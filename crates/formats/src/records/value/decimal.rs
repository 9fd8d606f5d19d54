//! Decimal numbers with a fixed scale.

use super::parse::{Parse, trim};
use arrow_array::ArrowNativeTypeOp;
use arrow_array::types::DecimalType;
use arrow_buffer::ArrowNativeType;
use std::marker::PhantomData;

/// Exact: digits beyond the scale must be zero.
pub(crate) struct Decimal<T> {
    precision: u8,
    scale: usize,
    of: PhantomData<T>,
}

impl<T> Decimal<T> {
    /// `None` for a negative scale, which text does not need.
    pub(crate) fn new(precision: u8, scale: i8) -> Option<Self> {
        Some(Self { precision, scale: usize::try_from(scale).ok()?, of: PhantomData })
    }
}

impl<T: DecimalType + Send> Parse for Decimal<T> {
    type Arrow = T;

    fn parse_plain(&self, text: &[u8]) -> Option<T::Native> {
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
        let ten = T::Native::usize_as(10);
        let mut value = T::Native::ZERO;
        for byte in whole.iter().chain(kept).chain(padding) {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                return None;
            }
            let digit = T::Native::usize_as(digit.into());
            value = value.mul_checked(ten).ok()?.add_checked(digit).ok()?;
        }
        T::is_valid_decimal_precision(value, self.precision).then_some(if is_negative {
            value.neg_wrapping()
        } else {
            value
        })
    }

    fn parse(&self, text: &[u8]) -> Option<T::Native> {
        self.parse_plain(trim(text))
    }
}
