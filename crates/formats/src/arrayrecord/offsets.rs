//! Ascending offsets in a little more than four bytes each.
//!
//! An index of a million chunks is held as long as its file is open.
//! Offset `i` is `bases[i >> shift] + within[i]`; every block of offsets has a base.

/// Offsets per base, as a power of two. Chunks of less than 64 MiB on average fit.
const SHIFT: u32 = 6;

#[derive(Debug)]
pub(super) struct Offsets {
    bases: Vec<u64>,
    within: Vec<u32>,
    /// 0 once offsets of a block were more than 4 GiB apart: each has its own base.
    shift: u32,
    /// Not derived: the checks of an index read it twice for each chunk.
    last: Option<u64>,
}

impl Default for Offsets {
    fn default() -> Self {
        Self { bases: Vec::new(), within: Vec::new(), shift: SHIFT, last: None }
    }
}

impl Offsets {
    pub(super) fn reserve_exact(&mut self, more: usize) {
        self.within.reserve_exact(more);
        self.bases.reserve_exact((more >> self.shift) + 1);
    }

    /// Appends an offset that is not below the last one.
    #[inline]
    pub(super) fn push(&mut self, offset: u64) {
        if self.within.len().is_multiple_of(1 << self.shift) {
            self.bases.push(offset);
        }
        let base = self.bases.last().copied().unwrap_or_default();
        match u32::try_from(offset.wrapping_sub(base)) {
            Ok(within) => self.within.push(within),
            Err(_above) => self.push_wide(offset),
        }
        self.last = Some(offset);
    }

    #[cold]
    fn push_wide(&mut self, offset: u64) {
        self.bases = (0..self.len()).filter_map(|at| self.get(at)).chain([offset]).collect();
        self.within = vec![0; self.bases.len()];
        self.shift = 0;
    }

    #[inline]
    pub(super) fn get(&self, at: usize) -> Option<u64> {
        Some(self.bases.get(at >> self.shift)? + u64::from(*self.within.get(at)?))
    }

    pub(super) fn last(&self) -> Option<u64> {
        self.last
    }

    pub(super) fn len(&self) -> usize {
        self.within.len()
    }
}

#[cfg(test)]
mod tests {
    use super::Offsets;
    use proptest::collection::vec;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn offsets_of_any_distance_are_returned(
            steps in vec(prop_oneof![20 => 0..1_u64 << 20, 1 => 0..1_u64 << 40], 0..300),
            first in 0..u64::MAX >> 1,
        ) {
            let expected: Vec<u64> = steps
                .iter()
                .scan(first, |at, step| {
                    *at += step;
                    Some(*at)
                })
                .collect();
            let mut offsets = Offsets::default();
            for offset in &expected {
                offsets.push(*offset);
                prop_assert_eq!(offsets.last(), Some(*offset));
            }
            let found: Vec<u64> = (0..offsets.len()).filter_map(|at| offsets.get(at)).collect();
            prop_assert_eq!(found, expected);
            prop_assert_eq!(offsets.get(offsets.len()), None);
        }
    }
}
