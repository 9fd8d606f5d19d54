//! Explains from the plan, without reading rows, which tokens a batch of packs contains, and how
//! full packs are.

use super::{AheadEpoch, DrawnPacks, Lengths, PackSource};
use crate::explain::{
    BatchExplanation, FileRows, LaneRows, RankCost, cost_of_scheduled_blocks, ratio,
};
use crate::{Dataset, Result, RowSet};
use shardmill_engine::Cancel;
use shardmill_plan::order::{RowOrder, Steps};
use shardmill_plan::packing::{Amount, PackPlan, Packing, Piece, Totals};
use std::collections::HashMap;
use std::ops::Range;

/// Tokens of one row in a pack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePiece {
    /// Number of the file in the data set.
    pub file: usize,
    /// Row in the file.
    pub row: u64,
    pub first_token: u32,
    pub tokens: u32,
}

/// One batch of one rank.
#[derive(Debug, Clone)]
pub struct PackBatch {
    /// Its positions are packs, and so are those of its lanes, counted from the start of each lane.
    /// Its rows are those of all pieces.
    pub batch: BatchExplanation,
    /// In the order of the batch.
    pub packs: Vec<Vec<FilePiece>>,
}

/// The packs of an epoch, and their distribution.
#[derive(Debug, Clone, Copy)]
pub struct PackedEpoch<'a> {
    pub dataset: &'a Dataset,
    pub rows: &'a RowSet,
    pub order: &'a RowOrder,
    pub plan: &'a PackPlan,
    pub lengths: &'a Lengths,
    pub steps: &'a Steps,
}

/// How full the packs of an epoch are.
#[derive(Debug, Clone, Copy)]
pub struct PackFill {
    pub packs: u64,
    /// How many tokens the packs of endless lanes lack is only known of full ones.
    pub totals: Option<Totals>,
    /// Tokens in packs, relative to those that fit; in batches of rows, to those with padding.
    pub rate: Option<f64>,
}

impl PackFill {
    #[must_use]
    pub fn of(source: &PackSource) -> Self {
        let packs = source.lanes().num_rows();
        let room = |length: u32| packs.saturating_mul(u64::from(length));
        let (totals, room) = match source {
            PackSource::Epoch { plan, .. } if plan.packing().keeps_rows() => {
                let totals = plan.totals();
                (Some(totals), totals.tokens.saturating_add(totals.padded_tokens))
            }
            PackSource::Epoch { plan, .. } => (Some(plan.totals()), room(plan.length())),
            PackSource::Ahead(epoch) => {
                let room = room(epoch.packs.length());
                (epoch.packs.is_full().then(|| Totals { tokens: room, ..Totals::default() }), room)
            }
        };
        let rate = |totals: Totals| if packs == 0 { 0.0 } else { ratio(totals.tokens, room) };
        Self { packs, totals, rate: totals.map(rate) }
    }
}

impl PackedEpoch<'_> {
    /// The packs of `rank` in step number `step` of an epoch from its start;
    /// `None` after the last step.
    #[must_use]
    pub fn batch(&self, step: u64, rank: u64) -> Option<PackBatch> {
        let start_of = |lane| self.steps.lanes.positions(lane).start;
        let (batch, numbers) =
            dealt(self.steps, step, rank, |lane, number| number - start_of(lane))?;
        let packs = numbers.into_iter().flatten().map(|pack| self.pieces(pack)).collect();
        Some(PackBatch::of(batch, packs))
    }

    fn pieces(&self, pack: u64) -> Vec<FilePiece> {
        let (Self { order, rows, .. }, packing) = (*self, self.plan.packing());
        let row_of = |position: u64| {
            let id = order.at(position).and_then(|(block, row)| Some(rows.first_id(block)? + row));
            id.map(|id| self.lengths.row(id)).unwrap_or_default()
        };
        let mut pieces = Vec::new();
        self.plan.for_each_piece(pack, row_of, |piece| {
            if is_shown(piece, packing) {
                let count = packing.unit().whole(piece.count);
                pieces.extend(file_piece(self.dataset, rows, order, Piece { count, ..piece }));
            }
        });
        pieces
    }

    /// The maximal work of `rank` in a whole epoch: it reads its own lanes, and after the first
    /// lane has ended the rest of all lanes.
    #[must_use]
    pub fn cost(&self, columns: &[usize], rank: u64) -> RankCost {
        let (steps, plan) = (self.steps, self.plan);
        let (lanes, row_lanes) = (&steps.lanes, plan.row_lanes());
        let of_rows = Steps { lanes: row_lanes.clone(), ..steps.clone() };
        let shortest = (0..lanes.num_lanes())
            .map(|lane| lanes.positions(lane))
            .map(|packs| packs.end - packs.start)
            .min()
            .unwrap_or_default();
        let in_turns = shortest.saturating_mul(lanes.num_lanes());
        let whole_steps = in_turns - in_turns % steps.global_batch();
        let is_left = whole_steps < steps.end(0);
        let own = of_rows.lanes_of(rank).map(|lane| row_lanes.positions(lane));
        let left = (0..lanes.num_lanes()).filter(|_| is_left).map(|lane| {
            let end = row_lanes.positions(lane).end;
            plan.needed_from(lane, lanes.cursor(lane, whole_steps)).min(end)..end
        });
        let scheduled_blocks =
            own.chain(left).flat_map(|positions| self.order.scheduled_blocks(positions)).collect();
        RankCost {
            batches: steps.batches(0, rank),
            ..cost_of_scheduled_blocks(
                self.dataset,
                self.rows,
                self.order,
                columns,
                scheduled_blocks,
            )
        }
    }
}

/// The rows of all pieces, with adjacent rows merged.
fn rows_of(packs: &[Vec<FilePiece>]) -> Vec<FileRows> {
    let mut rows: Vec<FileRows> = Vec::new();
    for piece in packs.iter().flatten() {
        match rows.last_mut() {
            Some(last) if last.file == piece.file && last.start + last.rows == piece.row => {
                last.rows += 1;
            }
            // A row that continues in the next pack.
            Some(last) if last.file == piece.file && last.start + last.rows == piece.row + 1 => {}
            _ => rows.push(FileRows { file: piece.file, start: piece.row, rows: 1 }),
        }
    }
    rows
}

/// The next token of the lane is not in the pack. A row of a batch may be empty.
pub(super) fn is_shown(piece: Piece, packing: &Packing) -> bool {
    piece.count > 0 || packing.keeps_rows()
}

fn file_piece(
    dataset: &Dataset,
    rows: &RowSet,
    order: &RowOrder,
    piece: Piece,
) -> Option<FilePiece> {
    let (file, row) =
        order.at(piece.position).and_then(|(block, row)| rows.row_of_file(dataset, block, row))?;
    Some(FilePiece { file, row, first_token: piece.first, tokens: piece.count })
}

/// The numbers of the packs of a batch, and what is known about it without them. `in_lane` numbers
/// a pack within its lane.
fn dealt(
    steps: &Steps,
    step: u64,
    rank: u64,
    in_lane: impl Fn(u64, u64) -> u64,
) -> Option<(BatchExplanation, Vec<Range<u64>>)> {
    if step >= steps.remaining(0) {
        return None;
    }
    let step = steps.step(step.saturating_mul(steps.global_batch()))?;
    let slice = steps.slice(step, rank);
    let mut new = slice.rows.iter().map(|run| run.end - run.start).sum::<u64>() - slice.repeats;
    let mut lanes = Vec::new();
    for run in &slice.rows {
        if new > 0 {
            let lane = steps.lanes.lane_of(run.start);
            lanes.push(LaneRows {
                lane,
                position: in_lane(lane, run.start),
                rows: run.end - run.start,
            });
            new = new.saturating_sub(run.end - run.start);
        }
    }
    let places = step.start..step.start + step.len;
    Some((
        BatchExplanation {
            places,
            lanes,
            rows: Vec::new(),
            repeats: slice.repeats,
            sources: Vec::new(),
        },
        slice.rows,
    ))
}

impl PackBatch {
    fn of(batch: BatchExplanation, packs: Vec<Vec<FilePiece>>) -> Self {
        Self { batch: BatchExplanation { rows: rows_of(&packs), ..batch }, packs }
    }
}

/// The packs of `rank` in step number `step` of an epoch of endless lanes; `None` after the last
/// step. Counts the tokens that this takes.
///
/// # Errors
/// When tokens cannot be counted, or rows cannot be packed.
pub fn batch_ahead(
    epoch: &AheadEpoch,
    steps: &Steps,
    step: u64,
    rank: u64,
    cancel: &Cancel,
) -> Result<Option<PackBatch>> {
    let Some((batch, numbers)) = dealt(steps, step, rank, |_, number| epoch.pack(number).1) else {
        return Ok(None);
    };
    let mut drawn = DrawnPacks::default();
    epoch.draw(&mut HashMap::new(), numbers.into_iter().flatten(), &mut drawn, cancel)?;
    let packs = &epoch.packs;
    let in_files = |pieces: &[(Piece, Amount)]| {
        let shown = pieces.iter().filter(|(piece, _)| is_shown(*piece, packs.packing()));
        let pieces = shown.filter_map(|(piece, _)| {
            file_piece(&packs.dataset, packs.rows(), packs.order(), *piece)
        });
        pieces.collect::<Vec<_>>()
    };
    Ok(Some(PackBatch::of(batch, drawn.packs().map(in_files).collect())))
}
