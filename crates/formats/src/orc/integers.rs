//! Decodes the integers of a stream, and encodes them again.
//!
//! Used only for streams whose values orc-rust would change; see `decimals.rs` and `times.rs`. Sums
//! of numbers from a file wrap around.

use super::lengths::{Runs, big_endian, byte, closest_width, packed, width};
use super::wire::{self, NoMessage, signed};
use bytes::Bytes;

/// Whether the integers of a stream have a sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sign {
    Signed,
    Unsigned,
}

impl Sign {
    fn of(self, digits: u64) -> i64 {
        if self == Self::Signed { signed(digits) } else { digits.cast_signed() }
    }

    fn digits(self, value: i64) -> u64 {
        if self == Self::Signed {
            ((value << 1) ^ (value >> 63)).cast_unsigned()
        } else {
            value.cast_unsigned()
        }
    }
}

/// The integers of a stream; unsigned ones keep their bits. More than `most` are an error.
pub(super) fn integers(
    stream: &[u8],
    runs: Runs,
    sign: Sign,
    most: usize,
) -> Result<Vec<i64>, NoMessage> {
    let (mut rest, mut found) = (stream, Vec::new());
    while !rest.is_empty() {
        if found.len() > most {
            return Err(NoMessage);
        }
        match runs {
            Runs::V1 => run_v1(&mut rest, sign, &mut found)?,
            Runs::V2 => run_v2(&mut rest, sign, &mut found)?,
        }
    }
    Ok(found)
}

fn run_v1(rest: &mut &[u8], sign: Sign, found: &mut Vec<i64>) -> Result<(), NoMessage> {
    let header = byte(rest)?;
    if header < 0x80 {
        let delta = i64::from(byte(rest)?.cast_signed());
        let first = sign.of(wire::varint(rest)?);
        found.extend(
            (0..i64::from(header) + 3).map(|place| first.wrapping_add(place.wrapping_mul(delta))),
        );
        return Ok(());
    }
    for _ in 0..(0x100 - u16::from(header)) {
        found.push(sign.of(wire::varint(rest)?));
    }
    Ok(())
}

fn run_v2(rest: &mut &[u8], sign: Sign, found: &mut Vec<i64>) -> Result<(), NoMessage> {
    let header = byte(rest)?;
    let code = (header >> 1) & 0x1f;
    let narrow = |value: u128| u64::try_from(value).map(u64::cast_signed).unwrap_or(i64::MAX);
    let plain = |value: u128| sign.of(u64::try_from(value).unwrap_or(u64::MAX));
    if header >> 6 == 0 {
        let value = plain(big_endian(rest, usize::from((header >> 3) & 7) + 1)?);
        found.extend(std::iter::repeat_n(value, usize::from(header & 7) + 3));
        return Ok(());
    }
    let count = (usize::from(header & 1) << 8 | usize::from(byte(rest)?)) + 1;
    match header >> 6 {
        1 => packed(rest, count, width(code), &mut |value| found.push(plain(value)))?,
        2 => {
            let (third, fourth) = (byte(rest)?, byte(rest)?);
            let (patch_bits, base_bytes) = (width(third & 0x1f), usize::from(third >> 5) + 1);
            let digits = big_endian(rest, base_bytes)?;
            // The highest bit is the sign.
            let sign_bit = 1u128 << (8 * base_bytes - 1);
            let base = if digits & sign_bit == 0 {
                narrow(digits)
            } else {
                narrow(digits & !sign_bit).wrapping_neg()
            };
            let mut values = Vec::with_capacity(count);
            packed(rest, count, width(code), &mut |value| values.push(value))?;
            let mut place = 0usize;
            let entry_bits = closest_width(patch_bits + u32::from(fourth >> 5) + 1);
            packed(rest, usize::from(fourth & 0x1f), entry_bits, &mut |entry| {
                place = place
                    .saturating_add(usize::try_from(entry >> patch_bits).unwrap_or(usize::MAX));
                let patch = (entry & ((1u128 << patch_bits) - 1))
                    .checked_shl(width(code))
                    .unwrap_or(u128::MAX);
                if let Some(value) = values.get_mut(place) {
                    *value |= patch;
                }
            })?;
            found.extend(values.into_iter().map(|value| base.wrapping_add(narrow(value))));
        }
        _ => {
            let first = sign.of(wire::varint(rest)?);
            let delta = signed(wire::varint(rest)?);
            if code == 0 {
                found.extend((0..count).map(|place| {
                    first.wrapping_add(delta.wrapping_mul(i64::try_from(place).unwrap_or_default()))
                }));
                return Ok(());
            }
            let mut last = first.wrapping_add(delta);
            found.extend([first, last]);
            packed(rest, count.saturating_sub(2), width(code), &mut |step| {
                let step = narrow(step);
                last = last.wrapping_add(if delta < 0 { step.wrapping_neg() } else { step });
                found.push(last);
            })?;
        }
    }
    Ok(())
}

/// A stream of these integers, without compression.
pub(super) fn stream(values: &[i64], runs: Runs, sign: Sign) -> Bytes {
    let mut bytes = Vec::with_capacity(values.len() * 8);
    let most = if runs == Runs::V1 { 128 } else { 512 };
    for run in values.chunks(most) {
        match runs {
            Runs::V1 => {
                bytes.push(u8::try_from(256 - run.len()).unwrap_or_default());
                run.iter().for_each(|value| wire::put_digits(&mut bytes, sign.digits(*value)));
            }
            Runs::V2 => {
                // Integers of 64 bits, as they are.
                let count = u16::try_from(run.len() - 1).unwrap_or_default();
                bytes.extend((0x7e00 | count).to_be_bytes());
                run.iter().for_each(|value| bytes.extend(sign.digits(*value).to_be_bytes()));
            }
        }
    }
    bytes.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn runs_of_both_versions_are_decoded() {
        // The examples of the ORC specification, whose numbers are zigzag digits here.
        assert_eq!(integers(&[0x61, 0x00, 0x0e], Runs::V1, Sign::Signed, 512).unwrap(), [7; 100]);
        assert_eq!(
            integers(&[0xfb, 0x04, 0x06, 0x03, 0x08, 0x05], Runs::V1, Sign::Signed, 512).unwrap(),
            [2, 3, -2, 4, -3]
        );
        assert_eq!(integers(&[0x0a, 0x27, 0x10], Runs::V2, Sign::Signed, 512).unwrap(), [5000; 5]);
        let direct = [0x5e, 0x03, 0x5c, 0xa1, 0xab, 0x1e, 0xde, 0xad, 0xbe, 0xef];
        assert_eq!(
            integers(&direct, Runs::V2, Sign::Signed, 512).unwrap(),
            [23713, 43806, 57005, 48879].map(|value: u64| signed(value))
        );
        let delta = [0xc6, 0x09, 0x04, 0x02, 0x22, 0x42, 0x42, 0x46];
        assert_eq!(
            integers(&delta, Runs::V2, Sign::Signed, 512).unwrap(),
            [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]
        );
        let patched = [
            0x8e, 0x09, 0x2b, 0x21, 0x07, 0xd0, 0x1e, 0x00, 0x14, 0x70, 0x28, 0x32, 0x3c, 0x46,
            0x50, 0x5a, 0xfc, 0xe8,
        ];
        assert_eq!(
            integers(&patched, Runs::V2, Sign::Signed, 512).unwrap(),
            [2030, 2000, 2020, 1_000_000, 2040, 2050, 2060, 2070, 2080, 2090]
        );
        assert!(integers(&[0x5e], Runs::V2, Sign::Signed, 512).is_err());
    }

    proptest! {
        #[test]
        fn integers_come_back(values in proptest::collection::vec(any::<i64>(), 0..600)) {
            for runs in [Runs::V1, Runs::V2] {
                for sign in [Sign::Signed, Sign::Unsigned] {
                    prop_assert_eq!(
                        &integers(&stream(&values, runs, sign), runs, sign, 600).unwrap(),
                        &values
                    );
                }
            }
        }
    }
}
