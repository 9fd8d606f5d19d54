//! Checks decimals whose scale differs from that of their type, before they are decoded: orc-rust
//! would cut digits, or overflow.
//!
//! Each value has its own scale. Writers store the scale of the type, except Hive 0.11, whose type
//! has none.

use super::wire::NoMessage;

/// What a type without a precision stands for, as in ORC C++.
pub(super) const UNSCALED: (u32, u32) = (38, 6);

/// The first decimal that does not fit into `precision` digits, of which `scale` follow the point:
/// its number among the values that are not null, and its text.
pub(super) fn misfit(
    data: &[u8],
    scales: &[i64],
    (precision, scale): (u32, u32),
) -> Result<Option<(usize, String)>, NoMessage> {
    if scales.iter().all(|own| *own == i64::from(scale)) {
        return Ok(None);
    }
    let mut rest = data;
    for (index, own) in scales.iter().enumerate() {
        let value = decimal(&mut rest)?;
        if !fits(value, *own, precision, scale) {
            return Ok(Some((index, format!("{value}e{}", -i128::from(*own)))));
        }
    }
    Ok(None)
}

fn fits(value: i128, own: i64, precision: u32, scale: u32) -> bool {
    let power = |exponent: i64| {
        u32::try_from(exponent).ok().and_then(|exponent| 10i128.checked_pow(exponent))
    };
    let most = power(i64::from(precision));
    let scaled = match power(i64::from(scale).saturating_sub(own)) {
        Some(factor) => value.checked_mul(factor),
        None => power(own.saturating_sub(i64::from(scale)))
            .filter(|factor| own >= 0 && value % factor == 0)
            .map(|factor| value / factor),
    };
    own >= 0
        && scaled
            .zip(most)
            .is_some_and(|(scaled, most)| scaled.unsigned_abs() < most.unsigned_abs())
}

fn decimal(rest: &mut &[u8]) -> Result<i128, NoMessage> {
    let (mut value, mut shift) = (0u128, 0u32);
    loop {
        let (byte, behind) = rest.split_first().ok_or(NoMessage)?;
        *rest = behind;
        let bits = u128::from(byte & 0x7f);
        let shifted =
            bits.checked_shl(shift).filter(|shifted| shifted >> shift == bits).ok_or(NoMessage)?;
        value |= shifted;
        if byte & 0x80 == 0 {
            return Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed());
        }
        shift += 7;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The result for 15, 150 and 1, encoded as zigzag digits.
    fn found(scales: &[i64], of: (u32, u32)) -> Option<(usize, String)> {
        misfit(&[30, 0xac, 0x02, 2], scales, of).unwrap()
    }

    #[test]
    fn scales_that_the_type_holds_fit_and_others_are_named() {
        assert_eq!(found(&[1, 2, 0], (38, 6)), None);
        assert_eq!(found(&[1, 2, 0], (38, 1)), None, "1.50 has an equal with one digit");
        assert_eq!(found(&[1, 3, 0], (38, 1)), Some((1, "150e-3".to_owned())));
        assert_eq!(found(&[1, 2, 0], (3, 2)), None);
        assert_eq!(found(&[0, 0, 0], (3, 2)), Some((0, "15e0".to_owned())));
        assert_eq!(found(&[0, 0, 40], (38, 1)), Some((2, "1e-40".to_owned())));
        assert_eq!(found(&[0, -1, 0], (38, 6)), Some((1, "150e1".to_owned())));
    }
}
