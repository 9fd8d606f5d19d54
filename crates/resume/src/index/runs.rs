//! Consecutive numbers as intervals: 80 million of them in order are one interval.

use super::dense::Entry;
use super::mix::LOW_BITS;
use std::collections::BTreeMap;

/// Separate, non-adjacent intervals.
#[derive(Debug, Default)]
pub(super) struct Intervals(BTreeMap<u64, u64>);

impl Intervals {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The interval is inclusive.
    pub(super) fn insert(&mut self, mut first: u64, mut last: u64) {
        if let Some((before, end)) =
            self.0.range(..=first).next_back().map(|(before, end)| (*before, *end))
            && end.saturating_add(1) >= first
        {
            first = before;
            last = last.max(end);
        }
        while let Some((start, end)) =
            self.0.range(first..=last.saturating_add(1)).next().map(|(start, end)| (*start, *end))
        {
            self.0.remove(&start);
            last = last.max(end);
        }
        self.0.insert(first, last);
    }

    /// By chunk: full chunks, and the intervals in the others.
    pub(super) fn into_chunks(self) -> Chunks {
        let mut chunks = Chunks::default();
        for (first, last) in self.0 {
            let (from, to) = (first >> LOW_BITS, last >> LOW_BITS);
            let (low, high) = (lower(first), lower(last));
            if from == to && (low, high) != (0, u16::MAX) {
                chunks.partial.entry(from).or_default().push((low, high));
                continue;
            }
            let full_from = if low == 0 { from } else { from + 1 };
            let full_to = if high == u16::MAX { to + 1 } else { to };
            if low != 0 {
                chunks.partial.entry(from).or_default().push((low, u16::MAX));
            }
            if high != u16::MAX {
                chunks.partial.entry(to).or_default().push((0, high));
            }
            if full_from < full_to {
                chunks.full.insert(full_from, full_to - full_from);
            }
        }
        chunks
    }
}

pub(super) fn lower(key: u64) -> u16 {
    u16::try_from(key & 0xffff).unwrap_or_default()
}

/// The content of runs in each chunk.
#[derive(Debug, Default)]
pub(super) struct Chunks {
    /// First chunk, and the number of chunks.
    full: BTreeMap<u64, u64>,
    /// Ascending intervals of the lower bits.
    pub partial: BTreeMap<u64, Vec<(u16, u16)>>,
}

impl Chunks {
    pub(super) fn is_full(&self, chunk: u64) -> bool {
        self.full.range(..=chunk).next_back().is_some_and(|(first, count)| chunk - first < *count)
    }

    pub(super) fn full(&self) -> impl Iterator<Item = Entry> {
        self.full.iter().map(|(first, count)| Entry::full(*first, *count))
    }
}

/// The union of two ascending lists of intervals.
pub(super) fn union(first: &[(u16, u16)], second: &[(u16, u16)]) -> Vec<(u16, u16)> {
    let mut all: Vec<(u16, u16)> = first.iter().chain(second).copied().collect();
    all.sort_unstable();
    let mut union: Vec<(u16, u16)> = Vec::with_capacity(all.len());
    for (from, to) in all {
        match union.last_mut() {
            Some((_, last)) if from <= last.saturating_add(1) => *last = to.max(*last),
            _ => union.push((from, to)),
        }
    }
    union
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn intervals_hold_what_was_inserted(
            runs in prop::collection::vec((0u64..400, 0u64..60), 0..20),
        ) {
            let mut intervals = Intervals::default();
            let mut expected = BTreeSet::new();
            for (first, len) in runs {
                intervals.insert(first, first + len);
                expected.extend(first..=first + len);
            }
            let held: Vec<u64> =
                intervals.0.iter().flat_map(|(first, last)| *first..=*last).collect();
            prop_assert_eq!(held, expected.into_iter().collect::<Vec<_>>());
            let ends: Vec<(u64, u64)> = intervals.0.into_iter().collect();
            prop_assert!(ends.windows(2).all(|pair| pair[0].1 + 1 < pair[1].0));
        }
    }

    #[test]
    fn intervals_at_the_ends_of_all_numbers_become_chunks() {
        let mut intervals = Intervals::default();
        intervals.insert(0, 65_535);
        intervals.insert(u64::MAX - 65_536, u64::MAX);
        let chunks = intervals.into_chunks();
        assert!(chunks.is_full(0) && !chunks.is_full(1) && chunks.is_full(u64::MAX >> 16));
        assert_eq!(
            chunks.partial.into_iter().collect::<Vec<_>>(),
            [((u64::MAX >> 16) - 1, vec![(65_535, 65_535)])]
        );
    }
}
