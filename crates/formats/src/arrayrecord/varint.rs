//! Numbers of seven bits a byte, low bits first, as protocol buffers have them.

/// The number at the start of `bytes`, and what follows it. `None` when the bytes end early or the number has more than 64 bits.
pub(super) fn read(bytes: &[u8]) -> Option<(u64, &[u8])> {
    // Nearly all are short; the general loop is for the rest.
    if let Some((&byte, rest)) = bytes.split_first()
        && byte < 0x80
    {
        return Some((u64::from(byte), rest));
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
    fn number_of_more_than_64_bits_is_refused() {
        assert_eq!(read(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02]), None);
        assert_eq!(read(&[0x80; 11]), None);
    }
}
