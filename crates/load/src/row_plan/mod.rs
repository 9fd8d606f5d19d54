//! The rows of an epoch and their order: steps deal out these rows, or packs of them.
//!
//! The invariant: what an epoch delivers depends on the plan alone, and a plan never changes.

mod explain;
mod orders;
#[cfg(test)]
mod tests;

pub use explain::Explanation;

use crate::packing::{
    AheadPacks, Error as PackingError, Lengths, LengthsSource, PackSource, Packs, PlannedRows,
    RowCounts,
};
use crate::pass::{Audit, AuditIds, OnBadRows, expected_audit};
use crate::{Dataset, Result, RowSet};
use orders::{Mixture, Orders};
use shardmill_engine::Cancel;
use shardmill_plan::Expression;
use shardmill_plan::order::{Blend, Lanes, RowOrder, Steps, Tail};
use shardmill_plan::packing::{Mark, PackPlan, Packing};
use shardmill_storage::Remembered;
use std::ops::Range;
use std::sync::Arc;

/// The rows of every epoch.
#[derive(Debug)]
pub struct RowPlan {
    dataset: Arc<Dataset>,
    rows: Arc<RowSet>,
    orders: Orders,
    /// That of the last requested epoch: a state may be taken after every batch.
    order: Remembered<Option<(u64, Arc<RowOrder>)>>,
    /// Packs depend on the order of their rows, so they belong to one epoch.
    packed: Option<(u64, Packs)>,
}

/// How rows are dealt out.
#[derive(Debug, Clone, Copy)]
pub struct Share {
    pub batch_size: u64,
    pub world_size: u64,
    pub rank: u64,
    pub tail: Tail,
}

impl RowPlan {
    /// The rows of `dataset` that pass the filter, in the order of the files.
    ///
    /// # Errors
    /// As those of [`RowSet::build`].
    pub fn build(
        dataset: &Arc<Dataset>,
        filter: Option<&Expression>,
        threads: usize,
        cancel: &Cancel,
    ) -> Result<Self> {
        let rows = Arc::new(RowSet::build(dataset, filter, threads, cancel)?);
        Ok(Self::of(dataset, rows, Orders::default(), None))
    }

    /// Blends the rows of several plans: `dataset` has the files of all of them, in this order.
    #[must_use]
    pub fn mixed(dataset: &Arc<Dataset>, plans: &[&Self], blend: Blend) -> Self {
        let mut files = 0;
        let mut first_files = Vec::with_capacity(plans.len());
        for plan in plans {
            first_files.push(files);
            files += plan.dataset.files().len();
        }
        let rows =
            RowSet::joined(first_files.iter().copied().zip(plans.iter().map(|plan| &*plan.rows)));
        let mixture = Some(Arc::new(Mixture { blend, first_files }));
        Self::of(dataset, Arc::new(rows), Orders { mixture, ..Orders::default() }, None)
    }

    fn of(
        dataset: &Arc<Dataset>,
        rows: Arc<RowSet>,
        orders: Orders,
        packed: Option<(u64, Packs)>,
    ) -> Self {
        Self { dataset: Arc::clone(dataset), rows, orders, order: Remembered::default(), packed }
    }

    /// The same rows in another order, without packs.
    #[must_use]
    pub fn ordered(&self, window_bytes: Option<u64>, seed: i64, lanes: u64) -> Self {
        let orders = Orders { window_bytes, seed, lanes, mixture: self.orders.mixture.clone() };
        Self::of(&self.dataset, Arc::clone(&self.rows), orders, None)
    }

    /// The same rows of a mixture, with the weights of its sources from each of these epochs on,
    /// without packs. `before` are the rows of each source before the first of them.
    #[must_use]
    pub fn reweighted(&self, changes: &[(u64, Vec<u64>)], before: Vec<u128>) -> Self {
        let (mut orders, mut before) = (self.orders.clone(), Some(before));
        if let Some(mixture) = &self.orders.mixture {
            let blend = changes.iter().fold(mixture.blend.clone(), |blend, (epoch, weights)| {
                blend.reweighted(*epoch, weights, before.take())
            });
            let first_files = mixture.first_files.clone();
            orders.mixture = Some(Arc::new(Mixture { blend, first_files }));
        }
        Self::of(&self.dataset, Arc::clone(&self.rows), orders, None)
    }

    /// The packs of an epoch in place of rows.
    #[must_use]
    pub fn with_packs(&self, epoch: u64, packs: Packs) -> Self {
        Self::of(&self.dataset, Arc::clone(&self.rows), self.orders.clone(), Some((epoch, packs)))
    }

    /// The same rows of another data set of the same files.
    #[must_use]
    pub fn with_dataset(&self, dataset: &Arc<Dataset>) -> Self {
        Self::of(dataset, Arc::clone(&self.rows), self.orders.clone(), None)
    }

    #[must_use]
    pub fn dataset(&self) -> &Arc<Dataset> {
        &self.dataset
    }

    #[must_use]
    pub fn rows(&self) -> &Arc<RowSet> {
        &self.rows
    }

    #[must_use]
    pub fn seed(&self) -> i64 {
        self.orders.seed
    }

    #[must_use]
    pub fn packs(&self) -> Option<&Packs> {
        self.packed.as_ref().map(|(_, packs)| packs)
    }

    /// Number of rows of one epoch.
    #[must_use]
    pub fn num_rows(&self) -> u64 {
        self.blend().map_or_else(|| self.rows.num_rows(), Blend::rows)
    }

    /// Number of rows of each file of the data set, after the filter.
    #[must_use]
    pub fn rows_of_files(&self) -> Vec<u64> {
        let mut rows = vec![0; self.dataset.files().len()];
        for block in self.rows.blocks() {
            if let Some(of_file) = rows.get_mut(block.place.file) {
                *of_file += block.rows;
            }
        }
        rows
    }

    /// Estimated size in memory of all columns of all rows, from metadata.
    #[must_use]
    pub fn decoded_bytes(&self) -> u64 {
        self.rows.blocks().iter().map(|block| block.decoded_bytes).sum()
    }

    /// How sources are blended, if the rows are those of a mixture.
    #[must_use]
    pub fn blend(&self) -> Option<&Blend> {
        self.orders.mixture.as_ref().map(|mixture| &mixture.blend)
    }

    /// Rows of each source of a mixture among the first `consumed` rows of an epoch.
    #[must_use]
    pub fn consumed(&self, epoch: u64, consumed: u64) -> Vec<u64> {
        if self.blend().is_none() {
            return Vec::new();
        }
        self.order(epoch).mixture().map_or_else(Vec::new, |order| order.consumed(consumed))
    }

    /// Lanes of the global sequence, of rows or of packs.
    #[must_use]
    pub fn lanes(&self) -> Lanes {
        self.packs().map_or_else(|| self.row_lanes(), |packs| packs.source.lanes().clone())
    }

    #[must_use]
    pub fn steps(&self, share: Share) -> Steps {
        share.steps(self.lanes())
    }

    fn row_lanes(&self) -> Lanes {
        Lanes::new(self.num_rows(), self.orders.lanes)
    }

    fn order(&self, epoch: u64) -> Arc<RowOrder> {
        let mut kept = self.order.lock();
        if let Some((_, order)) = kept.as_ref().filter(|(known, _)| *known == epoch) {
            return Arc::clone(order);
        }
        let order = Arc::new(self.orders.of(&self.rows, epoch));
        *kept = Some((epoch, Arc::clone(&order)));
        order
    }

    /// The rows that a pass over an epoch reads, and their order.
    ///
    /// # Errors
    /// For packs of another epoch, and for packs without their bad rows.
    pub fn read_order(
        &self,
        epoch: u64,
        on_bad_rows: OnBadRows,
    ) -> Result<(Arc<RowSet>, Arc<RowOrder>)> {
        self.check_epoch(epoch)?;
        if self.packed.is_some() && on_bad_rows != OnBadRows::Raise {
            return Err(PackingError::BadRows.into());
        }
        if let Some(PackSource::Ahead(epoch)) = self.packs().map(|packs| &packs.source) {
            return Ok((Arc::clone(epoch.packs.rows()), Arc::clone(epoch.packs.order())));
        }
        // The block of a bad row decides which row replaces it.
        if on_bad_rows == OnBadRows::Raise && self.orders.is_sequential() {
            let rows = self.orders.merged(&self.rows);
            let order = Arc::new(self.orders.of(&rows, epoch));
            return Ok((rows, order));
        }
        Ok((Arc::clone(&self.rows), self.order(epoch)))
    }

    /// What all ranks deliver between two positions of an epoch, without reading.
    ///
    /// # Errors
    /// For packs of another epoch.
    pub fn audit(&self, epoch: u64, places: Range<u64>, share: Share) -> Result<Audit> {
        self.check_epoch(epoch)?;
        let order = self.order(epoch);
        let ids = if self.packed.is_some() {
            AuditIds::Packs
        } else {
            AuditIds::Rows { order: &order, rows: &self.rows }
        };
        Ok(expected_audit(&ids, &self.steps(share), places.start, places.end))
    }

    /// Packs the rows of an epoch, whose token counts are known.
    ///
    /// # Errors
    /// For rows that cannot be packed.
    pub fn pack(
        &self,
        epoch: u64,
        packing: Packing,
        lengths: &Arc<Lengths>,
        threads: usize,
        cancel: &Cancel,
    ) -> Result<PackPlan> {
        let planned = PlannedRows {
            dataset: Arc::clone(&self.dataset),
            rows: Arc::clone(&self.rows),
            order: self.order(epoch),
            lanes: self.row_lanes(),
            lengths: Arc::clone(lengths),
        };
        Packs::plan(packing, &planned, threads, cancel)
    }

    /// Packs `columns` of the rows of all epochs, one after another, while token counts are found.
    /// `starts` are positions of the lanes before which nothing is asked for; none is their start.
    ///
    /// # Errors
    /// When the counts that are kept in files contradict each other.
    pub fn pack_ahead(
        &self,
        packing: Packing,
        counted: LengthsSource,
        columns: &[usize],
        starts: Vec<Mark>,
        threads: usize,
        cancel: &Cancel,
    ) -> Result<AheadPacks> {
        let rows = if self.orders.is_sequential() {
            self.orders.merged(&self.rows)
        } else {
            Arc::clone(&self.rows)
        };
        let counts = RowCounts::open(&self.dataset, &rows, counted, columns, threads, cancel)?;
        let order = self.orders.endless(&rows, self.num_rows());
        let lanes = self.row_lanes();
        Ok(AheadPacks::new(&self.dataset, &rows, order, lanes, packing, counts, starts))
    }

    /// The packs of the same rows, whose order differs from that of `packs` from a pass on.
    #[must_use]
    pub fn repack_ahead(&self, packs: &AheadPacks, pass: u64, starts: Vec<Mark>) -> AheadPacks {
        let (order, _) = self.orders.endless(packs.rows(), self.num_rows());
        packs.reordered(order, pass, starts)
    }

    /// For each lane that a rank reads, if lanes are endless: [`crate::packing::AheadEpoch::begun`].
    ///
    /// # Errors
    /// When tokens cannot be counted.
    pub fn begun(
        &self,
        consumed: u64,
        share: Share,
        cancel: &Cancel,
    ) -> Result<Vec<(u64, Mark, u64)>> {
        let Some(PackSource::Ahead(epoch)) = self.packs().map(|packs| &packs.source) else {
            return Ok(Vec::new());
        };
        let begun =
            |lane| epoch.begun(lane, consumed, cancel).map(|(mark, pass)| (lane, mark, pass));
        self.steps(share).lanes_of(share.rank).map(begun).collect()
    }

    /// Rows of each source of a mixture in all epochs before one.
    #[must_use]
    pub fn counts_before(&self, epoch: u64) -> Vec<u128> {
        self.blend().map_or_else(Vec::new, |blend| blend.counts_before(epoch))
    }

    fn check_epoch(&self, epoch: u64) -> Result<()> {
        match &self.packed {
            Some((packed, _)) if *packed != epoch => {
                Err(PackingError::OtherEpoch { packed: *packed, epoch }.into())
            }
            _ => Ok(()),
        }
    }
}

impl Share {
    fn steps(self, lanes: Lanes) -> Steps {
        Steps { lanes, batch_size: self.batch_size, world_size: self.world_size, tail: self.tail }
    }
}
