//! Divides the steps of a rank into superbatches: consecutive batches that are assembled together.
//!
//! Rows in file order need no copy while a superbatch stays within one block, so superbatches then
//! end where blocks do, and the batch across the border is a separate superbatch. All other
//! superbatches are gathered, with a size that amortizes the work per batch.

use super::dealt::Dealt;
use crate::packing::DrawnPacks;
use crate::row_set::RowBlock;
use crate::{Dataset, Error, RowSet};
use shardmill_plan::order::{Lanes, RowOrder, ScheduledBlocks, StepRows, Steps, part_of};
use shardmill_plan::packing::PackPlan;
use std::collections::BTreeSet;
use std::iter::repeat;
use std::ops::Range;
use std::sync::Arc;

/// Growth of gathered superbatches from the first batch on, which the consumer waits for.
const GROWTH: u64 = 2;

/// Blocks with fewer batches are not worth a separate superbatch.
const BATCHES_WORTH_A_SUPERBATCH: u64 = 3;

/// One batch of a superbatch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BatchRows {
    pub rows: usize,
    /// Number of rows at its end that repeat rows already delivered in the epoch.
    pub repeats: usize,
    /// Position of its first row in the global sequence.
    pub first: u64,
    /// Rows of the epoch that all ranks have delivered after this batch.
    pub consumed: u64,
    /// In a planned batch of rows, and in those of all ranks at its step, without repeats.
    pub tokens: (f64, f64),
}

/// The rows of a superbatch, and the blocks that must be in memory for it.
#[derive(Debug, Default)]
pub(super) struct SuperbatchPlan {
    pub(super) batches: Vec<BatchRows>,
    /// Plan positions in delivery order; numbers of packs if packs of tokens are delivered.
    pub(super) runs: Vec<Range<u64>>,
    /// The pack of each batch, if that consists of the rows of a pack.
    pub(super) row_packs: Vec<u64>,
    /// Blocks, as indices of scheduled blocks.
    pub(super) scheduled_blocks: Vec<usize>,
    /// Scheduled blocks that no later superbatch needs.
    pub(super) retired: Vec<usize>,
    /// Whether rows have to be counted for the next one.
    pub(super) is_last_counted: bool,
    /// The packs of `runs`, if they come from endless lanes.
    pub(super) drawn: DrawnPacks,
    /// Of the images of packs, as far as they are counted.
    pub(super) patches: u64,
}

impl SuperbatchPlan {
    pub(super) fn rows(&self) -> u64 {
        self.runs.iter().map(|run| run.end - run.start).sum()
    }

    /// The batch of a row or pack, both by their number.
    pub(super) fn batch_of(&self, row: usize) -> usize {
        let mut end = 0;
        let is_later = |batch: &&BatchRows| {
            end += batch.rows;
            end <= row
        };
        self.batches.iter().take_while(is_later).count()
    }

    /// Rows, or packs.
    pub(super) fn places(&self) -> u64 {
        if self.row_packs.is_empty() { self.rows() } else { self.row_packs.len() as u64 }
    }

    /// Its batches, each as a separate superbatch.
    pub(super) fn each_batch(
        &self,
        order: &RowOrder,
        packs: Option<&PackPlan>,
    ) -> impl Iterator<Item = Self> {
        let mut start = 0;
        let row_packs = self.row_packs.iter().map(|pack| vec![*pack]).chain(repeat(Vec::new()));
        self.batches.iter().zip(row_packs).map(move |(batch, row_packs)| {
            let end = start + batch.rows as u64;
            let runs = part_of(&self.runs, start..end);
            let drawn = if self.drawn.num_packs() > 0 {
                self.drawn.part(small(start)..small(end))
            } else {
                DrawnPacks::default()
            };
            start = end;
            let scheduled_blocks = scheduled_blocks_of(order, packs, &runs, &drawn);
            let (scheduled_blocks, retired) = (scheduled_blocks.into_iter().collect(), Vec::new());
            Self {
                batches: vec![*batch],
                runs,
                row_packs,
                scheduled_blocks,
                retired,
                is_last_counted: false,
                drawn,
                patches: 0,
            }
        })
    }
}

/// The scheduled blocks that rows at plan positions, or the rows in packs, may come from.
fn scheduled_blocks_of(
    order: &RowOrder,
    packs: Option<&PackPlan>,
    runs: &[Range<u64>],
    drawn: &DrawnPacks,
) -> BTreeSet<usize> {
    match packs {
        None if drawn.num_packs() > 0 => {
            drawn.positions().into_iter().flat_map(|run| order.scheduled_blocks(run)).collect()
        }
        None => scheduled_blocks_at(order, runs),
        Some(packs) => scheduled_blocks_at(order, &packs.positions(runs)),
    }
}

fn scheduled_blocks_at(order: &RowOrder, runs: &[Range<u64>]) -> BTreeSet<usize> {
    let mut found: Vec<ScheduledBlocks> =
        joined(runs).into_iter().map(|run| order.scheduled_blocks(run)).collect();
    // The positions of a window have the same blocks.
    found.dedup();
    found.into_iter().flatten().collect()
}

/// Runs of a lane continue from batch to batch, so their blocks are looked up once.
fn joined(runs: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut sorted = runs.to_vec();
    sorted.sort_unstable_by_key(|run| run.start);
    let mut joined: Vec<Range<u64>> = Vec::new();
    for run in sorted {
        match joined.last_mut() {
            Some(last) if run.start <= last.end => last.end = last.end.max(run.end),
            _ => joined.push(run),
        }
    }
    joined
}

#[derive(Debug)]
pub(super) struct Planner {
    order: Arc<RowOrder>,
    steps: Steps,
    rank: u64,
    consumed: u64,
    /// Every `stride`-th step is taken.
    stride: u64,
    superbatch_rows: u64,
    /// The current size limit of the next gathered superbatch.
    grown_rows: u64,
    is_aligned: bool,
    /// The lanes that this rank may draw from.
    lanes: Range<u64>,
    active: BTreeSet<usize>,
    /// Retired before the positions that may need them are passed.
    used_up: BTreeSet<usize>,
    /// Planned, and left for the next job.
    ahead: Option<SuperbatchPlan>,
    /// Of a superbatch, from which on no batch is added; `None` if patches are not counted.
    most_patches: Option<u64>,
    /// Dealt out in place of rows.
    packs: Option<Dealt>,
    /// Why there is no next superbatch, although there is a next step.
    failure: Option<Error>,
}

impl Planner {
    pub(super) fn new(
        order: Arc<RowOrder>,
        steps: Steps,
        rank: u64,
        consumed: u64,
        stride: u64,
        superbatch_rows: u64,
    ) -> Self {
        let (stride, lanes) = (stride.max(1), steps.lanes_of(rank));
        // A shuffle window is read as a whole, regardless of how much of it is gathered.
        let grown_rows = if order.is_scattered() { superbatch_rows } else { 1 };
        let mut planner = Self {
            steps,
            rank,
            consumed,
            stride,
            superbatch_rows,
            grown_rows,
            is_aligned: false,
            lanes,
            active: BTreeSet::new(),
            used_up: BTreeSet::new(),
            ahead: None,
            most_patches: None,
            packs: None,
            failure: None,
            order,
        };
        planner.is_aligned = planner.rows_are_neighbours();
        planner
    }

    /// Plans superbatches by their size alone: their rows become much larger than those of a block.
    pub(super) fn by_size(self) -> Self {
        Self { is_aligned: false, ..self }
    }

    /// Counts the patches of packs, if they have any.
    pub(super) fn with_patches(self, most_patches: Option<u64>) -> Self {
        Self { most_patches, ..self }
    }

    /// Plans steps of packs.
    pub(super) fn of_packs(self, packs: Dealt) -> Self {
        match &packs {
            // Lanes of packs have different lengths; a rank may therefore continue
            // with those of others.
            Dealt::Epoch(plan) => Self {
                is_aligned: false,
                lanes: 0..plan.row_lanes().num_lanes(),
                packs: Some(packs),
                ..self
            },
            // The first batch waits for no more windows than its own.
            Dealt::Ahead(_) => {
                Self { is_aligned: false, grown_rows: 1, packs: Some(packs), ..self }
            }
        }
    }

    /// Why the last job was the last one, if the epoch has not ended. Nothing is planned after it.
    pub(super) fn take_failure(&mut self) -> Option<Error> {
        let failure = self.failure.take()?;
        self.consumed = self.steps.lanes.num_rows();
        Some(failure)
    }

    /// Whether consecutive batches of this rank are adjacent in file order,
    /// in blocks of many batches.
    fn rows_are_neighbours(&self) -> bool {
        let blocks = self.order.num_scheduled().max(1) as u64;
        if self.order.is_scattered()
            || self.order.num_rows() / blocks
                < self.steps.batch_size.saturating_mul(BATCHES_WORTH_A_SUPERBATCH)
        {
            return false;
        }
        let Some(first) = self.steps.step(self.consumed) else { return false };
        let second = self.steps.step(self.after(first));
        let runs = |step: StepRows| self.steps.slice(step, self.rank).rows;
        match (runs(first).as_slice(), second.map(runs).unwrap_or_default().as_slice()) {
            ([_], []) => true,
            ([first], [second, ..]) => first.end == second.start,
            _ => false,
        }
    }

    /// Superbatches for one thread: those that need the same blocks, because another thread would
    /// wait for this one.
    pub(super) fn next_job(&mut self) -> Option<Vec<SuperbatchPlan>> {
        let first = self.ahead.take().or_else(|| self.next_superbatch())?;
        let mut job = vec![first];
        // Gathered superbatches need whole windows, whose blocks the threads
        // divide among themselves.
        while self.is_aligned {
            let Some(next) = self.next_superbatch() else { break };
            let is_at_hand = |scheduled: &usize| {
                job.iter().any(|superbatch| superbatch.scheduled_blocks.contains(scheduled))
            };
            if !next.scheduled_blocks.iter().all(is_at_hand) {
                self.ahead = Some(next);
                break;
            }
            job.push(next);
        }
        Some(job)
    }

    fn next_superbatch(&mut self) -> Option<SuperbatchPlan> {
        if self.failure.is_some() {
            return None;
        }
        let mut superbatch = SuperbatchPlan::default();
        let mut rows = 0;
        while let Some(step) = self.steps.step(self.consumed) {
            let slice = self.steps.slice(step, self.rank);
            if !superbatch.batches.is_empty() && !self.continues(&superbatch, &slice.rows, rows) {
                break;
            }
            if let Some(Dealt::Ahead(packs)) = &mut self.packs {
                // Counting decodes the next shuffle window. The memory of this one
                // is needed for it.
                if !superbatch.batches.is_empty()
                    && self.order.is_scattered()
                    && packs.counts_more(&slice.rows)
                {
                    superbatch.is_last_counted = true;
                    break;
                }
                match packs.draw(&slice.rows) {
                    Ok(drawn) => {
                        superbatch.patches += drawn.patches();
                        superbatch.drawn.append(drawn);
                    }
                    // Batches before it are good.
                    Err(error) => {
                        self.failure = Some(error);
                        break;
                    }
                }
            }
            let len: u64 = slice.rows.iter().map(|run| run.end - run.start).sum();
            let delivered = step.start + step.len;
            self.consumed = self.after(step);
            // A rank without any of the last rows has no batch there.
            if len == 0 {
                continue;
            }
            rows += len;
            let mut batch = BatchRows {
                rows: small(len),
                repeats: small(slice.repeats),
                first: step.start + slice.offset,
                consumed: delivered,
                tokens: (0.0, 0.0),
            };
            let mut runs = slice.rows;
            if let Some(Dealt::Epoch(plan)) = &self.packs
                && self.most_patches.is_some()
            {
                let packs = runs.iter().cloned().flatten();
                superbatch.patches += packs.map(|pack| plan.patches(pack)).sum::<u64>();
            }
            if let Some(plan) = self.packs.as_ref().and_then(Dealt::plan_of_rows) {
                let is_new = slice.repeats == 0;
                superbatch.row_packs.extend(runs.iter().cloned().flatten());
                let of_step = self.steps.lanes.runs(step.start..delivered).into_iter().flatten();
                let of_rank = runs.iter().cloned().flatten().filter(|_| is_new);
                batch.tokens = (
                    of_rank.map(|pack| plan.tokens(pack)).sum(),
                    of_step.map(|pack| plan.tokens(pack)).sum(),
                );
                runs = rows_of(plan, &runs);
                batch.rows = small(runs.iter().map(|run| run.end - run.start).sum());
                batch.repeats = if is_new { 0 } else { batch.rows };
            }
            superbatch.batches.push(batch);
            for run in runs {
                match superbatch.runs.last_mut() {
                    Some(last) if last.end == run.start => last.end = run.end,
                    _ => superbatch.runs.push(run),
                }
            }
        }
        if superbatch.batches.is_empty() {
            return None;
        }
        self.grown_rows = rows.saturating_mul(GROWTH).min(self.superbatch_rows);
        let scheduled_blocks = scheduled_blocks_of(
            &self.order,
            self.packs.as_ref().and_then(Dealt::plan_of_tokens),
            &superbatch.runs,
            &superbatch.drawn,
        );
        superbatch.scheduled_blocks = self.without_used_up(scheduled_blocks, &superbatch.drawn);
        self.active.extend(&superbatch.scheduled_blocks);
        superbatch.retired =
            self.active.iter().copied().filter(|scheduled| self.is_passed(*scheduled)).collect();
        let used_up = std::mem::take(&mut self.used_up);
        self.used_up =
            used_up.into_iter().filter(|scheduled| !self.is_passed(*scheduled)).collect();
        superbatch.retired.iter().for_each(|scheduled| {
            self.active.remove(scheduled);
        });
        if superbatch.is_last_counted {
            superbatch.retired.extend(self.take_used_up());
        }
        Some(superbatch)
    }

    /// The positions of a window may come from all of its blocks, and its last rows come from few.
    fn without_used_up(&self, scheduled_blocks: BTreeSet<usize>, drawn: &DrawnPacks) -> Vec<usize> {
        if self.used_up.is_empty() {
            return scheduled_blocks.into_iter().collect();
        }
        let needed = self.order.blocks_of_rows(drawn.positions());
        scheduled_blocks
            .into_iter()
            .filter(|scheduled| !self.used_up.contains(scheduled) || needed.contains(scheduled))
            .collect()
    }

    fn take_used_up(&mut self) -> Vec<usize> {
        let Some(Dealt::Ahead(packs)) = &self.packs else { return Vec::new() };
        let used_up = packs.used_up(self.active.iter().copied(), &self.lanes);
        used_up.iter().for_each(|scheduled| {
            self.active.remove(scheduled);
            self.used_up.insert(*scheduled);
        });
        used_up
    }

    /// The start of the next step to take.
    fn after(&self, step: StepRows) -> u64 {
        let skipped = (self.stride - 1).saturating_mul(self.steps.global_batch());
        (step.start + step.len).saturating_add(skipped).min(self.steps.lanes.num_rows())
    }

    /// Whether a batch belongs to the superbatch that was started.
    fn continues(&self, superbatch: &SuperbatchPlan, next: &[Range<u64>], rows: u64) -> bool {
        if !self.is_aligned {
            let is_full = |most| superbatch.patches >= most;
            return rows < self.grown_rows && !self.most_patches.is_some_and(is_full);
        }
        let scheduled_of = |run: &Range<u64>| self.order.scheduled_blocks(run.clone()).only();
        match (superbatch.runs.as_slice(), next) {
            ([run], [next]) => {
                run.end == next.start
                    && scheduled_of(run).is_some()
                    && scheduled_of(run) == scheduled_of(next)
            }
            _ => false,
        }
    }

    /// Whether all lanes of this rank have passed the positions that need a scheduled block.
    fn is_passed(&self, scheduled: usize) -> bool {
        let span = self.order.span(scheduled);
        if let Some(Dealt::Ahead(packs)) = &self.packs {
            return packs.is_passed(span, &self.lanes);
        }
        let plan = self.packs.as_ref().and_then(Dealt::plan);
        let lanes: &Lanes = plan.map_or(&self.steps.lanes, PackPlan::row_lanes);
        // Lanes are runs of ascending positions: only those around the span matter.
        let first = lanes.lane_of(span.start).max(self.lanes.start);
        let last = lanes.lane_of(span.end.saturating_sub(1)).min(self.lanes.end.saturating_sub(1));
        let goes_on_at = |lane: u64| {
            let cursor = self.steps.lanes.cursor(lane, self.consumed);
            plan.map_or(cursor, |packs| packs.needed_from(lane, cursor))
        };
        (first..=last).all(|lane| goes_on_at(lane) >= span.end.min(lanes.positions(lane).end))
    }
}

/// Plan positions of the rows of packs, in delivery order.
fn rows_of(plan: &PackPlan, packs: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut runs: Vec<Range<u64>> = Vec::new();
    for pack in packs.iter().cloned().flatten() {
        plan.for_each_row(pack, |row| match runs.last_mut() {
            Some(last) if last.end == row => last.end += 1,
            _ => runs.push(row..row + 1),
        });
    }
    runs
}

fn small(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

/// Decoded bytes of a row: the mean over some blocks of each source; reading the metadata of all
/// blocks would take too long. Blocks count by their size, because many short rows must not make
/// superbatches that are too large where rows are long.
pub(super) fn row_bytes(
    dataset: &Dataset,
    rows: &RowSet,
    order: &RowOrder,
    columns: &[usize],
) -> u64 {
    const SAMPLE: usize = 64;
    let mean = |blocks: &[RowBlock]| {
        let (mut all, mut weighted) = (0u128, 0u128);
        for block in blocks.iter().step_by(blocks.len().div_ceil(SAMPLE).max(1)) {
            let bytes = u128::from(block.whole_bytes(dataset, columns));
            all += bytes;
            weighted =
                weighted.saturating_add(bytes * bytes / u128::from(block.whole_rows().max(1)));
        }
        u64::try_from(weighted.div_ceil(all.max(1))).unwrap_or(u64::MAX)
    };
    let Some(mixture) = order.mixture() else { return mean(rows.blocks()) };
    let bytes = mixture.shares().map(|(blocks, rows_of_source)| {
        let blocks = rows.blocks().get(blocks).unwrap_or_default();
        u128::from(mean(blocks)) * u128::from(rows_of_source)
    });
    u64::try_from(bytes.sum::<u128>().div_ceil(u128::from(order.num_rows().max(1))))
        .unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
