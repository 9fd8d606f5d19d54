//! The packs of one epoch, bound to the rows that they are made of.

use super::{Error, Lengths, PackColumns};
use crate::{Dataset, Result, RowSet};
use shardmill_plan::order::{Lanes, RowOrder};
use shardmill_plan::packing::{PackPlan, Packing, Refused};
use std::sync::Arc;

/// What a pass needs to deliver packs instead of rows.
#[derive(Debug, Clone)]
pub struct Packs {
    pub plan: Arc<PackPlan>,
    pub lengths: Arc<Lengths>,
    pub columns: Arc<PackColumns>,
}

impl Packs {
    /// The packs of the rows in `order`.
    ///
    /// # Errors
    /// For rows that the packing refuses.
    pub fn plan(dataset: &Dataset, rows: &RowSet, order: &RowOrder, lanes: &Lanes, packing: Packing, lengths: &Lengths) -> Result<PackPlan> {
        let ids = RowIds::new(rows, order);
        let planned = PackPlan::build(packing, lanes, |positions, each| order.for_each(positions, |visit, row| each(lengths.of(ids.id(visit, row)))));
        let refused = |reason| match reason {
            Refused::LongRow { position, tokens } => {
                let (path, row) = row_at(dataset, rows, order, position);
                Error::LongRow { path, row, tokens, length: packing.length }
            }
            Refused::LongLane { rows } => Error::LongLane { rows },
        };
        Ok(planned.map_err(refused)?)
    }
}

/// Ids of rows by visit, as lengths are kept.
pub(super) struct RowIds {
    /// First id of each visit.
    starts: Vec<u64>,
}

impl RowIds {
    pub(super) fn new(rows: &RowSet, order: &RowOrder) -> Self {
        let first = |visit: usize| order.block(visit).and_then(|block| rows.first_id(block)).unwrap_or(u64::MAX);
        Self { starts: (0..order.num_visits()).map(first).collect() }
    }

    pub(super) fn id(&self, visit: usize, row: u64) -> u64 {
        self.starts.get(visit).map_or(u64::MAX, |start| start.saturating_add(row))
    }
}

/// File and row at a plan position.
pub(super) fn row_at(dataset: &Dataset, rows: &RowSet, order: &RowOrder, position: u64) -> (String, u64) {
    let found = order.at(position).and_then(|(block, row)| rows.row_of_file(dataset, block, row));
    found.and_then(|(file, row)| Some((dataset.files().get(file)?.path.clone(), row))).unwrap_or_default()
}
