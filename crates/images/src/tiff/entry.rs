//! One raw entry of a directory.
//!
//! Invariant: the count is never trusted here.

use std::ops::Range;

use crate::tiff::layout::Layout;
use crate::tiff::tags;

/// An entry whose value has not been read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) tag: u16,
    pub(crate) kind: u16,
    pub(crate) count: u64,
    /// The value if it is short enough, otherwise its offset; classic TIFF uses four bytes of it.
    pub(crate) field: [u8; 8],
}

impl Entry {
    pub(crate) fn parse(layout: Layout, bytes: &[u8]) -> Option<Self> {
        let endian = layout.endian;
        let (count, field) = if layout.is_big {
            let field = *bytes.get(12..)?.first_chunk::<8>()?;
            (endian.u64(bytes.get(4..)?)?, field)
        } else {
            let [a, b, c, d] = *bytes.get(8..)?.first_chunk::<4>()?;
            (endian.u32(bytes.get(4..)?)?.into(), [a, b, c, d, 0, 0, 0, 0])
        };
        Some(Self { tag: endian.u16(bytes)?, kind: endian.u16(bytes.get(2..)?)?, count, field })
    }

    /// Size of the value; `None` for unknown types and for counts that overflow.
    pub(crate) fn value_len(&self) -> Option<u64> {
        tags::kind_len(self.kind)?.checked_mul(self.count)
    }

    /// Position of the value if it is out of line.
    pub(crate) fn out_of_line(&self, layout: Layout) -> Option<Range<u64>> {
        let len = self.value_len()?;
        let offset = layout.offset(&self.field)?;
        (len > layout.offset_len()).then(|| offset..offset.saturating_add(len))
    }

    /// The first number of an inline integer value.
    pub(crate) fn inline_unsigned(&self, layout: Layout) -> Option<u64> {
        let len = self.value_len()?;
        if self.count == 0 || len > layout.offset_len() {
            return None;
        }
        layout.unsigned(self.kind, &self.field)
    }
}
