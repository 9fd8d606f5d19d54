//! Varints: seven bits per byte, low bits first, as in protocol buffers.

/// The number at the start of `bytes`, and the rest. `None` when the bytes end early or the number
/// has more than 64 bits.
#[inline]
pub(super) fn read(bytes: &[u8]) -> Option<(u64, &[u8])> {
    // An index has a million of these: most have one or two bytes, the others are decoded from
    // eight bytes together if available.
    match bytes {
        [low @ ..0x80, rest @ ..] => Some((u64::from(*low), rest)),
        [low, high @ ..0x80, rest @ ..] => {
            Some((u64::from(*low & 0x7f) | u64::from(*high) << 7, rest))
        }
        _ => read_long(bytes),
    }
}

fn read_long(bytes: &[u8]) -> Option<(u64, &[u8])> {
    if let Some((word, _)) = bytes.split_first_chunk::<8>() {
        let word = u64::from_le_bytes(*word);
        let ends = !word & 0x8080_8080_8080_8080;
        if ends != 0 {
            let bits = ends.trailing_zeros() + 1;
            return Some((
                packed(word & (u64::MAX >> (64 - bits))),
                bytes.get(bits as usize / 8..)?,
            ));
        }
    }
    let mut value = 0u64;
    for (position, &byte) in bytes.iter().take(10).enumerate() {
        if position == 9 && byte > 1 {
            return None;
        }
        value |= u64::from(byte & 0x7f) << (7 * position);
        if byte < 0x80 {
            return Some((value, bytes.get(position + 1..)?));
        }
    }
    None
}

/// Packs the low seven bits of each byte.
fn packed(word: u64) -> u64 {
    let pairs = (word & 0x007f_007f_007f_007f) | (word & 0x7f00_7f00_7f00_7f00) >> 1;
    let fours = (pairs & 0x0000_3fff_0000_3fff) | (pairs & 0x3fff_0000_3fff_0000) >> 2;
    (fours & 0x0fff_ffff) | (fours & 0x0fff_ffff_0000_0000) >> 4
}

pub(super) fn write(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push((value & 0x7f) as u8);
}

#[cfg(test)]
mod tests {
    use super::{read, write};

    #[test]
    fn written_number_is_read_back_and_a_cut_one_is_not() {
        for value in [0, 1, 127, 128, 16383, 16384, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            let mut bytes = Vec::new();
            write(value, &mut bytes);
            assert_eq!(read(&bytes), Some((value, &[][..])));
            assert_eq!(read(&bytes[..bytes.len() - 1]), None);
        }
    }

    #[test]
    fn number_is_the_same_whether_much_follows_or_nothing() {
        for shift in 0..64 {
            for value in [1u64 << shift, (1 << shift) - 1, u64::MAX >> shift] {
                let mut bytes = Vec::new();
                write(value, &mut bytes);
                let len = bytes.len();
                assert_eq!(read(&bytes), Some((value, &[][..])));
                bytes.extend([0xff; 9]);
                assert_eq!(read(&bytes), Some((value, &bytes[len..])));
            }
        }
    }

    #[test]
    fn number_of_more_than_64_bits_is_refused() {
        assert_eq!(read(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02]), None);
        assert_eq!(read(&[0x80; 11]), None);
    }
}
