//! Explains a batch or an epoch from the plan, as a dict. Nothing is read, except to count the tokens of endless lanes.

use super::{PyRowPlan, Share};
use crate::error::PyShardmillError;
use crate::interrupt::interruptible;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict};
use shardmill_load::explain::{self, RankCost};
use shardmill_load::packing::PackSource;
use shardmill_load::packing::explain::{FilePiece, PackBatch, PackedEpoch, batch_ahead};

impl PyRowPlan {
    pub(super) fn explained<'py>(&self, py: Python<'py>, epoch: u64, step: u64, share: &Share, columns: &[usize]) -> PyResult<Bound<'py, PyDict>> {
        let steps = self.steps(share);
        // Lanes that do not end are read pass by pass, whatever an epoch is.
        let ahead = self.ahead();
        let order = py.detach(|| self.order(if ahead.is_some() { 0 } else { epoch }));
        let (dataset, rows) = (&*self.dataset, &*self.rows);
        let packed = match self.packed.as_ref().map(|packed| &packed.packs.source) {
            Some(PackSource::Epoch { plan, lengths }) => Some(PackedEpoch { dataset, rows, order: &order, plan, lengths, steps: &steps }),
            _ => None,
        };
        let (batch, packs) = match (ahead.cloned(), &packed) {
            (Some(ahead), _) => {
                let (steps, rank) = (steps.clone(), share.rank);
                let found = interruptible(py, move |cancel| batch_ahead(&ahead, &steps, step, rank, cancel).map_err(PyShardmillError::from))?;
                found.map(|PackBatch { batch, packs }| (batch, packs)).unzip()
            }
            (None, Some(packed)) => py.detach(|| packed.batch(step, share.rank).map(|PackBatch { batch, packs }| (batch, packs)).unzip()),
            (None, None) => (py.detach(|| explain::batch(dataset, rows, &order, &steps, step, share.rank)), None),
        };
        let of_rows = share.steps(self.row_lanes());
        let cost = |rank| match &packed {
            None if ahead.is_some() => RankCost { batches: steps.batches(0, rank), ..explain::cost(dataset, rows, &order, &of_rows, columns, rank) },
            None => explain::cost(dataset, rows, &order, &steps, columns, rank),
            Some(packed) => packed.cost(columns, rank),
        };
        let costs: Vec<_> = py.detach(|| (0..share.world_size).map(cost).collect());
        let mixing = explain::mixing(dataset, rows, &order, columns);
        let all: u64 = rows.blocks().iter().map(|block| block.delivered_bytes(dataset, columns)).sum();
        let decoded: u64 = costs.iter().map(|cost| cost.decoded_bytes).sum();
        let own_lanes = of_rows.lanes_of(share.rank);
        let answer = PyDict::new(py);
        let is_there = batch.is_some();
        let batch = batch.unwrap_or_default();
        let files: Vec<_> = batch.rows.into_iter().map(|run| (run.file, run.start, run.rows)).collect();
        answer.set_item("rows", is_there.then_some(files))?;
        answer.set_item("repeats", batch.repeats)?;
        answer.set_item("places", is_there.then_some((batch.places.start, batch.places.end)))?;
        answer.set_item("lanes", batch.lanes.iter().map(|run| (run.lane, run.position, run.rows)).collect::<Vec<_>>())?;
        answer.set_item("steps", steps.remaining(0))?;
        answer.set_item("rows_of_epoch", order.num_rows())?;
        if let Some(packed) = &self.packed {
            let pieces = |pack: Vec<FilePiece>| pack.into_iter().map(|piece| (piece.file, piece.row, piece.first_token, piece.tokens)).collect();
            answer.set_item("packs", packs.map(|packs| packs.into_iter().map(pieces).collect::<Vec<Vec<_>>>()))?;
            self.explain_tokens(&answer, &packed.packs.source)?;
        } else if self.orders.mixture.is_some() {
            answer.set_item("sources", batch.sources)?;
            answer.set_item("sources_of_epoch", self.counts(epoch))?;
        }
        answer.set_item("blocks", rows.blocks().len())?;
        answer.set_item("lanes_of_rank", (own_lanes.start, own_lanes.end))?;
        answer.set_item("windows", order.num_windows())?;
        answer.set_item("window_bytes", mixing.window_bytes)?;
        answer.set_item("mixing_distance", mixing.distance)?;
        answer.set_item("decode_amplification", ratio(decoded, all))?;
        answer.set_item("ranks", costs.into_iter().map(|cost| rank_cost(py, cost)).collect::<PyResult<Vec<_>>>()?)?;
        Ok(answer)
    }

    /// How full the packs of an epoch are. Of endless lanes it is not known how many tokens they lack.
    fn explain_tokens(&self, answer: &Bound<'_, PyDict>, source: &PackSource) -> PyResult<()> {
        let num_packs = source.lanes().num_rows();
        answer.set_item("packs_of_epoch", num_packs)?;
        let (tokens, totals) = match source {
            PackSource::Epoch { plan, .. } => (Some(plan.totals().tokens), Some((plan.totals(), plan.length()))),
            PackSource::Ahead(epoch) if epoch.packs.is_full() => (Some(num_packs.saturating_mul(u64::from(epoch.packs.length()))), None),
            PackSource::Ahead(_) => (None, None),
        };
        answer.set_item("tokens_of_epoch", tokens)?;
        let is_full = totals.is_none() && tokens.is_some();
        answer.set_item("truncated_tokens", totals.map(|(totals, _)| totals.truncated_tokens).or(is_full.then_some(0)))?;
        answer.set_item("dropped_tokens", totals.map(|(totals, _)| totals.dropped_tokens).or(is_full.then_some(0)))?;
        answer.set_item("dropped_rows", totals.map(|(totals, _)| totals.dropped_rows).or(is_full.then_some(0)))?;
        let fill = totals.map(|(totals, length)| ratio(totals.tokens, num_packs.saturating_mul(u64::from(length))));
        answer.set_item("fill_rate", fill.or(is_full.then_some(1.0)))
    }
}

fn rank_cost(py: Python<'_>, cost: RankCost) -> PyResult<Bound<'_, PyDict>> {
    let RankCost { batches, blocks, decoded_bytes, stored_bytes } = cost;
    [("batches", batches), ("blocks", blocks), ("decoded_bytes", decoded_bytes), ("stored_bytes", stored_bytes)].into_py_dict(py)
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 1.0 } else { part as f64 / whole as f64 }
}
