//! Weights in the order in which a kernel reads them: in groups of taps that one load covers.
//!
//! [`Coefficients`] enter, packed words leave. Invariant: weights that fill up a group are zero, so
//! sums of products are equal.

use super::blocks::RowLen;
use super::coefficients::Coefficients;

/// The taps of one output pixel: where they begin, and how many groups they are.
#[derive(Debug, Clone, Copy)]
pub(super) struct PackedTap {
    pub first: usize,
    pub groups: usize,
}

/// Packed weights of one axis; the buffers are kept.
#[derive(Debug, Default)]
pub(super) struct Packed {
    pub taps: Vec<PackedTap>,
    /// For the groups of all taps, one after another, as many words as a group has taps.
    pub words: Vec<i32>,
    /// Source pixels from the first on that groups reach.
    pub reach: usize,
}

impl Packed {
    /// Packs weights in groups of `group` taps, each written by `write`, which gets up to `group`
    /// weights; positions count from `from`.
    pub(super) fn set(
        &mut self,
        coefficients: &Coefficients,
        group: usize,
        from: usize,
        write: impl Fn(&[i32], usize, &mut Vec<i32>),
    ) {
        self.taps.clear();
        self.words.clear();
        self.reach = 0;
        for (first, weights) in coefficients.iter() {
            let first = first - from;
            let groups = weights.len().div_ceil(group);
            self.taps.push(PackedTap { first, groups });
            self.reach = self.reach.max(first + groups * group);
            weights.chunks(group).for_each(|weights| write(weights, group, &mut self.words));
        }
    }

    /// What the horizontal pass reads and writes of a row. A vector of RGB covers four taps and
    /// four bytes more.
    pub(super) fn row_len(&self, channels: usize) -> RowLen {
        RowLen {
            read: if channels == 3 { self.reach * 3 + 4 } else { self.reach },
            written: self.taps.len() * channels,
        }
    }
}
