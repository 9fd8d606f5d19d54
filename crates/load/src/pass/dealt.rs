//! The packs that the steps of a pass deal out in place of rows.

use crate::Result;
use crate::packing::{AheadEpoch, DrawnPacks, PackSource};
use shardmill_engine::Cancel;
use shardmill_plan::packing::{BalancedCursor, PackPlan};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

#[derive(Debug)]
pub(super) enum Dealt {
    Epoch(Arc<PackPlan>),
    Ahead(Ahead),
}

/// Packs of endless lanes, drawn in the order of the steps.
#[derive(Debug)]
pub(super) struct Ahead {
    epoch: AheadEpoch,
    /// Of the lanes that this rank has drawn from.
    cursors: HashMap<u64, BalancedCursor>,
    cancel: Cancel,
}

impl Dealt {
    pub(super) fn of(source: &PackSource, cancel: &Cancel) -> Self {
        match source {
            PackSource::Epoch { plan, .. } => Self::Epoch(Arc::clone(plan)),
            PackSource::Ahead(epoch) => Self::Ahead(Ahead {
                epoch: epoch.clone(),
                cursors: HashMap::new(),
                cancel: cancel.clone(),
            }),
        }
    }

    pub(super) fn plan(&self) -> Option<&PackPlan> {
        match self {
            Self::Epoch(plan) => Some(plan),
            Self::Ahead(_) => None,
        }
    }

    /// The plan of batches whose rows stay rows.
    pub(super) fn plan_of_rows(&self) -> Option<&PackPlan> {
        self.plan().filter(|plan| plan.packing().keeps_rows())
    }

    pub(super) fn plan_of_tokens(&self) -> Option<&PackPlan> {
        self.plan().filter(|plan| !plan.packing().keeps_rows())
    }
}

impl Ahead {
    pub(super) fn draw(&mut self, runs: &[Range<u64>]) -> Result<DrawnPacks> {
        let mut drawn = DrawnPacks::default();
        self.epoch.draw(
            &mut self.cursors,
            runs.iter().cloned().flatten(),
            &mut drawn,
            &self.cancel,
        )?;
        Ok(drawn)
    }

    /// Whether a lane has to count more tokens for these packs.
    pub(super) fn counts_more(&self, runs: &[Range<u64>]) -> bool {
        let mut ends: HashMap<u64, u64> = HashMap::new();
        for (lane, pack) in runs.iter().cloned().flatten().map(|number| self.epoch.pack(number)) {
            ends.entry(lane).and_modify(|end| *end = pack.max(*end)).or_insert(pack);
        }
        ends.into_iter().any(|(lane, last)| {
            self.cursors.get(&lane).is_some_and(|cursor| !cursor.is_counted_to(last + 1))
        })
    }

    /// Of these scheduled blocks, those of whose rows every lane of `own` has
    /// counted all and needs none.
    pub(super) fn used_up(
        &self,
        blocks: impl Iterator<Item = usize>,
        own: &Range<u64>,
    ) -> Vec<usize> {
        let packs = &self.epoch.packs;
        let needed =
            packs.order().blocks_of_rows(self.cursors.iter().flat_map(|(lane, cursor)| {
                packs.held(*lane, cursor).chain([packs.counted(*lane, cursor)])
            }));
        let is_counted = |span: Range<u64>| {
            let mut lanes = packs.lanes_at(span).filter(|(lane, _)| own.contains(lane));
            lanes.all(|(lane, end)| {
                self.cursors.get(&lane).is_some_and(|cursor| packs.counted(lane, cursor).end >= end)
            })
        };
        blocks
            .filter(|scheduled| {
                !needed.contains(scheduled) && is_counted(packs.order().span(*scheduled))
            })
            .collect()
    }

    /// Whether no lane of `own` that was drawn from needs these positions, which are of one pass.
    /// If another lane needs them later, their blocks are read again.
    pub(super) fn is_passed(&self, span: Range<u64>, own: &Range<u64>) -> bool {
        let packs = &self.epoch.packs;
        let mut lanes = packs.lanes_at(span).filter(|(lane, _)| own.contains(lane));
        lanes.all(|(lane, end)| {
            self.cursors.get(&lane).is_none_or(|cursor| packs.needed_from(lane, cursor) >= end)
        })
    }
}
