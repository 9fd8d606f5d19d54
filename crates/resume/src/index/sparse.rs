//! Unrelated keys: buckets by their upper bits, which store the remaining bits of each key.
//!
//! ```text
//! part:
//!     | first entry of each bucket: u32 × (2^bits + 1)
//!     | entries: `entry_bytes` each, ascending within a bucket
//!     | 16 bytes of nothing |
//! ```
//!
//! The upper bits of a mixed key select its part, the next ones its bucket; the remaining bits are
//! its entry, in the fewest whole bytes ("quotienting", Knuth 6.4). Keys are probed in batches with
//! independent loads, so that memory latencies overlap.

use super::mix::wide_ones;
use serde::{Deserialize, Serialize};

/// Number of keys that are probed together.
const BATCH: usize = 128;
/// An entry is read as one number, so bytes must follow the last one.
const PADDING: usize = 16;
const MAX_BUCKET_BITS: u32 = 30;
/// Longer buckets are bisected. They only occur in a hostile or a tiny part.
const SCANNED: usize = 32;

/// One class of keys.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct SparseSet {
    /// Bits of a key inside of its part.
    pub rest_bits: u32,
    pub part_bits: u32,
    pub parts: Vec<Part>,
}

/// Position of a part; all zero if it is empty.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct Part {
    #[serde(rename = "o")]
    pub offset: u64,
    #[serde(rename = "n")]
    pub count: u32,
    #[serde(rename = "b")]
    pub bucket_bits: u32,
}

/// The structure of a set does not match its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Damaged;

fn entry_bytes(rest_bits: u32, bucket_bits: u32) -> usize {
    (rest_bits - bucket_bits).div_ceil(8) as usize
}

/// The number of buckets with the smallest total size and two to eight entries each on average:
/// more would touch additional cache lines.
fn bucket_bits(rest_bits: u32, count: usize) -> u32 {
    let fits = |bits: &u32| *bits == 0 || (count >> bits) >= 2;
    let cost = |bits: &u32| count * entry_bytes(rest_bits, *bits) + (4 << bits);
    let from =
        count.div_ceil(8).next_power_of_two().trailing_zeros().min(MAX_BUCKET_BITS).min(rest_bits);
    (from..=MAX_BUCKET_BITS.min(rest_bits)).take_while(fits).min_by_key(cost).unwrap_or(from)
}

/// Encodes a part of `count` ascending, distinct keys; returns it with the number
/// of bits of its buckets.
pub(super) fn encode_part(
    rest_bits: u32,
    keys: impl ExactSizeIterator<Item = u128> + Clone,
) -> (Vec<u8>, u32) {
    let bits = bucket_bits(rest_bits, keys.len());
    let (left, len) = (rest_bits - bits, entry_bytes(rest_bits, bits));
    let mut bytes = Vec::with_capacity((4 << bits) + 4 + keys.len() * len + PADDING);
    let mut bucket = 0u128;
    bytes.extend_from_slice(&0u32.to_le_bytes());
    for (number, key) in (0u32..).zip(keys.clone()) {
        let own = key.checked_shr(left).unwrap_or_default();
        while bucket < own {
            bytes.extend_from_slice(&number.to_le_bytes());
            bucket += 1;
        }
    }
    let count = u32::try_from(keys.len()).unwrap_or(u32::MAX);
    while bucket < 1 << bits {
        bytes.extend_from_slice(&count.to_le_bytes());
        bucket += 1;
    }
    for key in keys {
        let entry = (key & wide_ones(left)).to_le_bytes();
        bytes.extend_from_slice(entry.get(..len).unwrap_or_default());
    }
    bytes.extend_from_slice(&[0; PADDING]);
    (bytes, bits)
}

impl SparseSet {
    pub(super) fn len(&self) -> u64 {
        self.parts.iter().map(|part| u64::from(part.count)).sum()
    }

    /// Checks that every position that a probe may read is within `file_len` bytes.
    pub(super) fn check(&self, key_bits: u32, file_len: u64) -> Result<(), Damaged> {
        let is_shaped = self.part_bits <= 16
            && key_bits - self.part_bits == self.rest_bits
            && self.parts.len() == 1 << self.part_bits;
        let fits = |part: &Part| {
            if part.count == 0 {
                return true;
            }
            if part.bucket_bits > MAX_BUCKET_BITS.min(self.rest_bits) {
                return false;
            }
            let entries =
                u64::from(part.count) * entry_bytes(self.rest_bits, part.bucket_bits) as u64;
            let len = (4u64 << part.bucket_bits) + 4 + entries + PADDING as u64;
            part.offset.checked_add(len).is_some_and(|end| end <= file_len)
        };
        if is_shaped && self.parts.iter().all(fits) { Ok(()) } else { Err(Damaged) }
    }

    /// Calls `hit` with the numbers of those keys that are in the set. A key consists of its part,
    /// and the rest.
    pub(super) fn probe(
        &self,
        file: &[u8],
        keys: impl Iterator<Item = (u64, u128)>,
        mut hit: impl FnMut(usize),
    ) -> Result<(), Damaged> {
        let mut batch = Batch::default();
        let mut first = 0;
        let mut keys = keys;
        loop {
            batch.len = 0;
            for ((part, rest), probe) in keys.by_ref().take(BATCH).zip(&mut batch.probes) {
                *probe = self.locate(part, rest).ok_or(Damaged)?;
                batch.len += 1;
            }
            if batch.len == 0 {
                return Ok(());
            }
            batch.run(file, first, &mut hit)?;
            first += batch.len;
        }
    }

    fn locate(&self, part: u64, rest: u128) -> Option<Probe> {
        let part = self.parts.get(usize::try_from(part).ok()?)?;
        if part.count == 0 {
            return Some(Probe::default());
        }
        let left = self.rest_bits - part.bucket_bits;
        let bucket = usize::try_from(rest.checked_shr(left).unwrap_or_default()).ok()?;
        let offset = usize::try_from(part.offset).ok()?;
        let directory = offset + 4 * bucket;
        let entries = offset + (4 << part.bucket_bits) + 4;
        let len = entry_bytes(self.rest_bits, part.bucket_bits);
        Some(Probe {
            directory,
            entries,
            len,
            count: part.count as usize,
            wanted: rest & wide_ones(left),
        })
    }
}

/// A key that is being probed; a count of zero means that it is missing.
#[derive(Debug, Clone, Copy, Default)]
struct Probe {
    /// Offset of the bucket's pair of numbers.
    directory: usize,
    /// Offset of the first entry, initially of the part and then of the bucket.
    entries: usize,
    len: usize,
    count: usize,
    wanted: u128,
}

struct Batch {
    probes: [Probe; BATCH],
    len: usize,
}

impl Default for Batch {
    fn default() -> Self {
        Self { probes: [Probe::default(); BATCH], len: 0 }
    }
}

impl Batch {
    fn run(
        &mut self,
        file: &[u8],
        first: usize,
        hit: &mut impl FnMut(usize),
    ) -> Result<(), Damaged> {
        let probes = self.probes.get_mut(..self.len).unwrap_or_default();
        for probe in probes.iter_mut().filter(|probe| probe.count > 0) {
            let pair =
                file.get(probe.directory..).and_then(|rest| rest.first_chunk()).ok_or(Damaged)?;
            let pair = u64::from_le_bytes(*pair);
            let (start, end) = (
                usize::try_from(pair & 0xffff_ffff).map_err(|_wide| Damaged)?,
                usize::try_from(pair >> 32).map_err(|_wide| Damaged)?,
            );
            if start > end || end > probe.count {
                return Err(Damaged);
            }
            probe.entries += start * probe.len;
            probe.count = end - start;
        }
        // All entries are touched before any is compared, so that their loads overlap.
        let touched = probes.iter().fold(0u8, |all, probe| {
            let last = probe.entries + (probe.count * probe.len).saturating_sub(1);
            all ^ file.get(probe.entries).copied().unwrap_or_default()
                ^ file.get(last).copied().unwrap_or_default()
        });
        std::hint::black_box(touched);
        for (number, probe) in probes.iter().enumerate() {
            if probe.count > 0 && probe.is_found(file)? {
                hit(first + number);
            }
        }
        Ok(())
    }
}

impl Probe {
    fn is_found(&self, file: &[u8]) -> Result<bool, Damaged> {
        let mask = wide_ones(8 * u32::try_from(self.len).unwrap_or_default());
        let entry = |place: usize| -> Result<u128, Damaged> {
            let bytes = file
                .get(self.entries + place * self.len..)
                .and_then(|rest| rest.first_chunk::<16>())
                .ok_or(Damaged)?;
            Ok(u128::from_le_bytes(*bytes) & mask)
        };
        let (mut from, mut to) = (0, self.count);
        while to - from > SCANNED {
            let middle = from.midpoint(to);
            if entry(middle)? <= self.wanted { from = middle } else { to = middle }
        }
        for place in from..to {
            if entry(place)? == self.wanted {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn probes_find_what_was_encoded_and_nothing_else(
            keys in prop::collection::btree_set(0u128..1 << 20, 0..600),
            probed in prop::collection::vec(0u128..1 << 20, 0..300),
            spread in 0u32..100,
        ) {
            let rest_bits = 20 + spread;
            let keys: BTreeSet<u128> = keys.iter().map(|key| key << (spread / 2)).collect();
            let sorted: Vec<u128> = keys.iter().copied().collect();
            let (bytes, bits) = encode_part(rest_bits, sorted.iter().copied());
            let part =
                Part { offset: 3, count: u32::try_from(keys.len()).unwrap(), bucket_bits: bits };
            let set = SparseSet { rest_bits, part_bits: 0, parts: vec![part] };
            let file: Vec<u8> = [0; 3].into_iter().chain(bytes).collect();
            prop_assert_eq!(set.check(rest_bits, file.len() as u64), Ok(()));
            let probed: Vec<u128> = probed
                .iter()
                .map(|key| key << (spread / 2))
                .chain(sorted.iter().copied())
                .collect();
            let mut found = vec![false; probed.len()];
            prop_assert_eq!(
                set.probe(&file, probed.iter().map(|key| (0, *key)), |number| found[number] = true),
                Ok(())
            );
            let expected: Vec<bool> = probed.iter().map(|key| keys.contains(key)).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
