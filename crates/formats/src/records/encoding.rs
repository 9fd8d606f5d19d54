//! Encodings of text files, which are converted to UTF-8 while they are read.

use serde::{Deserialize, Serialize};
use std::io::{self, Read};

const CHUNK_BYTES: u64 = 64 << 10;

/// In UTF-16.
const MAX_CHARACTER_BYTES: usize = 4;

/// The characters of cp1252 from 0x80 to 0x9f; NUL where it has none.
const CP1252: [char; 32] = [
    '€', '\0', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\0', 'Ž', '\0', '\0', '‘',
    '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\0', 'ž', 'Ÿ',
];

/// With the names and the characters of Python's codecs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum Encoding {
    /// It is not checked here: a value that is not valid is an error of its column.
    #[default]
    #[serde(rename = "utf-8")]
    Utf8,
    /// In the order of bytes of its mark; without one, the lower byte is first.
    #[serde(rename = "utf-16")]
    Utf16,
    #[serde(rename = "latin-1")]
    Latin1,
    #[serde(rename = "cp1252")]
    Cp1252,
}

impl Encoding {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Utf8 => "utf-8",
            Self::Utf16 => "utf-16",
            Self::Latin1 => "latin-1",
            Self::Cp1252 => "cp1252",
        }
    }
}

/// A byte that is not text.
#[derive(Debug, thiserror::Error)]
#[error("the byte at offset {offset} is not valid {}", .encoding.name())]
pub(crate) struct Undecodable {
    pub(crate) encoding: Encoding,
    pub(crate) offset: u64,
}

/// Reads text in `encoding` as UTF-8.
pub(crate) fn decoder<'a>(input: Box<dyn Read + 'a>, encoding: Encoding) -> Box<dyn Read + 'a> {
    match encoding {
        Encoding::Utf8 => input,
        _ => Box::new(Decoder {
            input,
            encoding,
            order: None,
            bytes: Vec::new(),
            offset: 0,
            text: String::new(),
            taken: 0,
        }),
    }
}

struct Decoder<R> {
    input: R,
    encoding: Encoding,
    /// Converts the two bytes of a unit.
    order: Option<fn([u8; 2]) -> u16>,
    /// Read, but not decoded.
    bytes: Vec<u8>,
    /// Of `bytes`.
    offset: u64,
    text: String,
    taken: usize,
}

impl<R: Read> Decoder<R> {
    /// Decodes the next text; false at the end of the input. Text before a byte that is not valid
    /// comes before the error.
    fn fill(&mut self) -> io::Result<bool> {
        let is_last = self.input.by_ref().take(CHUNK_BYTES).read_to_end(&mut self.bytes)? == 0;
        self.text.clear();
        self.taken = 0;
        let used = if self.encoding == Encoding::Utf16 {
            self.decode_units()
        } else {
            self.decode_bytes()
        };
        self.bytes.drain(..used);
        self.offset += used as u64;
        // A part of a character may be completed by what follows.
        let is_certain = is_last || self.bytes.len() >= MAX_CHARACTER_BYTES;
        if used == 0 && !self.bytes.is_empty() && is_certain {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                Undecodable { encoding: self.encoding, offset: self.offset },
            ));
        }
        Ok(!is_last)
    }

    /// Returns how many bytes were decoded.
    fn decode_bytes(&mut self) -> usize {
        let character = |byte: u8| match (self.encoding, byte) {
            (Encoding::Cp1252, 0x80..=0x9f) => {
                CP1252.get(usize::from(byte - 0x80)).copied().filter(|character| *character != '\0')
            }
            _ => Some(char::from(byte)),
        };
        let decoded = self.bytes.iter().map_while(|byte| character(*byte));
        let mut used = 0;
        self.text.extend(decoded.inspect(|_| used += 1));
        used
    }

    fn decode_units(&mut self) -> usize {
        let mut used = 0;
        let order = *self.order.get_or_insert_with(|| match self.bytes.get(..2) {
            Some([0xfe, 0xff]) => u16::from_be_bytes,
            _ => u16::from_le_bytes,
        });
        let (units, _) = self.bytes.as_chunks::<2>();
        let characters = char::decode_utf16(units.iter().map(|unit| order(*unit)));
        // The mark stays, and is removed as that of UTF-8.
        self.text.extend(
            characters.map_while(Result::ok).inspect(|character| used += 2 * character.len_utf16()),
        );
        used
    }
}

impl<R: Read> Read for Decoder<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.taken == self.text.len() && self.fill()? {}
        let read = self.text.as_bytes().get(self.taken..).unwrap_or_default().read(buffer)?;
        self.taken += read;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A reader whose reads end anywhere.
    struct InPieces<'a>(&'a [u8], usize);

    impl Read for InPieces<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let len = buffer.len().min(self.1);
            self.0.read(&mut buffer[..len])
        }
    }

    fn decode(bytes: &[u8], encoding: Encoding, piece: usize) -> io::Result<String> {
        let mut text = String::new();
        decoder(Box::new(InPieces(bytes, piece)), encoding).read_to_string(&mut text).map(|_| text)
    }

    fn offset_of(decoded: io::Result<String>) -> Option<u64> {
        decoded.err()?.downcast::<Undecodable>().ok().map(|fault| fault.offset)
    }

    proptest! {
        #[test]
        fn utf_16_of_either_order_is_read_in_pieces_of_any_size(
            text in "\\PC{0,40}",
            repeats in prop::sample::select(vec![1, 3000]),
            piece in 1usize..9,
        ) {
            let text = text.repeat(repeats);
            for (mark, order) in [
                ("\u{feff}", u16::to_be_bytes as fn(u16) -> [u8; 2]),
                ("\u{feff}", u16::to_le_bytes),
                ("", u16::to_le_bytes),
            ] {
                let whole = format!("{mark}{text}");
                let bytes: Vec<u8> = whole.encode_utf16().flat_map(order).collect();
                prop_assert_eq!(decode(&bytes, Encoding::Utf16, piece).unwrap(), whole);
            }
        }
    }

    #[test]
    fn bytes_are_the_characters_of_their_encoding() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(
            decode(&all, Encoding::Latin1, 7).unwrap().chars().map(u32::from).collect::<Vec<_>>(),
            (0..=255).collect::<Vec<_>>()
        );
        assert_eq!(decode(b"\x80\x9f\xe9", Encoding::Cp1252, 1).unwrap(), "€Ÿé");
    }

    #[test]
    fn bytes_that_are_not_text_are_named_by_their_offset() {
        for byte in [0x81, 0x8d, 0x8f, 0x90, 0x9d] {
            let text = [b"a".repeat(200_000), vec![byte]].concat();
            assert_eq!(offset_of(decode(&text, Encoding::Cp1252, 1 << 20)), Some(200_000));
        }
        let units =
            |units: &[u16]| units.iter().flat_map(|unit| unit.to_le_bytes()).collect::<Vec<u8>>();
        assert_eq!(
            offset_of(decode(&units(&[0xfeff, 0x61, 0xdc00, 0x61, 0x61]), Encoding::Utf16, 3)),
            Some(4)
        );
        assert_eq!(offset_of(decode(&units(&[0x61, 0xd83d]), Encoding::Utf16, 3)), Some(2));
        assert_eq!(offset_of(decode(b"a\0b", Encoding::Utf16, 3)), Some(2));
    }
}
