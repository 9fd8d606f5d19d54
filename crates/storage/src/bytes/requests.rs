//! Plans the requests that serve a batch of ranges.
//!
//! Near ranges become one request, and what lies between them is read and dropped: up to some
//! megabytes that takes less time than another round trip.

use std::ops::Range;

/// The spans to ask for, in the order of the object; each range that is not empty lies within one.
/// What is at most `max_gap` apart is joined, up to `max_joined` in all.
pub(crate) fn joined(
    mut ranges: Vec<Range<u64>>,
    max_gap: u64,
    max_joined: u64,
) -> Vec<Range<u64>> {
    ranges.retain(|range| !range.is_empty());
    ranges.sort_unstable_by_key(|range| (range.start, range.end));
    let mut spans: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match spans.last_mut() {
            Some(last) if range.start < last.end => last.end = last.end.max(range.end),
            Some(last)
                if range.start - last.end <= max_gap && range.end - last.start <= max_joined =>
            {
                last.end = range.end;
            }
            _ => spans.push(range),
        }
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const MAX_GAP: u64 = 4 << 20;
    const MAX_JOINED: u64 = 64 << 20;

    #[test]
    fn near_ranges_are_one_request_and_far_ones_are_two() {
        let (a, b, c) = (0..10, 10 + MAX_GAP..20 + MAX_GAP, 21 + 2 * MAX_GAP..22 + 2 * MAX_GAP);
        assert_eq!(joined(vec![c.clone(), a, b.clone()], MAX_GAP, MAX_JOINED), [0..b.end, c]);
    }

    #[test]
    fn ranges_that_overlap_or_touch_are_joined_and_empty_ones_cost_no_request() {
        let ranges = vec![20..25, 5..15, 0..10, 6..7, 0..10, 90..90, Range { start: 30, end: 20 }];
        assert_eq!(joined(ranges, 0, MAX_JOINED), [0..15, 20..25]);
        assert_eq!(joined(vec![0..10, 10..20], 0, MAX_JOINED), [Range { start: 0, end: 20 }]);
    }

    #[test]
    fn joined_request_stays_below_its_bound() {
        let ranges: Vec<_> =
            (0..100).map(|number| number * 3 * MIB..number * 3 * MIB + MIB).collect();
        let spans = joined(ranges.clone(), MAX_GAP, MAX_JOINED);
        assert!(spans.len() > 1 && spans.iter().all(|span| span.end - span.start <= MAX_JOINED));
        assert!(ranges.iter().all(|range| {
            spans.iter().any(|span| span.start <= range.start && range.end <= span.end)
        }));
        let large = 0..10 * MAX_JOINED;
        assert_eq!(joined(vec![large.clone()], MAX_GAP, MAX_JOINED), [large]);
    }
}
