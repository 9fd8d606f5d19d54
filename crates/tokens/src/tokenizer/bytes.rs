//! The alphabet in which byte-level models write bytes as characters.

/// Printable bytes stand for themselves; the others follow from U+0100 on, in their order.
pub(crate) fn character(byte: u8) -> char {
    let is_printable = |byte: u8| matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    if is_printable(byte) {
        return char::from(byte);
    }
    let before = (0..byte).filter(|earlier| !is_printable(*earlier)).count();
    u32::try_from(before)
        .ok()
        .and_then(|before| char::from_u32(0x100 + before))
        .unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// All characters, by byte.
pub(crate) fn alphabet() -> [char; 256] {
    std::array::from_fn(|byte| u8::try_from(byte).map_or(char::REPLACEMENT_CHARACTER, character))
}

pub(crate) fn spelled(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| character(*byte)).collect()
}

/// The bytes of a token, unless it has a character outside of the alphabet.
pub(crate) fn raw(token: &str) -> Option<Vec<u8>> {
    token.chars().map(byte).collect()
}

fn byte(character: char) -> Option<u8> {
    match u32::from(character) {
        code @ (0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff) => u8::try_from(code).ok(),
        code @ 0x100..=0x120 => u8::try_from(code - 0x100).ok(),
        code @ 0x121..=0x142 => u8::try_from(code - 0x121 + 0x7f).ok(),
        0x143 => Some(0xad),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_a_character_of_its_own() {
        let mut characters: Vec<char> = alphabet().to_vec();
        for (byte, character) in (0..=u8::MAX).zip(&characters) {
            assert_eq!(raw(&character.to_string()), Some(vec![byte]));
        }
        characters.sort_unstable();
        characters.dedup();
        assert_eq!(characters.len(), 256);
        assert_eq!(
            (character(b' '), character(b'\n'), character(0x7f), character(0xa0), character(0xad)),
            ('Ġ', 'Ċ', 'ġ', 'ł', 'Ń')
        );
    }
}
