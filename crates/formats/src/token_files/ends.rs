//! Documents that follow one another without gaps, each known by the token after its last one.

use super::documents::{Documents, Spans};
use super::entries::{Entries, Pages, of_bytes};
use crate::token_error::Error;
use shardmill_storage::RangeRead;
use std::ops::Range;
use std::sync::Arc;

const ENTRIES: Entries<8> = Entries { at: 0 };

/// The ends of documents, in a file of little-endian u64.
#[derive(Debug)]
pub(super) struct Ends {
    pub(super) object: Arc<dyn RangeRead>,
    /// Number of documents.
    pub(super) count: u64,
    /// Number of tokens of the file of tokens.
    pub(super) tokens: u64,
    /// Bytes of a token.
    pub(super) width: u64,
}

impl Ends {
    /// The token after the last one of a document.
    pub(super) fn end(&self, document: u64, pages: &mut Pages<'_>) -> Result<u64, Error> {
        self.checked(document, u64::from_le_bytes(ENTRIES.get(document, pages)?), 0)
    }

    fn checked(&self, document: u64, end: u64, at_least: u64) -> Result<u64, Error> {
        if (at_least..=self.tokens).contains(&end) {
            return Ok(end);
        }
        Err(Error::Entry {
            path: self.object.path().to_owned(),
            offset: ENTRIES.offset(document),
            field: "the end of a document",
            found: end.to_string().into(),
            expected: format!("{at_least} to {}", self.tokens).into(),
        })
    }
}

impl Documents for Ends {
    fn count(&self) -> u64 {
        self.count
    }

    fn start(&self, document: u64, pages: &mut Pages<'_>) -> Result<Option<u64>, Error> {
        let Some(before) = document.checked_sub(1) else { return Ok(Some(0)) };
        let end = u64::from_le_bytes(ENTRIES.get(before, pages)?);
        Ok((end <= self.tokens).then(|| end * self.width))
    }

    fn spans(&self, documents: Range<u64>) -> Result<Spans, Error> {
        let first = documents.start.saturating_sub(1);
        let read = self.object.read_ranges(&[ENTRIES.range(first..documents.end)])?;
        let ends = of_bytes(read.first().map(AsRef::as_ref).unwrap_or_default());
        let mut ends = ends.map(u64::from_le_bytes);
        let mut end = match documents.start {
            0 => 0,
            _ => self.checked(first, ends.next().unwrap_or(u64::MAX), 0)?,
        };
        let len = usize::try_from(documents.end - documents.start).unwrap_or_default();
        let mut spans = Spans::with_capacity(len);
        for (next, document) in ends.zip(documents) {
            let next = self.checked(document, next, end)?;
            spans.starts.push(end * self.width);
            spans.tokens.push(u32::try_from(next - end).unwrap_or(u32::MAX));
            end = next;
        }
        Ok(spans)
    }
}
