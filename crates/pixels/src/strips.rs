//! Cuts the output of a huge image into runs of rows, so that only the pixels
//! of one run are in memory.
//!
//! Output rows are cut, not those of the image: each run is then resized like an image of its own,
//! in any order of the passes. Neighboring runs share the rows of the image that both need, which
//! are few. Invariant: the runs are all rows, in order.

use std::ops::Range;

use crate::geometry::Geometry;
use crate::transform::Transform;

/// Pixels that are decoded at once: half of the square in the middle of a photograph of 89
/// megapixels. Less would take more strips, and each repeats the entropy decoding of what is above
/// it; with more, a loader would not stay within 300 MB beside its prefetched batches.
const DECODED_BYTES: usize = 96 << 20;

/// Pixels that are turned upright at once: few beside those that are decoded, and many beside the
/// rows that two runs share.
const TURNED_BYTES: usize = 16 << 20;

/// The header does not say which images are gray, so they are taken to be as large as others.
const CHANNELS: usize = 3;

/// The largest numbers of bytes that runs may have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) decoded: usize,
    pub(crate) turned: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { decoded: DECODED_BYTES, turned: TURNED_BYTES }
    }
}

/// The fewest equal runs of `rows`, which are rows of the window, whose pixels have at most
/// `max_bytes`. A run has at least a row.
pub(crate) fn strips(
    transform: &Transform,
    geometry: &Geometry,
    rows: &Range<usize>,
    max_bytes: usize,
) -> Vec<Range<usize>> {
    let row_len = transform.columns(geometry).len() * CHANNELS;
    let bytes =
        |rows: &Range<usize>| transform.rows(&geometry.of_rows(rows.clone())).len() * row_len;
    let cut = |count: usize| {
        let bound = move |number: usize| rows.start + rows.len() * number / count;
        (0..count).map(move |number| bound(number)..bound(number + 1))
    };
    let mut counts = bytes(rows).div_ceil(max_bytes.max(1)).max(1)..rows.len();
    let count = counts.find(|count| cut(*count).all(|rows| bytes(&rows) <= max_bytes));
    cut(count.unwrap_or(rows.len().max(1))).collect()
}
