//! Sums unsigned integers of a stream: the lengths of lists, before memory is allocated for them,
//! and fractions of seconds.

use super::wire::{self, NoMessage, signed};

/// Encoding of integer runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Runs {
    V1,
    V2,
}

/// An upper bound of the sum of all unsigned integers of a stream. It saturates, or is at least
/// 2^63, if one is negative.
pub(super) fn sum_at_most(stream: &[u8], runs: Runs) -> Result<u128, NoMessage> {
    let (mut rest, mut sum) = (stream, 0u128);
    while !rest.is_empty() {
        let run = match runs {
            Runs::V1 => run_v1(&mut rest)?,
            Runs::V2 => run_v2(&mut rest)?,
        };
        sum = sum.saturating_add(run);
        if sum == u128::MAX {
            break;
        }
    }
    Ok(sum)
}

pub(super) fn byte(rest: &mut &[u8]) -> Result<u8, NoMessage> {
    let (byte, behind) = rest.split_first().ok_or(NoMessage)?;
    *rest = behind;
    Ok(*byte)
}

fn run_v1(rest: &mut &[u8]) -> Result<u128, NoMessage> {
    let header = byte(rest)?;
    if header < 0x80 {
        let delta = i128::from(byte(rest)?.cast_signed());
        let first = i128::from(wire::varint(rest)?);
        return Ok(progression(first, delta, i128::from(header) + 3));
    }
    let mut sum = 0u128;
    for _ in 0..(0x100 - u16::from(header)) {
        sum += u128::from(wire::varint(rest)?);
    }
    Ok(sum)
}

/// Sum of `count` numbers; if one is negative the stream is damaged, and the sum saturates.
fn progression(first: i128, delta: i128, count: i128) -> u128 {
    let last = delta.saturating_mul(count - 1).saturating_add(first);
    if last < 0 {
        return u128::MAX;
    }
    u128::try_from(first.saturating_add(last).saturating_mul(count) / 2).unwrap_or(u128::MAX)
}

pub(super) fn big_endian(rest: &mut &[u8], len: usize) -> Result<u128, NoMessage> {
    let mut value = 0u128;
    for _ in 0..len {
        value = value << 8 | u128::from(byte(rest)?);
    }
    Ok(value)
}

/// The width in bits for a five-bit code.
pub(super) fn width(code: u8) -> u32 {
    match code {
        0..=23 => u32::from(code) + 1,
        24 => 26,
        25 => 28,
        26 => 30,
        27 => 32,
        28 => 40,
        29 => 48,
        30 => 56,
        _ => 64,
    }
}

/// Sums `count` numbers of `bits` bits each; they end at a byte boundary.
pub(super) fn packed(
    rest: &mut &[u8],
    count: usize,
    bits: u32,
    each: &mut dyn FnMut(u128),
) -> Result<(), NoMessage> {
    let (mut buffer, mut filled) = (0u128, 0u32);
    for _ in 0..count {
        while filled < bits {
            buffer = (buffer << 8 | u128::from(byte(rest)?)) & (u128::MAX >> 32);
            filled += 8;
        }
        filled -= bits;
        each((buffer >> filled) & ((1u128 << bits) - 1));
    }
    Ok(())
}

fn run_v2(rest: &mut &[u8]) -> Result<u128, NoMessage> {
    let header = byte(rest)?;
    let code = (header >> 1) & 0x1f;
    if header >> 6 == 0 {
        let value = big_endian(rest, usize::from((header >> 3) & 7) + 1)?;
        return Ok(value * (u128::from(header & 7) + 3));
    }
    let count = (usize::from(header & 1) << 8 | usize::from(byte(rest)?)) + 1;
    let mut sum = 0u128;
    match header >> 6 {
        1 => packed(rest, count, width(code), &mut |value| sum += value)?,
        2 => {
            let (third, fourth) = (byte(rest)?, byte(rest)?);
            let patch_bits = width(third & 0x1f);
            let base_bytes = usize::from(third >> 5) + 1;
            let base = big_endian(rest, base_bytes)?;
            if base >> (8 * base_bytes - 1) != 0 {
                // The highest bit is the sign.
                return Ok(u128::MAX);
            }
            sum = base * count as u128;
            packed(rest, count, width(code), &mut |value| sum += value)?;
            let entry_bits = closest_width(patch_bits + u32::from(fourth >> 5) + 1);
            let patch_mask = (1u128 << patch_bits) - 1;
            packed(rest, usize::from(fourth & 0x1f), entry_bits, &mut |entry| {
                sum = sum.saturating_add(
                    (entry & patch_mask).checked_shl(width(code)).unwrap_or(u128::MAX),
                );
            })?;
        }
        _ => {
            let first = i128::from(wire::varint(rest)?);
            let delta = i128::from(signed(wire::varint(rest)?));
            if code == 0 {
                return Ok(progression(first, delta, count as i128));
            }
            let sign = if delta > 0 { 1 } else { -1 };
            let mut last = first.saturating_add(delta);
            let (mut total, mut least) = (first.saturating_add(last), last);
            packed(rest, count.saturating_sub(2), width(code), &mut |step| {
                last = i128::try_from(step)
                    .unwrap_or(i128::MAX)
                    .saturating_mul(sign)
                    .saturating_add(last);
                total = total.saturating_add(last);
                least = least.min(last);
            })?;
            sum = if least < 0 { u128::MAX } else { u128::try_from(total).unwrap_or(u128::MAX) };
        }
    }
    Ok(sum)
}

/// Patch entries are stored with one of the fixed widths.
pub(super) fn closest_width(bits: u32) -> u32 {
    (0..32).map(width).find(|width| *width >= bits).unwrap_or(64)
}
