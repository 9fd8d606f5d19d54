//! Represents integers, decimals, dates and times uniformly, as an integer multiple of a step.

use crate::Literal;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampMicrosecondType, TimestampNanosecondType};
use arrow_array::{Array, ArrayRef, StringArray};
use arrow_buffer::i256;
use arrow_cast::cast;
use arrow_schema::{DataType, TimeUnit};
use std::borrow::Cow;
use std::ops::RangeInclusive;
use std::sync::Arc;

const DAY_NS: i128 = 86_400_000_000_000;

/// `unscaled` × 10^-`scale`, or nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Scaled {
    unscaled: i256,
    scale: i16,
    /// The step in which the literal is counted.
    step: i128,
}

impl Scaled {
    /// Of an integer or decimal.
    pub(super) fn of(literal: &Literal) -> Option<Self> {
        let (unscaled, scale) = match literal {
            Literal::Integer(value) => (i256::from(*value), 0),
            Literal::Unsigned(value) => (i256::from_i128(i128::from(*value)), 0),
            Literal::Decimal { unscaled, scale } => (*unscaled, i16::from(*scale)),
            _ => return None,
        };
        Some(Self { unscaled, scale, step: 1 })
    }

    fn of_nanoseconds(nanoseconds: i128, step: i128) -> Self {
        Self { unscaled: i256::from_i128(nanoseconds), scale: 0, step }
    }

    pub(super) fn to_f64(self) -> Option<f64> {
        format!("{}e{}", self.unscaled, -self.scale).parse().ok()
    }

    /// The numbers of steps of 10^-`scale` directly below and above; equal if the literal is exact.
    /// Clamped to 256 bits.
    pub(super) fn at_scale(&self, scale: i16) -> (i256, i256) {
        let shift = scale - self.scale;
        let power = i256::from_i128(10).checked_pow(u32::from(shift.unsigned_abs()));
        let one = i256::from_i128(1);
        let is_negative = self.unscaled.is_negative();
        if shift >= 0 && self.step == 1 {
            let limit = if is_negative { i256::MIN } else { i256::MAX };
            let product = if self.unscaled == i256::ZERO {
                Some(i256::ZERO)
            } else {
                power.and_then(|power| self.unscaled.checked_mul(power))
            };
            return product.map_or((limit, limit), |product| (product, product));
        }
        let divisor = if self.step == 1 { power } else { Some(i256::from_i128(self.step)) };
        let Some(divisor) = divisor else {
            // Closer to zero than to any other step.
            return if self.unscaled == i256::ZERO {
                (i256::ZERO, i256::ZERO)
            } else if is_negative {
                (i256::ZERO.wrapping_sub(one), i256::ZERO)
            } else {
                (i256::ZERO, one)
            };
        };
        let (quotient, rest) =
            (self.unscaled.wrapping_div(divisor), self.unscaled.wrapping_rem(divisor));
        if rest == i256::ZERO {
            (quotient, quotient)
        } else if is_negative {
            (quotient.wrapping_sub(one), quotient)
        } else {
            (quotient, quotient.wrapping_add(one))
        }
    }
}

/// The literal, and the scale of the column's steps.
pub(super) fn parts_of(literal: &Literal, data_type: &DataType) -> Option<(Scaled, i16)> {
    match data_type {
        _ if data_type.is_integer() => Some((Scaled::of(literal)?, 0)),
        DataType::Decimal32(_, scale)
        | DataType::Decimal64(_, scale)
        | DataType::Decimal128(_, scale)
        | DataType::Decimal256(_, scale) => Some((Scaled::of(literal)?, i16::from(*scale))),
        DataType::Date32 | DataType::Date64 | DataType::Timestamp(..) => {
            let step = match data_type {
                DataType::Date32 => DAY_NS,
                DataType::Date64 => nanoseconds(TimeUnit::Millisecond),
                DataType::Timestamp(unit, _) => nanoseconds(*unit),
                _ => return None,
            };
            let is_zoned = matches!(data_type, DataType::Timestamp(_, Some(_)));
            let moment = match literal {
                Literal::Timestamp { value, unit, zone } if zone.is_some() == is_zoned => {
                    i128::from(*value) * nanoseconds(*unit)
                }
                Literal::Date(days) => i128::from(*days) * DAY_NS,
                Literal::Text(text) => parse_moment(text, is_zoned)?,
                _ => return None,
            };
            Some((Scaled::of_nanoseconds(moment, step), 0))
        }
        DataType::Time32(unit) | DataType::Time64(unit) => {
            let time = match literal {
                Literal::Time { value, unit } => i128::from(*value) * nanoseconds(*unit),
                Literal::Text(text) => parse_time(text)?,
                _ => return None,
            };
            Some((Scaled::of_nanoseconds(time, nanoseconds(*unit)), 0))
        }
        DataType::Duration(unit) => match literal {
            Literal::Duration { value, unit: own } => Some((
                Scaled::of_nanoseconds(i128::from(*value) * nanoseconds(*own), nanoseconds(*unit)),
                0,
            )),
            _ => None,
        },
        _ => None,
    }
}

/// The range of steps of a type.
pub(super) fn in_domain(data_type: &DataType) -> Option<RangeInclusive<i256>> {
    let range = |min: i128, max: i128| i256::from_i128(min)..=i256::from_i128(max);
    Some(match data_type {
        DataType::Int8 => range(i8::MIN.into(), i8::MAX.into()),
        DataType::Int16 => range(i16::MIN.into(), i16::MAX.into()),
        DataType::Int32 | DataType::Date32 | DataType::Time32(_) => {
            range(i32::MIN.into(), i32::MAX.into())
        }
        DataType::Int64
        | DataType::Date64
        | DataType::Time64(_)
        | DataType::Timestamp(..)
        | DataType::Duration(_) => range(i64::MIN.into(), i64::MAX.into()),
        DataType::UInt8 => range(0, u8::MAX.into()),
        DataType::UInt16 => range(0, u16::MAX.into()),
        DataType::UInt32 => range(0, u32::MAX.into()),
        DataType::UInt64 => range(0, u64::MAX.into()),
        DataType::Decimal32(digits, _)
        | DataType::Decimal64(digits, _)
        | DataType::Decimal128(digits, _)
        | DataType::Decimal256(digits, _) => {
            let max = i256::from_i128(10)
                .checked_pow(u32::from(*digits))?
                .wrapping_sub(i256::from_i128(1));
            i256::ZERO.wrapping_sub(max)..=max
        }
        _ => return None,
    })
}

fn nanoseconds(unit: TimeUnit) -> i128 {
    match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    }
}

/// For a column with a time zone, a text without one is in UTC. For a column without one, a text
/// with one has no meaning.
fn parse_moment(text: &str, is_zoned: bool) -> Option<i128> {
    if !is_zoned && names_zone(text) {
        return None;
    }
    let text = with_seconds(text);
    let parsed = |unit: TimeUnit| {
        let array: ArrayRef = Arc::new(StringArray::from(vec![text.as_ref()]));
        let array = cast(&array, &DataType::Timestamp(unit, Some("+00:00".into()))).ok()?;
        array.is_valid(0).then_some(array)
    };
    // 64 bits of nanoseconds end in 2262.
    let exact = parsed(TimeUnit::Nanosecond)
        .map(|array| i128::from(array.as_primitive::<TimestampNanosecondType>().value(0)));
    exact.or_else(|| {
        Some(
            i128::from(
                parsed(TimeUnit::Microsecond)?.as_primitive::<TimestampMicrosecondType>().value(0),
            ) * 1_000,
        )
    })
}

/// Bytes of `2024-01-31` and of `2024-01-31T08:30`.
const DATE_LEN: usize = 10;
const MINUTE_LEN: usize = 16;

/// Whether a date and time ends with a time zone: `Z`, an offset,
/// or a name such as `Europe/Berlin`.
pub(crate) fn names_zone(text: &str) -> bool {
    let Some(time) = text.get(DATE_LEN..) else { return false };
    let is_named = time.strip_prefix(['T', 't', ' ']).is_some_and(|clock| {
        let zone = clock.trim_start_matches(|letter: char| {
            letter.is_ascii_digit() || matches!(letter, ':' | '.')
        });
        zone.len() < clock.len() && zone.trim_start().starts_with(char::is_alphabetic)
    });
    is_named || time.contains(['Z', 'z', '+', '-'])
}

/// `2024-01-31 08:30` with seconds.
fn with_seconds(text: &str) -> Cow<'_, str> {
    let bytes = text.as_bytes();
    let has_minutes = bytes.get(DATE_LEN + 3) == Some(&b':')
        && bytes
            .get(MINUTE_LEN - 2..MINUTE_LEN)
            .is_some_and(|minutes| minutes.iter().all(u8::is_ascii_digit));
    match text.split_at_checked(MINUTE_LEN) {
        Some((start, zone)) if has_minutes && !zone.starts_with(':') => {
            Cow::Owned(format!("{start}:00{zone}"))
        }
        _ => Cow::Borrowed(text),
    }
}

fn parse_time(text: &str) -> Option<i128> {
    let array: ArrayRef = Arc::new(StringArray::from(vec![text]));
    let array =
        cast(&cast(&array, &DataType::Time64(TimeUnit::Nanosecond)).ok()?, &DataType::Int64)
            .ok()?;
    array.is_valid(0).then(|| i128::from(array.as_primitive::<Int64Type>().value(0)))
}
