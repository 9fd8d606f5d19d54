//! Tells by content whether an archive is compressed.
//!
//! The first bytes of a file enter, a [`Compression`] leaves; called before a walk. File names are not asked: `.tar`
//! files are often gzip inside, and the reverse.

/// How an archive is compressed. Only [`None`](Self::None) and [`Gzip`](Self::Gzip) can be read.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    None,
    Gzip,
    Zstd,
    Bzip2,
    Xz,
}

impl Compression {
    /// Whether archives of this compression can be read.
    pub fn is_supported(self) -> bool {
        matches!(self, Self::None | Self::Gzip)
    }
}

/// How the archive that begins with `prefix` is compressed; ten bytes are enough.
pub fn sniff_compression(prefix: &[u8]) -> Compression {
    match prefix {
        [0x1f, 0x8b, 8, ..] => Compression::Gzip,
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Compression::Zstd,
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Compression::Xz,
        // A member may be called `BZh9…`: the magic of the first block, or of the end, must follow.
        [b'B', b'Z', b'h', b'1'..=b'9', rest @ ..] if rest.starts_with(b"1AY&SY") || rest.starts_with(b"\x17\x72\x45\x38\x50\x90") => {
            Compression::Bzip2
        }
        _ => Compression::None,
    }
}
