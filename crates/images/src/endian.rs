//! Reads and writes numbers in the byte order of a file.
//!
//! Slices enter, numbers leave; used by every TIFF module. Invariant: a slice that is too short gives `None`, never a panic.

/// The order of bytes in a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Endian {
    Little,
    Big,
}

impl Endian {
    /// The number in the first two bytes.
    pub(crate) fn u16(self, bytes: &[u8]) -> Option<u16> {
        let array = *bytes.first_chunk()?;
        Some(match self {
            Self::Little => u16::from_le_bytes(array),
            Self::Big => u16::from_be_bytes(array),
        })
    }

    /// The number in the first four bytes.
    pub(crate) fn u32(self, bytes: &[u8]) -> Option<u32> {
        let array = *bytes.first_chunk()?;
        Some(match self {
            Self::Little => u32::from_le_bytes(array),
            Self::Big => u32::from_be_bytes(array),
        })
    }

    /// The number in the first eight bytes.
    pub(crate) fn u64(self, bytes: &[u8]) -> Option<u64> {
        let array = *bytes.first_chunk()?;
        Some(match self {
            Self::Little => u64::from_le_bytes(array),
            Self::Big => u64::from_be_bytes(array),
        })
    }

    pub(crate) fn put_u16(self, out: &mut Vec<u8>, value: u16) {
        out.extend_from_slice(&match self {
            Self::Little => value.to_le_bytes(),
            Self::Big => value.to_be_bytes(),
        });
    }

    pub(crate) fn put_u32(self, out: &mut Vec<u8>, value: u32) {
        out.extend_from_slice(&match self {
            Self::Little => value.to_le_bytes(),
            Self::Big => value.to_be_bytes(),
        });
    }

    pub(crate) fn put_u64(self, out: &mut Vec<u8>, value: u64) {
        out.extend_from_slice(&match self {
            Self::Little => value.to_le_bytes(),
            Self::Big => value.to_be_bytes(),
        });
    }
}
