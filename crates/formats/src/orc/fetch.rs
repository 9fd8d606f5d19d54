//! Reads several ranges of a file with few requests.

use bytes::Bytes;
use shardmill_storage::{Error, RangeRead};
use std::ops::Range;

/// A gap that is cheaper to read than another request.
const MAX_GAP_BYTES: u64 = 64 << 10;

/// Maximal size of a buffer, unless a single range is larger.
const MAX_REQUEST_BYTES: u64 = 32 << 20;

/// The bytes of `ranges`, which are ascending, in their order.
///
/// # Errors
/// When the bytes cannot be read.
pub(super) fn fetch(object: &dyn RangeRead, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, Error> {
    if object.is_remote() {
        return object.read_ranges(ranges);
    }
    let mut fetched = Vec::with_capacity(ranges.len());
    let mut rest = ranges;
    while let Some(first) = rest.first() {
        let mut end = first.end;
        let fits = |range: &&Range<u64>| {
            let is_near =
                range.start <= end.saturating_add(MAX_GAP_BYTES) && range.start >= first.start;
            let is_small = range.end.saturating_sub(first.start) <= MAX_REQUEST_BYTES;
            end = if is_near && is_small { end.max(range.end) } else { end };
            is_near && is_small
        };
        let together = 1 + rest.iter().skip(1).take_while(fits).count();
        let (now, later) = rest.split_at_checked(together).unwrap_or((rest, &[]));
        let buffer = object
            .read_ranges(std::slice::from_ref(&(first.start..end)))?
            .pop()
            .unwrap_or_default();
        let place = |position: u64| {
            usize::try_from(position - first.start).unwrap_or(usize::MAX).min(buffer.len())
        };
        fetched.extend(now.iter().map(|range| buffer.slice(place(range.start)..place(range.end))));
        rest = later;
    }
    Ok(fetched)
}
