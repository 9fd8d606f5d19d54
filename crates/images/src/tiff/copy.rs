//! The plan of a copied page, and its execution in memory.
//!
//! A plan leaves the extraction; files execute it by copying ranges, tests and bindings by [`extract_page`]. Invariant: the length of the copy is
//! known from the plan alone.

use std::ops::Range;

use bytes::Bytes;

use crate::error::Result;
use crate::tiff::extract::PageExtraction;
use crate::tiff::walk::tiff_index;
use crate::window::slice;

/// How to make the file of one page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PageCopy {
    /// The payload has one page: it is the copy.
    Whole,
    /// `head`, then the ranges of the payload in this order.
    Pieces { head: Bytes, segments: Vec<Range<u64>> },
}

impl PageCopy {
    /// Bytes of the copy, known before a pixel is read.
    #[must_use]
    pub fn len(&self, payload_len: u64) -> u64 {
        match self {
            Self::Whole => payload_len,
            Self::Pieces { head, segments } => {
                segments.iter().map(|range| range.end.saturating_sub(range.start)).fold(head.len() as u64, u64::saturating_add)
            }
        }
    }
}

/// Page `page` of a TIFF in memory, as a TIFF of its own.
///
/// # Errors
/// As [`TiffWalk`](crate::TiffWalk) and [`PageExtraction`].
pub fn extract_page(payload: &[u8], page: usize) -> Result<Bytes> {
    let index = tiff_index(payload)?;
    let mut extraction = PageExtraction::new(&index, page)?;
    while let Some(range) = extraction.needs() {
        extraction.push(slice(payload, &range))?;
    }
    match extraction.finish()? {
        PageCopy::Whole => Ok(Bytes::copy_from_slice(payload)),
        PageCopy::Pieces { head, segments } => {
            let mut out = Vec::with_capacity(head.len());
            out.extend_from_slice(&head);
            for segment in &segments {
                out.extend_from_slice(slice(payload, segment));
            }
            Ok(out.into())
        }
    }
}
