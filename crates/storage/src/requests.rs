//! Which requests serve a batch of ranges.
//!
//! Near ranges become one request, and what lies between them is read and dropped: up to some megabytes that takes less time than another round trip.
//! The invariant: the memory of a batch is what was asked for, whatever lies between.

use std::ops::Range;

/// One request, and the parts of its answer to keep: sorted, apart from each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fetch {
    pub(crate) span: Range<u64>,
    pub(crate) pieces: Vec<Range<u64>>,
}

/// The requests for what `ranges` hold before `end`, in the order of the object. Each range lies within one piece. What is at most `max_gap` apart is joined,
/// up to `max_joined` in all.
pub(crate) fn fetches(ranges: &[Range<u64>], end: u64, max_gap: u64, max_joined: u64) -> Vec<Fetch> {
    let mut wanted: Vec<Range<u64>> = ranges.iter().map(|range| range.start..range.end.min(end)).filter(|range| range.start < range.end).collect();
    wanted.sort_unstable_by_key(|range| (range.start, range.end));
    let mut fetches: Vec<Fetch> = Vec::new();
    for range in wanted {
        let Some(last) = fetches.last_mut() else {
            fetches.push(Fetch { span: range.clone(), pieces: vec![range] });
            continue;
        };
        match last.pieces.last_mut() {
            Some(piece) if range.start < piece.end => {
                piece.end = piece.end.max(range.end);
                last.span.end = piece.end;
            }
            _ if range.start - last.span.end <= max_gap && range.end - last.span.start <= max_joined => {
                last.span.end = range.end;
                last.pieces.push(range);
            }
            _ => fetches.push(Fetch { span: range.clone(), pieces: vec![range] }),
        }
    }
    fetches
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const MAX_GAP: u64 = 4 << 20;
    const MAX_JOINED: u64 = 64 << 20;

    fn fetch(pieces: &[Range<u64>]) -> Fetch {
        Fetch { span: pieces[0].start..pieces[pieces.len() - 1].end, pieces: pieces.to_vec() }
    }

    #[test]
    fn near_ranges_are_one_request_and_far_ones_are_two() {
        let (a, b, c) = (0..10, 10 + MAX_GAP..20 + MAX_GAP, 21 + 2 * MAX_GAP..22 + 2 * MAX_GAP);
        let found = fetches(&[c.clone(), a.clone(), b.clone()], u64::MAX, MAX_GAP, MAX_JOINED);
        assert_eq!(found, [fetch(&[a, b]), fetch(&[c])]);
    }

    #[test]
    fn ranges_that_overlap_share_a_piece_and_touching_ones_do_not() {
        assert_eq!(fetches(&[5..15, 0..10, 6..7, 0..10], 100, MAX_GAP, MAX_JOINED), [fetch(&[Range { start: 0, end: 15 }])]);
        assert_eq!(fetches(&[0..10, 10..20], 100, MAX_GAP, MAX_JOINED), [fetch(&[0..10, 10..20])]);
    }

    #[test]
    fn what_lies_in_the_tail_or_holds_nothing_costs_no_request() {
        assert_eq!(fetches(&[50..60, 40..40, Range { start: 30, end: 20 }], 50, MAX_GAP, MAX_JOINED), []);
        assert_eq!(fetches(&[45..60, 47..48], 50, MAX_GAP, MAX_JOINED), [fetch(&[Range { start: 45, end: 50 }])]);
    }

    #[test]
    fn joined_request_stays_below_its_bound() {
        let ranges: Vec<_> = (0..100).map(|number| number * 3 * MIB..number * 3 * MIB + MIB).collect();
        let found = fetches(&ranges, u64::MAX, MAX_GAP, MAX_JOINED);
        assert!(found.len() > 1 && found.iter().all(|fetch| fetch.span.end - fetch.span.start <= MAX_JOINED));
        assert_eq!(found.iter().flat_map(|fetch| fetch.pieces.clone()).collect::<Vec<_>>(), ranges);
        let large = 0..10 * MAX_JOINED;
        assert_eq!(fetches(std::slice::from_ref(&large), u64::MAX, MAX_GAP, MAX_JOINED), [fetch(&[large])]);
    }
}
