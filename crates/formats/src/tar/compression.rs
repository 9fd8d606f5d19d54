//! Detects by content whether an archive is compressed.
//!
//! Called before a walk with the first bytes of a file. File names are ignored: `.tar` files are
//! often gzip inside, and the reverse.

use std::fmt::{Display, Formatter};

/// The compression of an archive.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    None,
    Gzip,
    Zstd,
    Bzip2,
    Xz,
}

impl Display for Compression {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
            Self::Bzip2 => "bzip2",
            Self::Xz => "xz",
        })
    }
}

/// The compression of the archive that begins with `prefix`; ten bytes are enough.
pub fn sniff_compression(prefix: &[u8]) -> Compression {
    match prefix {
        [0x1f, 0x8b, 8, ..] => Compression::Gzip,
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Compression::Zstd,
        // `pzstd` begins with a skippable frame.
        [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Compression::Zstd,
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Compression::Xz,
        // A member may be named `BZh9…`: the magic of the first block, or of the end, must follow.
        [b'B', b'Z', b'h', b'1'..=b'9', rest @ ..]
            if rest.starts_with(b"1AY&SY") || rest.starts_with(b"\x17\x72\x45\x38\x50\x90") =>
        {
            Compression::Bzip2
        }
        _ => Compression::None,
    }
}
