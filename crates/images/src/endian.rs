//! Reads and writes numbers in the byte order of a file.
//!
//! Used by every TIFF module. Invariant: a slice that is too short gives `None`, never a panic.

/// The byte order of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Endian {
    Little,
    Big,
}

impl Endian {
    /// The number in the first two bytes.
    pub(crate) fn u16(self, bytes: &[u8]) -> Option<u16> {
        Some(u16::from_be_bytes(self.reordered(*bytes.first_chunk()?)))
    }

    /// The number in the first four bytes.
    pub(crate) fn u32(self, bytes: &[u8]) -> Option<u32> {
        Some(u32::from_be_bytes(self.reordered(*bytes.first_chunk()?)))
    }

    /// The number in the first eight bytes.
    pub(crate) fn u64(self, bytes: &[u8]) -> Option<u64> {
        Some(u64::from_be_bytes(self.reordered(*bytes.first_chunk()?)))
    }

    pub(crate) fn put_u16(self, out: &mut Vec<u8>, value: u16) {
        out.extend_from_slice(&self.reordered(value.to_be_bytes()));
    }

    pub(crate) fn put_u32(self, out: &mut Vec<u8>, value: u32) {
        out.extend_from_slice(&self.reordered(value.to_be_bytes()));
    }

    pub(crate) fn put_u64(self, out: &mut Vec<u8>, value: u64) {
        out.extend_from_slice(&self.reordered(value.to_be_bytes()));
    }

    /// Big-endian bytes in this order, or bytes in this order as big-endian ones.
    fn reordered<const N: usize>(self, mut bytes: [u8; N]) -> [u8; N] {
        if self == Self::Little {
            bytes.reverse();
        }
        bytes
    }
}
