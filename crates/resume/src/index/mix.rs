//! Keyed bijections that distribute any input evenly over the buckets of a set without losing keys.
//!
//! Multiplication by a random odd number is a bijection whose upper bits are universal: an author
//! of ids cannot predict which of them share a bucket.

/// Bits of a key that a dense container covers.
pub(super) const LOW_BITS: u32 = 16;
const CHUNK_BITS: u32 = 64 - LOW_BITS;

#[derive(Debug, Clone, Copy)]
pub(super) struct Mix {
    first: u128,
    second: u128,
}

impl Mix {
    pub(super) fn new(secret: [u64; 4]) -> Self {
        let [a, b, c, d] = secret;
        Self {
            first: u128::from(a) << 64 | u128::from(b) | 1,
            second: u128::from(c) << 64 | u128::from(d) | 1,
        }
    }

    /// All 128 bits.
    pub(super) fn wide(self, key: u128) -> u128 {
        let key = key.wrapping_mul(self.first);
        (key ^ key >> 64).wrapping_mul(self.second)
    }

    /// The part of a chunk (the upper 48 bits of a key), at most 2^16 parts;
    /// keys of a chunk stay together.
    pub(super) fn narrow_part(self, key: u64, part_bits: u32) -> u64 {
        upper(self.chunk(key), CHUNK_BITS, part_bits)
    }

    /// The rest of a key inside of its part: `64 - part_bits` bits.
    pub(super) fn narrow_rest(self, key: u64, part_bits: u32) -> u64 {
        let bits = 64 - part_bits;
        let rest = (self.chunk(key) << LOW_BITS | key & 0xffff) & ones(bits);
        let mixed = rest.wrapping_mul(low(self.second)) & ones(bits);
        (mixed ^ mixed >> (bits / 2)).wrapping_mul(low(self.second >> 64) | 1) & ones(bits)
    }

    fn chunk(self, key: u64) -> u64 {
        let chunk = (key >> LOW_BITS).wrapping_mul(low(self.first)) & ones(CHUNK_BITS);
        (chunk ^ chunk >> (CHUNK_BITS / 2)).wrapping_mul(low(self.first >> 64) | 1)
            & ones(CHUNK_BITS)
    }
}

/// The upper `count` of `bits` bits.
pub(super) fn upper(value: u64, bits: u32, count: u32) -> u64 {
    value.checked_shr(bits - count).unwrap_or_default()
}

pub(super) fn ones(bits: u32) -> u64 {
    u64::MAX.checked_shr(64 - bits.min(64)).unwrap_or_default()
}

pub(super) fn wide_ones(bits: u32) -> u128 {
    u128::MAX.checked_shr(128 - bits.min(128)).unwrap_or_default()
}

#[expect(clippy::cast_possible_truncation, reason = "the lower half is meant")]
pub(super) fn low(value: u128) -> u64 {
    value as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn mixing_loses_nothing_and_fills_buckets_evenly() {
        let mix = Mix::new([
            0x9e37_79b9_7f4a_7c15,
            0xbf58_476d_1ce4_e5b9,
            0x94d0_49bb_1331_11eb,
            0x2545_f491_4f6c_dd1d,
        ]);
        for part_bits in [0, 8, 13] {
            let keys = (0..50_000u64).map(|key| key << 20).chain(0..50_000);
            let mixed: HashSet<(u64, u64)> = keys
                .map(|key| (mix.narrow_part(key, part_bits), mix.narrow_rest(key, part_bits)))
                .collect();
            assert_eq!(mixed.len(), 99_999);
            assert!(
                mixed
                    .iter()
                    .all(|(part, rest)| *part < 1 << part_bits && *rest <= ones(64 - part_bits))
            );
        }
        let mixed: HashSet<u128> = (0..50_000u128).map(|key| mix.wide(key << 77)).collect();
        assert_eq!(mixed.len(), 50_000);
        let mut buckets = [0; 64];
        mixed.iter().for_each(|key| buckets[usize::try_from(key >> 122).unwrap()] += 1);
        assert!(buckets.iter().all(|count| (400..1200).contains(count)), "{buckets:?}");
    }
}
