//! Weights in the order in which a kernel reads them: halves of 16 bits, in groups of taps that one load covers.
//!
//! [`Coefficients`] enter, packed words leave. Invariant: a weight is `high * 2^12 + low`, and weights that fill up a group are zero, so sums of
//! products are equal modulo 2^32.

use super::coefficients::Coefficients;

/// Bits of the lower half of a weight.
pub(super) const LOW_BITS: u32 = 12;

/// The taps of one output pixel: where they begin, and which words hold their weights.
#[derive(Debug, Clone, Copy)]
pub(super) struct PackedTap {
    pub first: usize,
    pub start: usize,
    pub groups: usize,
}

/// Packed weights of one axis; the buffers are kept.
#[derive(Debug, Default)]
pub(super) struct Packed {
    pub taps: Vec<PackedTap>,
    /// For each group: words of the lower halves of two taps each, then as many of the upper halves.
    pub words: Vec<i32>,
    /// Whether each upper half fits.
    pub is_exact: bool,
    /// Source pixels from the first on that groups reach.
    pub reach: usize,
}

impl Packed {
    /// Packs weights in groups of `group` taps, which is even; positions count from `from`.
    pub(super) fn set(&mut self, coefficients: &Coefficients, group: usize, from: usize) {
        self.taps.clear();
        self.words.clear();
        self.is_exact = true;
        self.reach = 0;
        for (first, weights) in coefficients.iter() {
            let first = first - from;
            let groups = weights.len().div_ceil(group);
            self.taps.push(PackedTap { first, start: self.words.len(), groups });
            self.reach = self.reach.max(first + groups * group);
            for group_weights in weights.chunks(group) {
                let at = |tap: usize| group_weights.get(tap).copied().unwrap_or(0);
                self.words.extend((0..group / 2).map(|pair| word(low(at(2 * pair)), low(at(2 * pair + 1)))));
                self.words.extend((0..group / 2).map(|pair| word(at(2 * pair) >> LOW_BITS, at(2 * pair + 1) >> LOW_BITS)));
            }
            self.is_exact &= weights.iter().all(|weight| i16::try_from(weight >> LOW_BITS).is_ok());
        }
    }

    /// The words of one output pixel.
    pub(super) fn words_of(&self, tap: &PackedTap, group: usize) -> &[i32] {
        self.words.get(tap.start..tap.start + tap.groups * group).unwrap_or_default()
    }
}

fn low(weight: i32) -> i32 {
    weight & ((1 << LOW_BITS) - 1)
}

/// Two numbers of 16 bits, the first in the lower half.
fn word(first: i32, second: i32) -> i32 {
    (first & 0xFFFF) | (second << 16)
}
