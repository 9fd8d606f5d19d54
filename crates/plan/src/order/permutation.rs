//! A keyed bijection of [0, n) that can be evaluated at single positions, for n up to 2^63.
//!
//! A balanced Feistel network over the next even number of bits, walked along its cycle until it
//! lands inside [0, n) (Black and Rogaway, "Ciphers with Arbitrary Finite Domains", 2002). The
//! round function is the finaliser of SplitMix64 (Steele, Lea and Flood, "Fast splittable
//! pseudorandom number generators", 2014). The algorithm is frozen: its number is part of every
//! saved state, and its vectors are pinned by a test.

/// Version of this algorithm. Any change of its output needs a new version, and the old one stays.
pub const ORDER_VERSION: u32 = 1;

/// Enough rounds that neighbours, seeds and epochs leave no visible pattern; six is the minimum in
/// the literature.
const ROUNDS: usize = 8;

/// The use of a permutation. Each use has a separate order under one seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// The order of blocks.
    Blocks,
    /// The order of rows within window `number`.
    Window { number: u64 },
    /// The choice of rows that replace bad ones.
    Replacement,
    /// The sources of the positions in window `window` of a mixture.
    Pattern { window: u64 },
    /// The order of the packs of window `window` of a lane.
    Balance { window: u64 },
}

#[derive(Debug, Clone)]
pub struct Permutation {
    len: u64,
    half_bits: u32,
    keys: [u64; ROUNDS],
}

impl Permutation {
    #[must_use]
    pub fn new(len: u64, seed: i64, epoch: u64, purpose: Purpose) -> Self {
        let bits = u64::BITS - len.saturating_sub(1).leading_zeros();
        let half_bits = bits.div_ceil(2).max(1);
        let (tag, number) = match purpose {
            Purpose::Blocks => (1, 0),
            Purpose::Window { number } => (2, number),
            Purpose::Replacement => (3, 0),
            Purpose::Pattern { window } => (4, window),
            Purpose::Balance { window } => (5, window),
        };
        // The words are mixed one after another, so that (seed 1, epoch 0) and (seed 0, epoch 1)
        // are unrelated.
        let mut state = mixed(u64::from(ORDER_VERSION));
        for word in [seed.cast_unsigned(), epoch, tag, number] {
            state = mixed(state ^ mixed(word.wrapping_add(GOLDEN)));
        }
        let mut keys = [0; ROUNDS];
        for key in &mut keys {
            state = state.wrapping_add(GOLDEN);
            *key = mixed(state);
        }
        Self { len, half_bits, keys }
    }

    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The id at `position`, or `None` at and beyond the length.
    #[must_use]
    pub fn at(&self, position: u64) -> Option<u64> {
        if position >= self.len {
            return None;
        }
        // The domain is less than four times the length, so a few steps along
        // the cycle lead back inside.
        let mut id = self.encrypted(position);
        while id >= self.len {
            id = self.encrypted(id);
        }
        Some(id)
    }

    /// The ids at consecutive positions from `start` on. Computing many together is faster: the
    /// rounds of one depend on each other, those of several do not.
    pub fn fill(&self, start: u64, ids: &mut [u64]) {
        for (offset, chunk) in ids.chunks_mut(CHUNK).enumerate() {
            let first = start + (offset * CHUNK) as u64;
            let mut values = [0; CHUNK];
            for (place, value) in values.iter_mut().enumerate() {
                *value = first + place as u64;
            }
            self.encrypt(&mut values);
            for (id, value) in chunk.iter_mut().zip(values) {
                *id = value;
            }
            // Values outside continue along their cycles, together.
            let mut outside: Vec<usize> = (0..chunk.len())
                .filter(|place| chunk.get(*place).is_some_and(|id| *id >= self.len))
                .collect();
            while !outside.is_empty() {
                for (value, place) in values.iter_mut().zip(&outside) {
                    *value = chunk.get(*place).copied().unwrap_or_default();
                }
                self.encrypt(&mut values);
                for (value, place) in values.iter().zip(&outside) {
                    if let Some(id) = chunk.get_mut(*place) {
                        *id = *value;
                    }
                }
                outside.retain(|place| chunk.get(*place).is_some_and(|id| *id >= self.len));
            }
        }
    }

    fn encrypt(&self, values: &mut [u64; CHUNK]) {
        let mask = (1 << self.half_bits) - 1;
        let mut halves = values.map(|value| (value >> self.half_bits & mask, value & mask));
        for key in self.keys {
            for (left, right) in &mut halves {
                (*left, *right) = (*right, *left ^ (mixed(*right ^ key) & mask));
            }
        }
        *values = halves.map(|(left, right)| left << self.half_bits | right);
    }

    fn encrypted(&self, value: u64) -> u64 {
        let mask = (1 << self.half_bits) - 1;
        let (mut left, mut right) = (value >> self.half_bits & mask, value & mask);
        for key in self.keys {
            (left, right) = (right, left ^ (mixed(right ^ key) & mask));
        }
        left << self.half_bits | right
    }
}

/// Enough independent values to keep a multiplier busy, few enough for registers
/// and the first cache.
const CHUNK: usize = 64;

/// The seed of one source of a mixture: sources of the same size have different orders.
pub(super) fn source_seed(seed: i64, source: u64) -> i64 {
    mixed(
        mixed(seed.cast_unsigned().wrapping_add(GOLDEN))
            ^ source.wrapping_add(1).wrapping_mul(GOLDEN),
    )
    .cast_signed()
}

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

fn mixed(value: u64) -> u64 {
    let value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(len: u64, seed: i64, epoch: u64) -> Vec<u64> {
        let permutation = Permutation::new(len, seed, epoch, Purpose::Blocks);
        (0..len).filter_map(|position| permutation.at(position)).collect()
    }

    #[test]
    fn every_id_appears_once_for_any_length() {
        for len in [0, 1, 2, 3, 5, 64, 1000, (1 << 16) + 1] {
            let mut ids = order(len, 7, 3);
            ids.sort_unstable();
            assert_eq!(ids, (0..len).collect::<Vec<_>>());
        }
    }

    #[test]
    fn many_at_once_are_those_one_by_one() {
        for len in [1, 2, 3, 100, 1000, (1 << 16) + 1] {
            let permutation = Permutation::new(len, 9, 2, Purpose::Window { number: 5 });
            for start in [0, len / 3] {
                let mut ids = vec![0; usize::try_from((len - start).min(500)).unwrap()];
                permutation.fill(start, &mut ids);
                assert!(
                    ids.iter()
                        .enumerate()
                        .all(|(place, id)| permutation.at(start + place as u64) == Some(*id))
                );
            }
        }
    }

    #[test]
    fn seeds_epochs_and_purposes_give_unrelated_orders() {
        let base = order(1000, 0, 0);
        for other in
            [order(1000, 1, 0), order(1000, 0, 1), order(1000, -1, 0), order(1000, i64::MIN, 0)]
        {
            let agreements = base.iter().zip(&other).filter(|(a, b)| a == b).count();
            assert!(agreements < 10, "{agreements} of 1000 ids stand at the same place");
        }
        assert_ne!(order(1000, 42, 1), order(1000, 43, 0));
        let window = Permutation::new(1000, 0, 0, Purpose::Window { number: 0 });
        assert_ne!(base, (0..1000).filter_map(|position| window.at(position)).collect::<Vec<_>>());
    }

    #[test]
    fn neighbours_are_torn_apart() {
        let ids = order(10_000, 5, 0);
        let distance: u64 =
            ids.windows(2).map(|pair| pair[0].abs_diff(pair[1])).sum::<u64>() / 9_999;
        assert!(
            (3_000..3_700).contains(&distance),
            "mean distance of neighbours is {distance}, a third of the length is expected"
        );
    }

    #[test]
    fn huge_lengths_are_evaluated_at_single_places() {
        let permutation = Permutation::new(1 << 63, 0, 0, Purpose::Replacement);
        assert!(permutation.at((1 << 63) - 1).is_some_and(|id| id < 1 << 63));
        assert_eq!(permutation.at(1 << 63), None);
    }

    /// These numbers must never change: a run saved under version 1 continues in this order. They
    /// were computed by a second implementation, in Python.
    #[test]
    fn vectors_of_version_1_are_pinned() {
        assert_eq!(ORDER_VERSION, 1);
        assert_eq!(order(10, 0, 0), VECTOR_10_0_0);
        assert_eq!(order(10, -3, 2), VECTOR_10_MINUS3_2);
        let large = Permutation::new(1 << 40, 42, 1, Purpose::Window { number: 9 });
        assert_eq!(
            [0, 1, (1 << 40) - 1].map(|position| large.at(position)),
            VECTOR_LARGE.map(Some)
        );
    }

    const VECTOR_10_0_0: [u64; 10] = [5, 6, 1, 7, 8, 0, 2, 3, 4, 9];
    const VECTOR_10_MINUS3_2: [u64; 10] = [8, 6, 5, 7, 3, 0, 4, 9, 2, 1];
    const VECTOR_LARGE: [u64; 3] = [305_179_485_599, 669_098_480_298, 310_360_059_913];
}
