//! Explains a batch and its epoch. Nothing is read, except to count the tokens of endless lanes.

use super::{RowPlan, Share};
use crate::explain::{BatchExplanation, Mixing, RankCost, batch, cost, mixing, ratio};
use crate::packing::PackSource;
use crate::packing::explain::{FilePiece, PackFill, PackedEpoch, batch_ahead};
use crate::packing::work::{BalanceReport, WorkOf};
use crate::{Result, RowSet};
use shardmill_engine::Cancel;
use shardmill_plan::order::{RowOrder, Steps};
use std::ops::Range;

/// A batch of one rank, and its epoch.
#[derive(Debug)]
pub struct Explanation {
    /// `None` after the last step.
    pub batch: Option<BatchExplanation>,
    /// The pieces of each pack of the batch.
    pub packs: Option<Vec<Vec<FilePiece>>>,
    pub steps: u64,
    pub rows_of_epoch: u64,
    /// Of packs.
    pub fill: Option<PackFill>,
    /// Rows of each source of a mixture, unless these are packed.
    pub sources_of_epoch: Option<Vec<u64>>,
    pub blocks: usize,
    pub lanes_of_rank: Range<u64>,
    pub windows: usize,
    pub mixing: Mixing,
    /// Bytes that all ranks decode, relative to those of the data.
    pub decode_amplification: f64,
    pub ranks: Vec<RankCost>,
    /// Of packs, if they are balanced.
    pub balance: Option<BalanceReport>,
}

impl RowPlan {
    /// Explains a step of an epoch, counted from its start. Costs are those of `columns`.
    ///
    /// # Errors
    /// When the tokens of endless lanes cannot be counted or packed.
    pub fn explain(
        &self,
        epoch: u64,
        step: u64,
        share: Share,
        columns: &[usize],
        cancel: &Cancel,
    ) -> Result<Explanation> {
        let (dataset, rows, rank) = (&*self.dataset, &*self.rows, share.rank);
        let source = self.packs().map(|packs| &packs.source);
        // Packs of documents have the pixels of their images as well.
        let pixels = source.and_then(|_| dataset.planned_images()).map(|(column, _)| column);
        let pixels = pixels.filter(|column| !columns.contains(column));
        let columns: &[usize] = &columns.iter().copied().chain(pixels).collect::<Vec<_>>();
        // Lanes that do not end are read pass by pass, whatever an epoch is.
        let order =
            self.order(if matches!(source, Some(PackSource::Ahead(_))) { 0 } else { epoch });
        let (steps, of_rows) = (self.steps(share), share.steps(self.row_lanes()));
        let cost_of_rows = |rank| cost(dataset, rows, &order, &of_rows, columns, rank);
        let all_ranks = 0..share.world_size;
        let (batch, packs, ranks): (_, _, Vec<RankCost>) = match source {
            None => (
                batch(dataset, rows, &order, &steps, step, rank),
                None,
                all_ranks.map(cost_of_rows).collect(),
            ),
            Some(PackSource::Epoch { plan, lengths, .. }) => {
                let epoch =
                    PackedEpoch { dataset, rows, order: &order, plan, lengths, steps: &steps };
                let (batch, packs) =
                    epoch.batch(step, rank).map(|found| (found.batch, found.packs)).unzip();
                (batch, packs, all_ranks.map(|rank| epoch.cost(columns, rank)).collect())
            }
            Some(PackSource::Ahead(epoch)) => {
                let found = batch_ahead(epoch, &steps, step, rank, cancel)?;
                let (batch, packs) = found.map(|found| (found.batch, found.packs)).unzip();
                let cost =
                    |rank| RankCost { batches: steps.batches(0, rank), ..cost_of_rows(rank) };
                (batch, packs, all_ranks.map(cost).collect())
            }
        };
        let balance = self.balance(&order, &steps, step, cancel)?;
        let all: u64 =
            rows.blocks().iter().map(|block| block.delivered_bytes(dataset, columns)).sum();
        Ok(Explanation {
            batch,
            packs,
            steps: steps.remaining(0),
            rows_of_epoch: order.num_rows(),
            fill: source.map(PackFill::of),
            sources_of_epoch: self
                .blend()
                .filter(|_| source.is_none())
                .map(|blend| blend.counts(epoch)),
            blocks: rows.blocks().len(),
            lanes_of_rank: of_rows.lanes_of(rank),
            windows: order.num_windows(),
            mixing: mixing(dataset, rows, &order, columns),
            decode_amplification: ratio(ranks.iter().map(|cost| cost.decoded_bytes).sum(), all),
            ranks,
            balance,
        })
    }

    fn balance(
        &self,
        order: &RowOrder,
        steps: &Steps,
        step: u64,
        cancel: &Cancel,
    ) -> Result<Option<BalanceReport>> {
        let Some(packs) = self.packs() else { return Ok(None) };
        let Some(balance) = packs.source.balance() else { return Ok(None) };
        Ok(Some(match &packs.source {
            PackSource::Epoch { plan, lengths, work: known } => {
                let (rows, packing) = (&*self.rows, plan.packing());
                let sources = &self.sources_of_blocks(rows);
                let work = WorkOf { rows, order, balance, packing, sources };
                work.report((plan, lengths, known), steps, step)
            }
            PackSource::Ahead(epoch) => {
                let (rows, order) = (&**epoch.packs.rows(), &**epoch.packs.order());
                let (packing, sources) = (epoch.packs.packing(), &self.sources_of_blocks(rows));
                let work = WorkOf { rows, order, balance, packing, sources };
                work.report_ahead(epoch, steps, step, cancel)?
            }
        }))
    }

    /// The source of each block of a mixture.
    fn sources_of_blocks(&self, rows: &RowSet) -> Vec<usize> {
        let Some(mixture) = &self.orders.mixture else { return Vec::new() };
        let source = |file: usize| mixture.first_files.partition_point(|first| *first <= file);
        rows.blocks().iter().map(|block| source(block.place.file).saturating_sub(1)).collect()
    }
}
