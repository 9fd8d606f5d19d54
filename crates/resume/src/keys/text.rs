//! Parses numbers and UUIDs in canonical text, eight characters at a time.
//!
//! All functions take bytes as a little-endian number: the first character is the lowest byte.

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH: u128 = 0x8080_8080_8080_8080_8080_8080_8080_8080;
const ZEROS: u128 = 0x3030_3030_3030_3030_3030_3030_3030_3030;
/// Carries a digit above nine into the highest bit.
const ABOVE_NINE: u128 = 0x7676_7676_7676_7676_7676_7676_7676_7676;

/// The lowest `len` bytes set.
pub(super) fn mask(len: usize) -> u128 {
    match len {
        0 => 0,
        1..=15 => u128::MAX >> (128 - 8 * len),
        _ => u128::MAX,
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the lower half is meant")]
pub(super) fn low(value: u128) -> u64 {
    value as u64
}

fn high(value: u128) -> u64 {
    low(value >> 64)
}

/// A number of at most 16 characters in canonical form: digits only, without leading zeros. `head`
/// is zero after `len` bytes.
pub(super) fn decimal(head: u128, len: usize) -> Option<u64> {
    let digits = head ^ (ZEROS & mask(len));
    let is_digits = (digits.wrapping_add(ABOVE_NINE) | digits) & HIGH == 0;
    if !is_digits || len == 0 || len > 16 || (digits & 0xff == 0 && len > 1) {
        return None;
    }
    let aligned = digits << (8 * (16 - len));
    Some(eight_digits(low(aligned)) * 100_000_000 + eight_digits(high(aligned)))
}

/// As [`decimal`], for 17 to 20 characters; also `None` above the largest 64-bit number.
pub(super) fn long_decimal(bytes: &[u8]) -> Option<u64> {
    let head = bytes.len().checked_sub(16).filter(|head| (1..=4).contains(head))?;
    let (first, last) = bytes.split_at_checked(head)?;
    let mut high = 0u64;
    for byte in first {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 || (high == 0 && digit == 0) {
            return None;
        }
        high = high * 10 + u64::from(digit);
    }
    // A leading digit, so that inner zeros are not taken for leading ones.
    let digits = u128::from_le_bytes(last.try_into().ok()?) ^ ZEROS;
    if (digits.wrapping_add(ABOVE_NINE) | digits) & HIGH != 0 {
        return None;
    }
    let low_part = eight_digits(low(digits)) * 100_000_000 + eight_digits(self::high(digits));
    high.checked_mul(10_000_000_000_000_000)?.checked_add(low_part)
}

/// From eight bytes from 0 to 9. Johnny Lee, "Fast numeric string to int" (2016).
fn eight_digits(digits: u64) -> u64 {
    const MASK: u64 = 0x0000_00ff_0000_00ff;
    let pairs = digits.wrapping_mul(10).wrapping_add(digits >> 8);
    let upper = (pairs & MASK).wrapping_mul(0x000f_4240_0000_0064);
    let lower = ((pairs >> 16) & MASK).wrapping_mul(0x0000_2710_0000_0001);
    upper.wrapping_add(lower) >> 32
}

/// Eight lower-case hexadecimal digits.
fn eight_hex(text: u64) -> Option<u64> {
    let letters = (text >> 6) & ONES;
    let values = (text & (0x0f * ONES)).wrapping_add(letters.wrapping_mul(9));
    let is_letter = (values.wrapping_add(6 * ONES) >> 4) & ONES;
    let canonical =
        values.wrapping_add(u64::from(b'0') * ONES).wrapping_add(is_letter.wrapping_mul(39));
    // Encoding the value again must give the text, which fails for upper case
    // and for other characters.
    if values & (0xf0 * ONES) != 0 || canonical != text {
        return None;
    }
    let nibbles = values.swap_bytes();
    let bytes = (nibbles | nibbles >> 4) & 0x00ff_00ff_00ff_00ff;
    let words = (bytes | bytes >> 8) & 0x0000_ffff_0000_ffff;
    Some((words | words >> 16) & 0xffff_ffff)
}

fn sixteen_hex(first: u64, second: u64) -> Option<u128> {
    Some(u128::from(eight_hex(first)? << 32 | eight_hex(second)?))
}

/// 32 lower-case hexadecimal digits.
pub(super) fn hex(text: &[u8; 32]) -> Option<u128> {
    let (first, second) = text.split_at(16);
    let (first, second) = (word16(first)?, word16(second)?);
    Some(sixteen_hex(low(first), high(first))? << 64 | sixteen_hex(low(second), high(second))?)
}

/// A UUID in the form of RFC 9562, in lower case.
pub(super) fn uuid(text: &[u8; 36]) -> Option<u128> {
    let (first, rest) = text.split_at(16);
    let (second, tail) = rest.split_at(16);
    let (first, second) = (word16(first)?, word16(second)?);
    let tail = u64::from(u32::from_le_bytes(tail.try_into().ok()?));
    // xxxxxxxx-xxxx-xx xx-xxxx-xxxxxxxx xxxx
    let dashes = [first >> 64, first >> 104, second >> 16, second >> 56];
    if dashes.iter().any(|dash| low(*dash) & 0xff != u64::from(b'-')) {
        return None;
    }
    let time = low(first >> 72) & 0xffff_ffff
        | (low(first >> 112) & 0xffff) << 32
        | (low(second) & 0xffff) << 48;
    let node = low(second >> 24) & 0xffff_ffff | (low(second >> 64) & 0xffff_ffff) << 32;
    let last = low(second >> 96) | tail << 32;
    Some(sixteen_hex(low(first), time)? << 64 | sixteen_hex(node, last)?)
}

fn word16(bytes: &[u8]) -> Option<u128> {
    Some(u128::from_le_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn head(text: &[u8]) -> u128 {
        let mut bytes = [0; 16];
        bytes[..text.len()].copy_from_slice(text);
        u128::from_le_bytes(bytes)
    }

    fn parsed(text: &[u8]) -> Option<u64> {
        if text.len() <= 16 { decimal(head(text), text.len()) } else { long_decimal(text) }
    }

    fn canonical(text: &[u8]) -> Option<u64> {
        let text = std::str::from_utf8(text).ok()?;
        let number: u64 = text.parse().ok()?;
        (number.to_string() == text).then_some(number)
    }

    proptest! {
        #[test]
        fn decimals_are_those_that_the_standard_library_writes(
            number in any::<u64>(),
            shift in 0u32..64,
            noise in "[0-9a /:+-]{0,21}",
        ) {
            let text = (number >> shift).to_string();
            prop_assert_eq!(parsed(text.as_bytes()), Some(number >> shift));
            prop_assert_eq!(parsed(noise.as_bytes()), canonical(noise.as_bytes()));
            let digits: String = noise.chars().filter(char::is_ascii_digit).collect();
            prop_assert_eq!(parsed(digits.as_bytes()), canonical(digits.as_bytes()));
        }

        #[test]
        fn bytes_of_any_value_are_decimals_only_as_digits(
            bytes in prop::collection::vec(any::<u8>(), 0..21),
        ) {
            prop_assert_eq!(parsed(&bytes), canonical(&bytes));
        }

        #[test]
        fn uuids_and_hex_are_read_in_lower_case_alone(
            value in any::<u128>(),
            place in 0usize..36,
            byte in any::<u8>(),
        ) {
            let id = uuid::Uuid::from_u128(value);
            let mut text: [u8; 36] = id.hyphenated().to_string().into_bytes().try_into().unwrap();
            prop_assert_eq!(uuid(&text), Some(value));
            text[place] = byte;
            let expected = uuid::Uuid::try_parse_ascii(&text)
                .ok()
                .filter(|id| id.hyphenated().to_string().as_bytes() == text);
            prop_assert_eq!(uuid(&text), expected.map(|id| id.as_u128()));
            let mut plain: [u8; 32] = id.simple().to_string().into_bytes().try_into().unwrap();
            prop_assert_eq!(hex(&plain), Some(value));
            plain[place.min(31)] = byte;
            let expected =
                u128::from_str_radix(std::str::from_utf8(&plain).unwrap_or("x"), 16).ok();
            prop_assert_eq!(
                hex(&plain),
                expected.filter(|value| format!("{value:032x}").as_bytes() == plain)
            );
        }
    }

    #[test]
    fn numbers_around_the_largest_of_64_bits_end_where_it_ends() {
        for text in [
            "18446744073709551615",
            "18446744073709551616",
            "99999999999999999999",
            "10000000000000000000",
            "1000000000000000",
            "0",
            "00",
            "",
        ] {
            assert_eq!(parsed(text.as_bytes()), canonical(text.as_bytes()), "{text}");
        }
    }
}
