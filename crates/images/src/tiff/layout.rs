//! Byte order and flavour of one TIFF.
//!
//! Derived from the header. Invariant: BigTIFF is accepted only with 8-byte offsets.

use crate::endian::Endian;
use crate::tiff::tags;

/// Decoded from the first eight or sixteen bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) endian: Endian,
    pub(crate) is_big: bool,
}

impl Layout {
    /// Layout and offset of the first directory; `None` if this is not a TIFF header.
    pub(crate) fn parse(header: &[u8]) -> Option<(Self, u64)> {
        let endian = match header.get(..2)? {
            b"II" => Endian::Little,
            b"MM" => Endian::Big,
            _ => return None,
        };
        match endian.u16(header.get(2..)?)? {
            42 => {
                let layout = Self { endian, is_big: false };
                Some((layout, endian.u32(header.get(4..)?)?.into()))
            }
            43 if endian.u16(header.get(4..)?)? == 8 && endian.u16(header.get(6..)?)? == 0 => {
                let layout = Self { endian, is_big: true };
                Some((layout, endian.u64(header.get(8..)?)?))
            }
            _ => None,
        }
    }

    pub(crate) fn header_len(self) -> u64 {
        if self.is_big { 16 } else { 8 }
    }

    /// Size of the entry count at the start of a directory.
    pub(crate) fn count_len(self) -> u64 {
        if self.is_big { 8 } else { 2 }
    }

    pub(crate) fn entry_len(self) -> u64 {
        if self.is_big { 20 } else { 12 }
    }

    /// Size of an offset, and of an inline value.
    pub(crate) fn offset_len(self) -> u64 {
        if self.is_big { 8 } else { 4 }
    }

    /// Size of a directory with `entries` entries and the offset of the next one.
    pub(crate) fn directory_len(self, entries: u64) -> Option<u64> {
        entries.checked_mul(self.entry_len())?.checked_add(self.count_len() + self.offset_len())
    }

    pub(crate) fn entry_count(self, bytes: &[u8]) -> Option<u64> {
        if self.is_big { self.endian.u64(bytes) } else { self.endian.u16(bytes).map(u64::from) }
    }

    pub(crate) fn offset(self, bytes: &[u8]) -> Option<u64> {
        if self.is_big { self.endian.u64(bytes) } else { self.endian.u32(bytes).map(u64::from) }
    }

    /// The first value of an integer type; `None` for other types and negative numbers.
    pub(crate) fn unsigned(self, kind: u16, bytes: &[u8]) -> Option<u64> {
        match kind {
            1 => bytes.first().copied().map(u64::from),
            6 => u64::try_from(bytes.first()?.cast_signed()).ok(),
            tags::SHORT => self.endian.u16(bytes).map(u64::from),
            8 => u64::try_from(self.endian.u16(bytes)?.cast_signed()).ok(),
            tags::LONG | tags::IFD => self.endian.u32(bytes).map(u64::from),
            9 => u64::try_from(self.endian.u32(bytes)?.cast_signed()).ok(),
            tags::LONG8 | tags::IFD8 => self.endian.u64(bytes),
            17 => u64::try_from(self.endian.u64(bytes)?.cast_signed()).ok(),
            _ => None,
        }
    }

    /// Appends `value` as an offset type; `None` if it does not fit.
    pub(crate) fn put_unsigned(self, out: &mut Vec<u8>, kind: u16, value: u64) -> Option<()> {
        match kind {
            tags::SHORT => self.endian.put_u16(out, u16::try_from(value).ok()?),
            tags::LONG | tags::IFD => self.endian.put_u32(out, u32::try_from(value).ok()?),
            tags::LONG8 | tags::IFD8 => self.endian.put_u64(out, value),
            _ => return None,
        }
        Some(())
    }

    /// Appends an entry count or an inline offset.
    pub(crate) fn put_offset(self, out: &mut Vec<u8>, value: u64) -> Option<()> {
        let kind = if self.is_big { tags::LONG8 } else { tags::LONG };
        self.put_unsigned(out, kind, value)
    }
}
