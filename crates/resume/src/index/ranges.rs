//! Tests whether ids of an index may lie between two values, without looking them up.
//!
//! Integers and times have the order of their keys. Strings are ordered by bytes, which differs
//! from the numeric order of decimal strings except among those of the same length; so a range of
//! strings is one range of numbers per length.

use super::IdIndex;
use crate::keys::{IdType, Keys};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_cast::cast;
use arrow_schema::DataType;
use std::ops::RangeInclusive;

/// Digits of the largest 64-bit number.
const MOST_DIGITS: u32 = 20;

/// Returns false only if it is certain.
pub(super) fn may_contain(index: &IdIndex, min: &ArrayRef, max: &ArrayRef) -> bool {
    if index.is_empty() {
        return false;
    }
    let Some(column) = index.schema().single() else { return true };
    // Keys in buckets have no order.
    if index.footer.narrow.is_some()
        || !index.footer.wide.is_empty()
        || min.len() != 1
        || max.len() != 1
        || min.is_null(0)
        || max.is_null(0)
    {
        return true;
    }
    if column.id_type == IdType::String {
        let (Some(min), Some(max)) = (text(min), text(max)) else { return true };
        return (1..=MOST_DIGITS)
            .filter_map(|digits| numbers_between(&min, &max, digits))
            .any(|range| index.footer.dense.may_contain(&index.file, range));
    }
    match (key_of(index, min), key_of(index, max)) {
        (Some(from), Some(to)) if column.id_type.is_narrow() => {
            index.footer.dense.may_contain(&index.file, from..=to)
        }
        _ => true,
    }
}

fn key_of(index: &IdIndex, value: &ArrayRef) -> Option<u64> {
    let ids = index.encoder.prepare(std::slice::from_ref(value)).ok()?;
    let mut keys = Keys::default();
    index.encoder.encode(&ids, 0..1, &mut keys).ok()?;
    keys.narrow.keys.first().copied()
}

fn text(value: &ArrayRef) -> Option<Vec<u8>> {
    let text = cast(value, &DataType::LargeUtf8).ok()?;
    Some(text.as_string_opt::<i64>()?.value(0).as_bytes().to_vec())
}

/// The numbers with this many digits whose texts lie between two texts, in byte order.
fn numbers_between(min: &[u8], max: &[u8], digits: u32) -> Option<RangeInclusive<u64>> {
    let smallest = 10u128.checked_pow(digits - 1)?;
    let first = if digits == 1 { 0 } else { smallest };
    let last = (smallest * 10 - 1).min(u128::from(u64::MAX));
    let from = count_below(min, digits, false).max(first);
    let to = count_below(max, digits, true).checked_sub(1)?.min(last);
    Some(u64::try_from(from).ok()?..=u64::try_from(to).ok()?).filter(|range| !range.is_empty())
}

/// The number of texts with this many digits, including leading zeros, before `bound`; with `equal`
/// it counts itself.
fn count_below(bound: &[u8], digits: u32, equal: bool) -> u128 {
    let mut below = 0u128;
    for place in 0..digits {
        let unit = 10u128.pow(digits - 1 - place);
        match bound.get(place as usize) {
            // A text with the bound as its prefix comes after it.
            None => return below,
            Some(byte) if byte.is_ascii_digit() => below += u128::from(byte - b'0') * unit,
            Some(byte) if *byte < b'0' => return below,
            Some(_) => return below + 10 * unit,
        }
    }
    // All digits are equal: the text is the bound, or a prefix of it.
    below + u128::from(equal || bound.len() > digits as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn texts_between_two_texts_are_these_numbers(
            min in "[0-9/:a]{0,5}",
            max in "[0-9/:a]{0,5}",
        ) {
            for digits in 1..=4u32 {
                let range = numbers_between(min.as_bytes(), max.as_bytes(), digits);
                for number in 0..10u64.pow(digits) {
                    let text = number.to_string();
                    if text.len() == digits as usize {
                        let expected = min <= text && text <= max;
                        prop_assert_eq!(
                            range.as_ref().is_some_and(|range| range.contains(&number)),
                            expected,
                            "{} <= {} <= {}",
                            min,
                            text,
                            max
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn largest_numbers_have_a_range_too() {
        assert_eq!(numbers_between(b"1", b"9", 20), Some(10_000_000_000_000_000_000..=u64::MAX));
        assert_eq!(numbers_between(b"2", b"9", 20), None);
    }
}
