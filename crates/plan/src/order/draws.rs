//! Rows with how often they were drawn before, for what must differ between the draws of a row.
//!
//! The invariant: the round of a draw depends on the seed, the epoch and its plan position, never
//! on ranks, threads or batches.

use super::mixture::MixtureOrder;
use super::row_order::RowOrder;
use std::ops::Range;

/// A row at a plan position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Draw {
    pub scheduled: usize,
    /// Index within its block.
    pub row: u64,
    pub source: usize,
    /// How often all rows of the source were drawn before, counted over epochs.
    pub round: u64,
}

impl RowOrder {
    /// Calls `row` for each draw at these plan positions of an epoch, in order.
    pub fn for_each_draw(&self, positions: Range<u64>, epoch: u64, mut row: impl FnMut(Draw)) {
        match self.mixture() {
            Some(order) => order.for_each_draw(positions, row),
            None => self.for_each(positions, |scheduled, place| {
                row(Draw { scheduled, row: place, source: 0, round: epoch });
            }),
        }
    }
}

impl MixtureOrder {
    fn for_each_draw(&self, positions: Range<u64>, mut row: impl FnMut(Draw)) {
        let mut drawn = self.drawn(positions.start);
        self.for_each(positions, |scheduled, place| {
            let source = self.source(scheduled).unwrap_or_default();
            let round = drawn.get_mut(source).map_or(0, |drawn| {
                *drawn += 1;
                self.round(source, *drawn - 1)
            });
            row(Draw { scheduled, row: place, source, round });
        });
    }
}
