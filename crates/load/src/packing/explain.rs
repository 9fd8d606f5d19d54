//! Which tokens a batch of packs holds, and how full packs are: answers from the plan, no row is read.

use super::Packs;
use crate::explain::{BatchExplanation, FileRows, LaneRows, RankCost, cost_of_scheduled_blocks};
use crate::{Dataset, RowSet};
use shardmill_plan::order::{RowOrder, Steps};

/// Tokens of one row in a pack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePiece {
    /// Below the root of the data set.
    pub file: String,
    /// Row of the file.
    pub row: u64,
    pub first_token: u32,
    pub tokens: u32,
}

/// One batch of one rank.
#[derive(Debug, Clone)]
pub struct PackBatch {
    /// Its places are packs, and so are those of its lanes, counted from the start of each lane. Its rows are those of all pieces.
    pub batch: BatchExplanation,
    /// In the order of the batch.
    pub packs: Vec<Vec<FilePiece>>,
}

/// The packs of an epoch, and how they are dealt out.
#[derive(Debug, Clone, Copy)]
pub struct PackedEpoch<'a> {
    pub dataset: &'a Dataset,
    pub rows: &'a RowSet,
    pub order: &'a RowOrder,
    pub packs: &'a Packs,
    pub steps: &'a Steps,
}

impl PackedEpoch<'_> {
    /// The packs of `rank` in step number `step`, if the epoch is begun at its start; `None` behind the last step.
    #[must_use]
    pub fn batch(&self, step: u64, rank: u64) -> Option<PackBatch> {
        let steps = self.steps;
        if step >= steps.remaining(0) {
            return None;
        }
        let step = steps.step(step.saturating_mul(steps.global_batch()))?;
        let slice = steps.slice(step, rank);
        let mut new = slice.rows.iter().map(|run| run.end - run.start).sum::<u64>() - slice.repeats;
        let (mut lanes, mut packs) = (Vec::new(), Vec::new());
        for run in slice.rows {
            if new > 0 {
                let lane = steps.lanes.lane_of(run.start);
                lanes.push(LaneRows { lane, position: run.start - steps.lanes.positions(lane).start, rows: run.end - run.start });
                new = new.saturating_sub(run.end - run.start);
            }
            packs.extend(run.map(|pack| pieces(self.dataset, self.rows, self.order, self.packs, pack)));
        }
        let places = step.start..step.start + step.len;
        Some(PackBatch { batch: BatchExplanation { places, lanes, rows: rows_of(&packs), repeats: slice.repeats, sources: Vec::new() }, packs })
    }

    /// What `rank` does at most in a whole epoch: it reads its own lanes, and of all lanes what is left when the first of them has ended.
    #[must_use]
    pub fn cost(&self, columns: &[usize], rank: u64) -> RankCost {
        let (steps, plan) = (self.steps, &self.packs.plan);
        let (lanes, row_lanes) = (&steps.lanes, plan.row_lanes());
        let of_rows = Steps { lanes: row_lanes.clone(), ..steps.clone() };
        let shortest = (0..lanes.num_lanes()).map(|lane| lanes.positions(lane)).map(|packs| packs.end - packs.start).min().unwrap_or_default();
        let in_turns = shortest.saturating_mul(lanes.num_lanes());
        let whole_steps = in_turns - in_turns % steps.global_batch();
        let is_left = whole_steps < steps.end(0);
        let own = of_rows.lanes_of(rank).map(|lane| row_lanes.positions(lane));
        let left = (0..lanes.num_lanes()).filter(|_| is_left).map(|lane| {
            let end = row_lanes.positions(lane).end;
            plan.needed_from(lane, lanes.cursor(lane, whole_steps)).min(end)..end
        });
        let scheduled_blocks = own.chain(left).flat_map(|positions| self.order.scheduled_blocks(positions)).collect();
        RankCost { batches: steps.batches(0, rank), ..cost_of_scheduled_blocks(self.dataset, self.rows, self.order, columns, scheduled_blocks) }
    }
}

/// The rows of all pieces, runs of neighbours put together.
fn rows_of(packs: &[Vec<FilePiece>]) -> Vec<FileRows> {
    let mut rows: Vec<FileRows> = Vec::new();
    for piece in packs.iter().flatten() {
        match rows.last_mut() {
            Some(last) if last.file == piece.file && last.start + last.rows == piece.row => last.rows += 1,
            // A row that goes on in the next pack.
            Some(last) if last.file == piece.file && last.start + last.rows == piece.row + 1 => {}
            _ => rows.push(FileRows { file: piece.file.clone(), start: piece.row, rows: 1 }),
        }
    }
    rows
}

fn pieces(dataset: &Dataset, rows: &RowSet, order: &RowOrder, packs: &Packs, pack: u64) -> Vec<FilePiece> {
    let tokens_of = |position: u64| {
        let id = order.at(position).and_then(|(block, row)| Some(rows.first_id(block)? + row));
        id.map_or(0, |id| packs.lengths.of(id))
    };
    let mut pieces = Vec::new();
    packs.plan.for_each_piece(pack, tokens_of, |piece| {
        let found = order.at(piece.position).and_then(|(block, row)| rows.row_of_file(dataset, block, row));
        if let Some((file, row)) = found.and_then(|(file, row)| Some((dataset.files().get(file)?.relative.clone(), row))) {
            pieces.push(FilePiece { file, row, first_token: piece.first, tokens: piece.count });
        }
    });
    pieces
}
