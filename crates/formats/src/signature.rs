//! Detects the format of a file by its first bytes, regardless of its name.
//!
//! Used when a name does not show a format, and when a file does not match its name. The invariant:
//! plain text is never mistaken for a binary format because of the letters that it begins with.

use crate::tar::{Compression, sniff_compression};

/// The number of bytes that [`Signature::of`] needs.
pub const SIGNATURE_BYTES: u64 = 512;

/// The hash of the first block's header, and its fixed distances, in every Riegeli file.
const ARRAYRECORD: &[u8] = b"\x83\xaf\x70\xd1\x0d\x88\x4a\x3f";

const TAR_MAGIC_OFFSET: usize = 257;

#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signature {
    Parquet,
    Orc,
    ArrayRecord,
    Tar,
    Compressed(Compression),
    /// Another known format, with its name for messages.
    Other(&'static str),
    Json,
    Text,
    Binary,
    Empty,
}

/// Known formats that are not supported, by their first bytes.
const OTHERS: [(&[u8], &str); 14] = [
    (b"ARROW1", "an Arrow file"),
    (b"\xff\xff\xff\xff", "an Arrow stream"),
    (b"Obj\x01", "an Avro file"),
    (b"\x89HDF\r\n", "an HDF5 file"),
    (b"\x93NUMPY", "a NumPy file"),
    (b"PK\x03\x04", "a ZIP archive"),
    (b"PK\x05\x06", "a ZIP archive"),
    (b"SQLite format 3\0", "an SQLite database"),
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"\xff\xfe", "UTF-16 text"),
    (b"\xfe\xff", "UTF-16 text"),
    (b"\x04\x22\x4d\x18", "bytes compressed with lz4"),
    (b"\xff\x06\0\0sNaPpY", "bytes compressed with snappy"),
];

impl Signature {
    /// From the first [`SIGNATURE_BYTES`] of a file, or all bytes of a smaller one.
    #[must_use]
    pub fn of(head: &[u8]) -> Self {
        if head.is_empty() {
            return Self::Empty;
        }
        let is_tar = head.get(TAR_MAGIC_OFFSET..).is_some_and(|magic| magic.starts_with(b"ustar"));
        match sniff_compression(head) {
            _ if is_tar => return Self::Tar,
            Compression::None => {}
            compression => return Self::Compressed(compression),
        }
        if head.starts_with(ARRAYRECORD) {
            return Self::ArrayRecord;
        }
        if let Some((_, name)) = OTHERS.iter().find(|(magic, _)| head.starts_with(magic)) {
            return Self::Other(name);
        }
        let is_control = |byte: &u8| matches!(byte, 0..=8 | 14..=26 | 28..=31 | 127);
        if !head.iter().any(is_control) {
            let solid = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start();
            return if is_json(solid) { Self::Json } else { Self::Text };
        }
        match head {
            [b'P', b'A', b'R', b'1' | b'E', ..] => Self::Parquet,
            [b'O', b'R', b'C', ..] => Self::Orc,
            _ if head.contains(&0) => Self::Binary,
            // Hive separates fields by control characters.
            _ => Self::Text,
        }
    }

    /// How a message names such a file.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Parquet => "a Parquet file",
            Self::Orc => "an ORC file",
            Self::ArrayRecord => "an ArrayRecord file",
            Self::Tar => "a tar archive",
            Self::Compressed(Compression::Gzip) => "bytes compressed with gzip",
            Self::Compressed(Compression::Zstd) => "bytes compressed with zstd",
            Self::Compressed(Compression::Bzip2) => "bytes compressed with bzip2",
            Self::Compressed(Compression::Xz) => "bytes compressed with xz",
            Self::Compressed(Compression::None) | Self::Binary => "binary data",
            Self::Other(name) => name,
            Self::Json => "JSON",
            Self::Text => "text",
            Self::Empty => "an empty file",
        }
    }
}

/// Whether an object, or an array of objects, begins here. The header of a CSV
/// file may contain brackets.
fn is_json(text: &[u8]) -> bool {
    let Some((open, rest)) = text.split_first() else { return false };
    match (open, rest.trim_ascii_start().first()) {
        (b'{', next) => matches!(next, None | Some(b'"' | b'}')),
        (b'[', next) => matches!(next, None | Some(b'{' | b']')),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_of_a_format_at_the_start_of_text_are_text() {
        for text in
            ["PAR1,PAR2\n1,2\n", "ORC,a\n", "id,name\n1,\u{e9}\n", "BZh9,x\n", "[a],b\n", "{x},y\n"]
        {
            assert_eq!(Signature::of(text.as_bytes()), Signature::Text, "{text}");
        }
        for text in ["{\"a\": 1}", "\n [\n", "\u{feff}[]"] {
            assert_eq!(Signature::of(text.as_bytes()), Signature::Json, "{text}");
        }
    }

    #[test]
    fn binary_formats_are_distinguished() {
        let tar = [vec![b'a'; 100], vec![0; 157], b"ustar\x0000".to_vec(), vec![0; 247]].concat();
        assert_eq!(Signature::of(&tar), Signature::Tar);
        assert_eq!(Signature::of(b"PAR1\x15\x04\x15"), Signature::Parquet);
        assert_eq!(Signature::of(b"ORC\x0a\x03\0\0"), Signature::Orc);
        assert_eq!(Signature::of(b"\x1f\x8b\x08\0"), Signature::Compressed(Compression::Gzip));
        assert_eq!(Signature::of(b"\x89PNG\r\n\x1a\n"), Signature::Other("a PNG image"));
        assert_eq!(Signature::of(b"\x01\x02\x03\0"), Signature::Binary);
        assert_eq!(Signature::of(b"a\x01b\n"), Signature::Text);
        assert_eq!(Signature::of(b""), Signature::Empty);
    }
}
