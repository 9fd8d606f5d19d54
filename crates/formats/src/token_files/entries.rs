//! Reads entries of an index: a few by their place, and all those of a block.

use crate::token_error::Error;
use shardmill_storage::RangeRead;
use std::ops::Range;

/// Bytes of a page. A local read costs little more than its bytes, a request costs megabytes.
const PAGE_BYTES: u64 = 8 << 10;
const REMOTE_PAGE_BYTES: u64 = 1 << 20;
/// Pages that are kept: those around the entries of one search, in each array of an index.
const PAGES: usize = 16;

/// Entries of one file by their place, for a search that reads few of them.
#[derive(Debug)]
pub(super) struct Pages<'a> {
    object: &'a dyn RangeRead,
    page_bytes: u64,
    kept: Vec<(u64, Vec<u8>)>,
}

impl<'a> Pages<'a> {
    pub(super) fn new(object: &'a dyn RangeRead) -> Self {
        let page_bytes = if object.is_remote() { REMOTE_PAGE_BYTES } else { PAGE_BYTES };
        Self { object, page_bytes, kept: vec![(u64::MAX, Vec::new()); PAGES] }
    }

    /// The bytes of the entry at `offset`.
    pub(super) fn entry<const N: usize>(&mut self, offset: u64) -> Result<[u8; N], Error> {
        let number = offset / self.page_bytes;
        let start = number * self.page_bytes;
        let slot = usize::try_from(number % PAGES as u64).unwrap_or_default();
        let Some((kept, page)) = self.kept.get_mut(slot) else { return Ok([0; N]) };
        if *kept != number {
            *kept = u64::MAX;
            // An entry may begin in one page and end in the next one.
            let end = (start + self.page_bytes + 8).min(self.object.size()).max(start);
            page.resize(usize::try_from(end - start).unwrap_or_default(), 0);
            self.object.read_at(start, page)?;
            *kept = number;
        }
        let place = usize::try_from(offset - start).unwrap_or(usize::MAX);
        let found = page.get(place..).and_then(<[u8]>::first_chunk);
        found.copied().ok_or_else(|| {
            Error::Storage(shardmill_storage::Error::ShortRead {
                path: self.object.path().to_owned(),
                offset,
                len: N,
                end: self.object.size(),
            })
        })
    }
}

/// An array of numbers in an index.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entries<const N: usize> {
    /// First byte of the array.
    pub(super) at: u64,
}

impl<const N: usize> Entries<N> {
    /// First byte of an entry.
    pub(super) fn offset(self, place: u64) -> u64 {
        self.at.saturating_add(place.saturating_mul(N as u64))
    }

    pub(super) fn range(self, places: Range<u64>) -> Range<u64> {
        self.offset(places.start)..self.offset(places.end)
    }

    pub(super) fn get(self, place: u64, pages: &mut Pages<'_>) -> Result<[u8; N], Error> {
        pages.entry(self.offset(place))
    }
}

/// The entries of `bytes`.
pub(super) fn of_bytes<const N: usize>(bytes: &[u8]) -> impl Iterator<Item = [u8; N]> {
    bytes.as_chunks().0.iter().copied()
}
