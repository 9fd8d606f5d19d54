//! 64-bit numbers that are close together: containers of 2^16 numbers each, as in "Better bitmap
//! performance with Roaring bitmaps" (Chambi, Lemire, Kaser, Godin, 2016) with the runs of
//! "Consistently faster and smaller compressed bitmaps with Roaring" (2016). Read in place.
//!
//! ```text
//! directory entry, ascending by chunk:
//!     | chunk: u48, numbers − 1: u16 | kind: 2 bits, items: 14 bits, offset: 48 bits |
//! container:
//!     bitmap: u64 × 1024
//!     array: u16 × items
//!     runs: (first, last): u16 × 2 × items
//!     full: offset is a count of chunks
//! ```
//!
//! Unlike in Roaring, consecutive full chunks are one entry: 80 million consecutive
//! numbers are two.

use super::mix::{LOW_BITS, low};
use super::sparse::Damaged;
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;

const ENTRY_LEN: usize = 16;
const BITMAP_LEN: usize = 8192;
const OFFSET_BITS: u32 = 48;
const LAST_CHUNK: u64 = u64::MAX >> LOW_BITS;

/// Position of the directory.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct DenseSet {
    pub offset: u64,
    pub entries: u64,
    pub count: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Bitmap,
    Array,
    Runs,
    Full,
}

/// A container that is being built.
#[derive(Debug)]
pub(super) struct Container {
    pub chunk: u64,
    pub numbers: u32,
    pub kind: Kind,
    pub items: u32,
    pub bytes: Vec<u8>,
}

/// One entry of a directory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub chunk: u64,
    numbers: u32,
    kind: Kind,
    items: u32,
    /// Offset of the container; for full chunks, their number.
    offset: u64,
}

impl Container {
    /// From inclusive, ascending, separate intervals of the lower 16 bits.
    pub(super) fn new(chunk: u64, intervals: &[(u16, u16)]) -> Self {
        let numbers: u32 = intervals.iter().map(|(first, last)| u32::from(last - first) + 1).sum();
        let runs_len = 4 * intervals.len();
        let array_len = 2 * numbers as usize;
        let (kind, items, bytes) = if runs_len <= array_len.min(BITMAP_LEN) {
            let bytes = intervals
                .iter()
                .flat_map(|(first, last)| [first.to_le_bytes(), last.to_le_bytes()])
                .flatten()
                .collect();
            (Kind::Runs, intervals.len(), bytes)
        } else if array_len < BITMAP_LEN {
            let bytes: Vec<u8> = intervals
                .iter()
                .flat_map(|(first, last)| *first..=*last)
                .flat_map(u16::to_le_bytes)
                .collect();
            (Kind::Array, numbers as usize, bytes)
        } else {
            let mut bytes = vec![0u8; BITMAP_LEN];
            for low in intervals.iter().flat_map(|(first, last)| *first..=*last) {
                if let Some(byte) = bytes.get_mut(usize::from(low >> 3)) {
                    *byte |= 1 << (low & 7);
                }
            }
            (Kind::Bitmap, 0, bytes)
        };
        Self { chunk, numbers, kind, items: u32::try_from(items).unwrap_or_default(), bytes }
    }

    pub(super) fn entry(&self, offset: u64) -> Entry {
        Entry {
            chunk: self.chunk,
            numbers: self.numbers,
            kind: self.kind,
            items: self.items,
            offset,
        }
    }
}

impl Entry {
    /// Consecutive chunks that contain all of their numbers.
    pub(super) fn full(first: u64, chunks: u64) -> Self {
        Self { chunk: first, numbers: 1 << LOW_BITS, kind: Kind::Full, items: 0, offset: chunks }
    }

    pub(super) fn to_bytes(self) -> [u8; ENTRY_LEN] {
        let first = self.chunk << LOW_BITS | u64::from(self.numbers.saturating_sub(1) & 0xffff);
        let second = (self.kind as u64) << 62
            | u64::from(self.items & 0x3fff) << OFFSET_BITS
            | self.offset & ((1 << OFFSET_BITS) - 1);
        (u128::from(second) << 64 | u128::from(first)).to_le_bytes()
    }

    fn from_bytes(bytes: [u8; ENTRY_LEN]) -> Self {
        let both = u128::from_le_bytes(bytes);
        let (first, second) = (low(both), low(both >> 64));
        let kind = match second >> 62 {
            0 => Kind::Bitmap,
            1 => Kind::Array,
            2 => Kind::Runs,
            _ => Kind::Full,
        };
        let items = u32::try_from(second >> OFFSET_BITS & 0x3fff).unwrap_or_default();
        let numbers = u32::try_from(first & 0xffff).unwrap_or_default() + 1;
        Self {
            chunk: first >> LOW_BITS,
            numbers,
            kind,
            items,
            offset: second & ((1 << OFFSET_BITS) - 1),
        }
    }

    pub(super) fn count(&self) -> u64 {
        if self.kind == Kind::Full {
            self.offset.saturating_mul(1 << LOW_BITS)
        } else {
            u64::from(self.numbers)
        }
    }

    /// The last chunk that it covers.
    fn last(&self) -> Option<u64> {
        if self.kind == Kind::Full {
            self.chunk.checked_add(self.offset.checked_sub(1)?)
        } else {
            Some(self.chunk)
        }
    }

    fn len(&self) -> u64 {
        match self.kind {
            Kind::Bitmap => BITMAP_LEN as u64,
            Kind::Array => 2 * u64::from(self.items),
            Kind::Runs => 4 * u64::from(self.items),
            Kind::Full => 0,
        }
    }

    fn slice<'a>(&self, file: &'a [u8]) -> Option<&'a [u8]> {
        let start = usize::try_from(self.offset).ok()?;
        if self.kind == Kind::Full {
            Some(&[])
        } else {
            file.get(start..start.checked_add(usize::try_from(self.len()).ok()?)?)
        }
    }
}

impl DenseSet {
    fn entry(&self, file: &[u8], place: u64) -> Option<Entry> {
        let start =
            usize::try_from(self.offset.checked_add(place.checked_mul(ENTRY_LEN as u64)?)?).ok()?;
        Some(Entry::from_bytes(*file.get(start..)?.first_chunk()?))
    }

    /// Checks that the directory is ascending, and all containers are inside of the file.
    pub(super) fn check(&self, file: &[u8]) -> Result<(), Damaged> {
        let mut next = Some(0);
        let mut count = 0u64;
        for place in 0..self.entries {
            let entry = self.entry(file, place).ok_or(Damaged)?;
            let last = entry.last().filter(|last| *last <= LAST_CHUNK).ok_or(Damaged)?;
            if next.is_none_or(|next| entry.chunk < next) || entry.slice(file).is_none() {
                return Err(Damaged);
            }
            next = last.checked_add(1);
            count = count.saturating_add(entry.count());
        }
        if count == self.count { Ok(()) } else { Err(Damaged) }
    }

    /// The number of entries that begin at or before a chunk.
    fn rank(&self, file: &[u8], chunk: u64) -> Result<u64, Damaged> {
        let (mut from, mut to) = (0, self.entries);
        while from < to {
            let middle = from.midpoint(to);
            if self.entry(file, middle).ok_or(Damaged)?.chunk <= chunk {
                from = middle + 1;
            } else {
                to = middle;
            }
        }
        Ok(from)
    }

    /// Calls `hit` with the numbers of those keys that are in the set.
    pub(super) fn probe(
        &self,
        file: &[u8],
        keys: &[u64],
        mut hit: impl FnMut(usize),
    ) -> Result<(), Damaged> {
        let Some(first) = keys.first() else { return Ok(()) };
        let mut current = self.find(file, first >> LOW_BITS)?;
        for (number, key) in keys.iter().enumerate() {
            let chunk = key >> LOW_BITS;
            if !current.chunks.contains(&chunk) {
                current = self.find(file, chunk)?;
            }
            if current.contains(u16::try_from(key & 0xffff).unwrap_or_default()) {
                hit(number);
            }
        }
        Ok(())
    }

    /// The container of a chunk, or the gap that contains it.
    fn find<'a>(&self, file: &'a [u8], chunk: u64) -> Result<Found<'a>, Damaged> {
        let rank = self.rank(file, chunk)?;
        let before =
            rank.checked_sub(1).map(|place| self.entry(file, place).ok_or(Damaged)).transpose()?;
        let mut from = 0;
        if let Some(entry) = before {
            let last = entry.last().ok_or(Damaged)?;
            if chunk <= last {
                return Ok(Found {
                    chunks: entry.chunk..=last,
                    kind: entry.kind,
                    bytes: entry.slice(file).ok_or(Damaged)?,
                });
            }
            from = last.saturating_add(1);
        }
        let to = if rank < self.entries {
            self.entry(file, rank).ok_or(Damaged)?.chunk.saturating_sub(1)
        } else {
            u64::MAX
        };
        Ok(Found::nothing(from..=to))
    }

    /// Whether a key of the set may be in a range. Exact except for the containers at its ends,
    /// which count as a whole if they overlap it.
    pub(super) fn may_contain(&self, file: &[u8], keys: RangeInclusive<u64>) -> bool {
        let (from, to) = (*keys.start() >> LOW_BITS, *keys.end() >> LOW_BITS);
        if keys.is_empty() {
            return false;
        }
        if from == to {
            let Ok(found) = self.find(file, from) else { return true };
            let low = |key: u64| u16::try_from(key & 0xffff).unwrap_or_default();
            return found.may_contain(low(*keys.start())..=low(*keys.end()));
        }
        let Ok(rank) = self.rank(file, to) else { return true };
        let Some(entry) = rank.checked_sub(1).map(|place| self.entry(file, place)) else {
            return false;
        };
        let Some(last) = entry.and_then(|entry| entry.last()) else { return true };
        if last > from {
            return true;
        }
        // The rest of the first chunk.
        last == from && self.may_contain(file, *keys.start()..=*keys.start() | 0xffff)
    }
}

/// The content of some chunks.
struct Found<'a> {
    chunks: RangeInclusive<u64>,
    kind: Kind,
    bytes: &'a [u8],
}

impl Found<'_> {
    /// An empty array.
    fn nothing(chunks: RangeInclusive<u64>) -> Self {
        Self { chunks, kind: Kind::Array, bytes: &[] }
    }

    fn item(&self, place: usize) -> u16 {
        self.bytes
            .get(2 * place..)
            .and_then(|rest| rest.first_chunk())
            .map_or(0, |item| u16::from_le_bytes(*item))
    }

    /// The number of items, each of `width` numbers, that begin at or before `low`.
    fn rank(&self, low: u16, width: usize) -> usize {
        let (mut from, mut to) = (0, self.bytes.len() / (2 * width));
        while from < to {
            let middle = from.midpoint(to);
            if self.item(width * middle) <= low { from = middle + 1 } else { to = middle }
        }
        from
    }

    fn contains(&self, low: u16) -> bool {
        match self.kind {
            Kind::Full => true,
            Kind::Bitmap => {
                self.bytes.get(usize::from(low >> 3)).is_some_and(|byte| byte >> (low & 7) & 1 == 1)
            }
            Kind::Array => {
                self.rank(low, 1).checked_sub(1).is_some_and(|place| self.item(place) == low)
            }
            Kind::Runs => self
                .rank(low, 2)
                .checked_sub(1)
                .is_some_and(|place| self.item(2 * place + 1) >= low),
        }
    }

    fn may_contain(&self, lows: RangeInclusive<u16>) -> bool {
        match self.kind {
            Kind::Full => true,
            Kind::Bitmap => lows.into_iter().any(|low| self.contains(low)),
            Kind::Array => self
                .rank(*lows.end(), 1)
                .checked_sub(1)
                .is_some_and(|place| self.item(place) >= *lows.start()),
            Kind::Runs => self
                .rank(*lows.end(), 2)
                .checked_sub(1)
                .is_some_and(|place| self.item(2 * place + 1) >= *lows.start()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn intervals(lows: &BTreeSet<u16>) -> Vec<(u16, u16)> {
        let mut intervals: Vec<(u16, u16)> = Vec::new();
        for low in lows {
            match intervals.last_mut() {
                Some((_, last)) if *last + 1 == *low => *last = *low,
                _ => intervals.push((*low, *low)),
            }
        }
        intervals
    }

    fn file_of(keys: &BTreeSet<u64>) -> (Vec<u8>, DenseSet) {
        let mut file = vec![7; 5];
        let mut entries = Vec::new();
        let chunks: BTreeSet<u64> = keys.iter().map(|key| key >> 16).collect();
        for chunk in chunks {
            let lows: BTreeSet<u16> = keys
                .range(chunk << 16..=chunk << 16 | 0xffff)
                .map(|key| u16::try_from(key & 0xffff).unwrap())
                .collect();
            let container = Container::new(chunk, &intervals(&lows));
            entries.push(container.entry(file.len() as u64));
            file.extend(container.bytes);
        }
        let set = DenseSet {
            offset: file.len() as u64,
            entries: entries.len() as u64,
            count: keys.len() as u64,
        };
        file.extend(entries.into_iter().flat_map(Entry::to_bytes));
        (file, set)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn probes_and_ranges_agree_with_a_set(
            starts in prop::collection::vec((0u64..1 << 19, 1u64..30_000, 1u64..9), 0..6),
            probed in prop::collection::vec(0u64..1 << 20, 0..200),
            ranges in prop::collection::vec((0u64..1 << 20, 0u64..100_000), 0..40),
        ) {
            let keys: BTreeSet<u64> = starts
                .iter()
                .flat_map(|(start, len, step)| {
                    (*start..start + len).step_by(usize::try_from(*step).unwrap())
                })
                .collect();
            let (file, set) = file_of(&keys);
            prop_assert_eq!(set.check(&file), Ok(()));
            let probed: Vec<u64> =
                probed.into_iter().chain(keys.iter().copied().take(5000)).collect();
            let mut found = vec![false; probed.len()];
            set.probe(&file, &probed, |number| found[number] = true).unwrap();
            prop_assert_eq!(found, probed.iter().map(|key| keys.contains(key)).collect::<Vec<_>>());
            for (from, len) in ranges {
                if keys.range(from..=from + len).next().is_some() {
                    prop_assert!(set.may_contain(&file, from..=from + len));
                } else if len < 1 << 16 {
                    prop_assert!(
                        from >> 16 != (from + len) >> 16
                            || !set.may_contain(&file, from..=from + len)
                    );
                }
            }
        }
    }

    #[test]
    fn full_chunks_in_a_row_are_one_entry_up_to_the_largest_number() {
        let entries = [Entry::full(0, 1220), Entry::full(LAST_CHUNK - 1, 2)];
        let file: Vec<u8> = entries.into_iter().flat_map(Entry::to_bytes).collect();
        let set = DenseSet { offset: 0, entries: 2, count: 1222 << 16 };
        assert_eq!(set.check(&file), Ok(()));
        let mut found = Vec::new();
        set.probe(
            &file,
            &[0, 79_953_919, 79_953_920, u64::MAX, u64::MAX - (2 << 16), u64::MAX - (2 << 16) + 1],
            |number| found.push(number),
        )
        .unwrap();
        assert_eq!(found, [0, 1, 3, 5]);
        assert!(!set.may_contain(&file, 79_953_920..=u64::MAX - (2 << 16)));
        assert!(set.may_contain(&file, 79_953_919..=79_953_920));
    }
}
