//! Cuts documents into blocks without reading their whole index.
//!
//! A block has as many documents as fit into [`MOST_BYTES`]. Each border is found by a search that
//! reads a few entries, near the place where it is if documents are as long as those before. The
//! invariant: blocks follow from the index alone, and one that is larger is a single document.

use super::documents::Documents;
use super::entries::Pages;
use crate::token_error::Error;

/// The most bytes of a block of several documents, with the gaps between them.
pub(super) const MOST_BYTES: u64 = 8 << 20;
/// The most documents of a block.
const MOST_DOCUMENTS: u64 = 1 << 20;
/// The first step of a search, as a part of the distance that was guessed.
const STEPS: u64 = 32;

/// The first document of a block, and its first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Border {
    pub(super) document: u64,
    pub(super) start: u64,
}

/// The borders of the blocks, and the end of the last one.
pub(super) fn cut(documents: &dyn Documents, pages: &mut Pages<'_>) -> Result<Vec<Border>, Error> {
    let count = documents.count();
    let Some(start) = documents.start(0, pages)? else {
        // The entries say where the index is wrong.
        documents.spans(0..1)?;
        return Ok(Vec::new());
    };
    let mut border = Border { document: 0, start };
    let (mut borders, mut each) = (vec![border], 1);
    while border.document < count {
        let guess = border.document.saturating_add(each).min(count);
        let next = last(documents, border, guess, pages)?.max(border.document + 1);
        each = next - border.document;
        let mut next = next.min(border.document + MOST_DOCUMENTS);
        // A block does not end where the index lies, so it is refused when it is read.
        let start = loop {
            match documents.start(next, pages)? {
                Some(start) if start >= border.start => break start,
                _ if next >= count => {
                    documents.spans(border.document..count)?;
                    break border.start;
                }
                _ => next += 1,
            }
        };
        border = Border { document: next, start };
        borders.push(border);
    }
    Ok(borders)
}

/// The last document that starts at most [`MOST_BYTES`] after a border; the number of documents if
/// the last one ends there.
fn last(
    documents: &dyn Documents,
    border: Border,
    guess: u64,
    pages: &mut Pages<'_>,
) -> Result<u64, Error> {
    let room = border.start..=border.start.saturating_add(MOST_BYTES);
    let mut fits = |document: u64| -> Result<bool, Error> {
        Ok(documents.start(document, pages)?.is_some_and(|start| room.contains(&start)))
    };
    let count = documents.count();
    let mut step = (guess - border.document) / STEPS + 1;
    // `low` fits; `high` does not, or is after the end.
    let (mut low, mut high, mut probe) = (border.document, count + 1, guess);
    while low < probe && probe < high {
        if fits(probe)? {
            low = probe;
            probe = probe.saturating_add(step).min(count);
        } else {
            high = probe;
            probe = probe.saturating_sub(step).max(low);
        }
        step = step.saturating_mul(2);
    }
    while high - low > 1 {
        let middle = low.midpoint(high);
        if fits(middle)? {
            low = middle;
        } else {
            high = middle;
        }
    }
    Ok(low)
}
