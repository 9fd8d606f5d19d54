//! What a plan tells of a batch and of an epoch, as a dict. Nothing is read for it.

use super::{PyRowPlan, Share};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use shardmill_load::explain::{self, RankCost};
use shardmill_load::packing::explain::{FilePiece, PackBatch, PackedEpoch};

impl PyRowPlan {
    pub(super) fn explained<'py>(&self, py: Python<'py>, epoch: u64, step: u64, share: &Share, columns: &[usize]) -> PyResult<Bound<'py, PyDict>> {
        let (order, steps) = (py.detach(|| self.order(epoch)), self.steps(share));
        let (dataset, rows) = (&*self.dataset, &*self.rows);
        let packed = self.packed.as_ref().map(|packed| PackedEpoch { dataset, rows, order: &order, packs: &packed.packs, steps: &steps });
        let (batch, packs) = py.detach(|| match &packed {
            None => (explain::batch(dataset, rows, &order, &steps, step, share.rank), None),
            Some(packed) => packed.batch(step, share.rank).map(|PackBatch { batch, packs }| (batch, packs)).unzip(),
        });
        let cost = |rank| match &packed {
            None => explain::cost(dataset, rows, &order, &steps, columns, rank),
            Some(packed) => packed.cost(columns, rank),
        };
        let costs: Vec<_> = py.detach(|| (0..share.world_size).map(cost).collect());
        let mixing = explain::mixing(dataset, rows, &order, columns);
        let all: u64 = rows.blocks().iter().map(|block| block.delivered_bytes(dataset, columns)).sum();
        let decoded: u64 = costs.iter().map(|cost| cost.decoded_bytes).sum();
        let own_lanes = share.steps(self.row_lanes()).lanes_of(share.rank);
        let answer = PyDict::new(py);
        let is_there = batch.is_some();
        let batch = batch.unwrap_or_default();
        let files: Vec<_> = batch.rows.into_iter().map(|run| (run.file, run.start, run.rows)).collect();
        answer.set_item("rows", is_there.then_some(files))?;
        answer.set_item("repeats", batch.repeats)?;
        answer.set_item("places", is_there.then_some((batch.places.start, batch.places.end)))?;
        answer.set_item("lanes", batch.lanes.iter().map(|run| (run.lane, run.position, run.rows)).collect::<Vec<_>>())?;
        if let Some(packed) = &self.packed {
            let (plan, totals) = (&packed.packs.plan, packed.packs.plan.totals());
            let pieces = |pack: Vec<FilePiece>| pack.into_iter().map(|piece| (piece.file, piece.row, piece.first_token, piece.tokens)).collect();
            answer.set_item("packs", packs.map(|packs| packs.into_iter().map(pieces).collect::<Vec<Vec<_>>>()))?;
            answer.set_item("steps", steps.remaining(0))?;
            answer.set_item("rows_of_epoch", order.num_rows())?;
            answer.set_item("packs_of_epoch", plan.num_packs())?;
            answer.set_item("tokens_of_epoch", totals.tokens)?;
            answer.set_item("truncated_tokens", totals.truncated_tokens)?;
            answer.set_item("dropped_tokens", totals.dropped_tokens)?;
            answer.set_item("dropped_rows", totals.dropped_rows)?;
            answer.set_item("fill_rate", ratio(totals.tokens, plan.num_packs().saturating_mul(u64::from(plan.length()))))?;
        } else {
            answer.set_item("steps", steps.remaining(0))?;
            answer.set_item("rows_of_epoch", order.num_rows())?;
            if self.mixture.is_some() {
                answer.set_item("sources", batch.sources)?;
                answer.set_item("sources_of_epoch", self.counts(epoch))?;
            }
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
}

fn rank_cost(py: Python<'_>, cost: RankCost) -> PyResult<Bound<'_, PyDict>> {
    let entry = PyDict::new(py);
    entry.set_item("batches", cost.batches)?;
    entry.set_item("blocks", cost.blocks)?;
    entry.set_item("decoded_bytes", cost.decoded_bytes)?;
    entry.set_item("stored_bytes", cost.stored_bytes)?;
    Ok(entry)
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 1.0 } else { part as f64 / whole as f64 }
}
