//! Times before 1970 as pyarrow stores them: seconds and a negative fraction, which orc-rust reads
//! as a large one.
//!
//! The streams are rewritten without negative fractions, so that orc-rust decodes the same times.

use super::integers::{Sign, integers, stream};
use super::lengths::Runs;
use super::wire::NoMessage;
use bytes::Bytes;

/// Seconds of ORC count from 2015.
const EPOCH: i64 = 1_420_070_400;
const SECOND: i64 = 1_000_000_000;

/// A reader subtracts a second from times before 1970 if the fraction has
/// more nanoseconds (ORC-763).
const UNADJUSTED: i64 = 999_999;

/// Streams of seconds and fractions that have the same times.
pub(super) fn without_negative_fractions(
    seconds: &[u8],
    fractions: &[u8],
    runs: Runs,
    most: usize,
) -> Result<(Bytes, Bytes), NoMessage> {
    let mut seconds = integers(seconds, runs, Sign::Signed, most)?;
    let mut fractions = integers(fractions, runs, Sign::Unsigned, most)?;
    if seconds.len() != fractions.len() {
        return Err(NoMessage);
    }
    for (second, fraction) in
        seconds.iter_mut().zip(&mut fractions).filter(|(_, fraction)| **fraction < 0)
    {
        let from_1970 = second.checked_add(EPOCH).ok_or(NoMessage)?;
        let (from_1970, nanoseconds) = stored(from_1970, decoded(*fraction)?).ok_or(NoMessage)?;
        *second = from_1970.checked_sub(EPOCH).ok_or(NoMessage)?;
        *fraction = nanoseconds << 3;
    }
    Ok((stream(&seconds, runs, Sign::Signed), stream(&fractions, runs, Sign::Unsigned)))
}

/// The last three bits are the number of decimal zeros, less one, that were cut.
fn decoded(fraction: i64) -> Result<i64, NoMessage> {
    let zeros = u32::try_from(fraction & 7).unwrap_or_default();
    let factor = if zeros == 0 { 1 } else { 10i64.pow(zeros + 1) };
    (fraction >> 3).checked_mul(factor).filter(|fraction| *fraction > -SECOND).ok_or(NoMessage)
}

/// The seconds and the fraction that a reader expects for the time.
fn stored(seconds: i64, fraction: i64) -> Option<(i64, i64)> {
    let (seconds, nanoseconds) =
        (seconds.checked_add(fraction.div_euclid(SECOND))?, fraction.rem_euclid(SECOND));
    Some(match seconds {
        ..-1 if nanoseconds > UNADJUSTED => (seconds + 1, nanoseconds),
        // Second 0 is not before 1970, so a reader would not subtract one.
        -1 if nanoseconds > UNADJUSTED => (-1, nanoseconds + SECOND),
        _ => (seconds, nanoseconds),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// As ORC C++ reads it.
    fn read(seconds: i64, fraction: i64) -> i128 {
        let seconds = if seconds < 0 && fraction > UNADJUSTED { seconds - 1 } else { seconds };
        i128::from(seconds) * i128::from(SECOND) + i128::from(fraction)
    }

    proptest! {
        #[test]
        fn time_is_the_same(
            seconds in prop_oneof![-3..3i64, any::<i32>().prop_map(i64::from)],
            fraction in prop_oneof![-SECOND + 1..0, -2_000_000..0i64],
        ) {
            let (second, nanoseconds) = stored(seconds, fraction).unwrap();
            prop_assert!(nanoseconds >= 0);
            prop_assert_eq!(read(second, nanoseconds), read(seconds, fraction));
        }
    }

    #[test]
    fn fraction_of_a_second_or_more_is_damage() {
        let fractions = stream(&[-SECOND << 3], Runs::V2, Sign::Unsigned);
        let seconds = stream(&[0], Runs::V2, Sign::Signed);
        assert!(without_negative_fractions(&seconds, &fractions, Runs::V2, 9).is_err());
        assert!(without_negative_fractions(&[], &fractions, Runs::V2, 9).is_err());
    }
}
