//! The plan for copying a page, and its execution in memory.
//!
//! Files execute a plan by copying ranges, tests and bindings with [`extract_page`]. Invariant: the
//! length of the copy is known from the plan alone.

use std::ops::Range;

use bytes::Bytes;

use crate::error::Result;
use crate::tiff::extract::PageExtraction;
use crate::tiff::walk::tiff_index;
use crate::window::slice;

/// How to create the file of one page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PageCopy {
    /// The payload has one page: it is copied unchanged.
    Whole,
    /// `head`, then the ranges of the payload in this order.
    Pieces { head: Bytes, segments: Vec<Range<u64>> },
}

impl PageCopy {
    /// Size of the copy, known before pixels are read.
    #[must_use]
    pub fn len(&self, payload_len: u64) -> u64 {
        match self {
            Self::Whole => payload_len,
            Self::Pieces { head, segments } => segments
                .iter()
                .map(|range| range.end.saturating_sub(range.start))
                .fold(head.len() as u64, u64::saturating_add),
        }
    }
}

/// Page `page` of a TIFF in memory, as a separate TIFF.
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
