//! Values of the tags of one page, in memory.
//!
//! For those who decode a page. Invariant: a value is returned only when all
//! of it is inside of the payload.

use crate::error::Result;
use crate::tiff::entry::Entry;
use crate::tiff::layout::Layout;
use crate::tiff::page::{PageDirectory, raw_entries};
use crate::tiff::tags;
use crate::window::slice;

/// The directory of a page.
#[derive(Debug, Clone, Copy)]
pub struct PageTags<'a> {
    payload: &'a [u8],
    layout: Layout,
    entries: &'a [u8],
}

/// The tags of page `page`, counted from 0.
///
/// # Errors
/// When the payload is not a TIFF, or has no such page.
pub fn page_tags(payload: &[u8], page: usize) -> Result<PageTags<'_>> {
    let PageDirectory { layout, entries, .. } = PageDirectory::find(payload, page)?;
    Ok(PageTags { payload, layout, entries })
}

impl<'a> PageTags<'a> {
    /// Whether numbers, also those of samples, begin with their low byte.
    #[must_use]
    pub fn is_little_endian(&self) -> bool {
        self.layout.endian == crate::endian::Endian::Little
    }

    /// The bytes of the first entry of `tag`.
    #[must_use]
    pub fn bytes(&self, tag: u16) -> Option<&'a [u8]> {
        self.value(tag).map(|(_, bytes)| bytes)
    }

    /// The numbers of the first entry of `tag`; `None` also for types that are not integers.
    #[must_use]
    pub fn numbers(&self, tag: u16) -> Option<Vec<u64>> {
        let (entry, bytes) = self.value(tag)?;
        let len = usize::try_from(tags::kind_len(entry.kind)?).ok()?;
        bytes.chunks_exact(len).map(|bytes| self.layout.unsigned(entry.kind, bytes)).collect()
    }

    /// The first number of `tag`.
    #[must_use]
    pub fn number(&self, tag: u16) -> Option<u64> {
        let (entry, bytes) = self.value(tag)?;
        self.layout.unsigned(entry.kind, bytes)
    }

    fn value(&self, tag: u16) -> Option<(Entry, &'a [u8])> {
        let at = raw_entries(self.layout, self.entries)
            .position(|bytes| self.layout.endian.u16(bytes) == Some(tag))?;
        let raw = self.entries.get(at * usize::try_from(self.layout.entry_len()).ok()?..)?;
        let entry = Entry::parse(self.layout, raw)?;
        let len = usize::try_from(entry.value_len()?).ok()?;
        let bytes = match entry.out_of_line(self.layout) {
            Some(range) => slice(self.payload, &range),
            None => {
                let inline_at =
                    usize::try_from(self.layout.entry_len() - self.layout.offset_len()).ok()?;
                raw.get(inline_at..)?.get(..len)?
            }
        };
        (bytes.len() == len).then_some((entry, bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inline_and_distant_values() {
        let mut payload = b"MM\0\x2a\0\0\0\x08\0\x03".to_vec();
        payload.extend([1, 2, 0, 3, 0, 0, 0, 3, 0, 0, 0, 50]);
        payload.extend([1, 3, 0, 3, 0, 0, 0, 1, 0, 7, 0, 0]);
        payload.extend([1, 4, 0, 4, 0, 0, 0, 9, 0, 0, 0, 50]);
        payload.extend([0, 0, 0, 0]);
        payload.extend([0, 8, 0, 9, 0, 10]);
        let tags = page_tags(&payload, 0).unwrap();
        assert_eq!(tags.numbers(0x102), Some(vec![8, 9, 10]));
        assert_eq!((tags.number(0x103), tags.bytes(0x103)), (Some(7), Some(&[0, 7][..])));
        assert_eq!((tags.number(0x104), tags.number(0x105)), (None, None));
        assert!(!tags.is_little_endian());
    }
}
