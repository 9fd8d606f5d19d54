//! Renders the images of an assembled superbatch, and handles rows whose images are bad.
//!
//! A bad image is found when its row is delivered, not when its block is read. The invariant: which row replaces it follows from the data, the seed and
//! the epoch, as for rows that cannot be read.

use super::Work;
use super::bad_rows::{BadRow, OnBadRows, is_of_data};
use super::delivered::Delivered;
use super::metrics::Stage;
use super::superbatches::{BatchRows, SuperbatchPlan};
use crate::images::{Rendering, RowPlace, Seeds};
use crate::{Error, Result};
use arrow_array::{BooleanArray, RecordBatch, RecordBatchOptions};
use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder};
use arrow_select::filter::filter_record_batch;
use arrow_select::interleave::interleave;
use shardmill_engine::{Error as EngineError, has_idle_thread, spread};
use shardmill_plan::order::{Permutation, Purpose};
use std::iter::repeat_n;
use std::sync::Arc;

/// Number of rows of a block that are tried in place of one with a bad image.
const MAX_DONORS: u64 = 64;

/// Images that a thread renders before another one may take over: a job is short beside a batch, and long beside its start.
const IMAGES_OF_A_JOB: usize = 32;

/// A row of a superbatch: its block, its index there, and where it is in its file.
struct Placed {
    block: usize,
    row: u64,
    place: RowPlace,
}

/// Rows that were rendered, in order.
struct Rendered {
    rendering: Rendering,
    /// One bit for each row: whether it, or another row in its place, is in `rendering`.
    good: BooleanBufferBuilder,
    /// Rows in place of others, which are given by their index.
    donors: Vec<(usize, RecordBatch)>,
    bad: Vec<(usize, BadRow)>,
}

impl Work {
    pub(super) fn render(&self, delivered: Delivered, plan: &SuperbatchPlan) -> Result<Delivered> {
        let count = delivered.rows.num_rows();
        let Some(rendering) = Rendering::new(&self.dataset, &self.columns, count, self.seeds()) else { return Ok(delivered) };
        let Delivered { rows, batches, kept, mut bad_rows } = delivered;
        let mut all = Rendered { rendering, good: BooleanBufferBuilder::new(count), donors: Vec::new(), bad: Vec::new() };
        let placed = self.placed(plan, kept.as_ref());
        if has_idle_thread() && count > IMAGES_OF_A_JOB {
            self.render_on_idle_threads(&rows, placed, &mut all)?;
        } else {
            self.render_rows(&rows, &placed, 0, &mut all)?;
        }
        let Rendered { rendering, mut good, donors, bad } = all;
        let batch_of: Vec<usize> = batches.iter().enumerate().flat_map(|(number, batch)| repeat_n(number, batch.rows)).collect();
        bad_rows.extend(bad.into_iter().map(|(row, bad)| (batch_of.get(row).copied().unwrap_or_default(), bad)));
        let (good, rows) = (good.finish(), with_donors(rows, &donors)?);
        if good.count_set_bits() == count {
            return Ok(Delivered { rows: rendering.finish(rows)?, batches, kept, bad_rows });
        }
        let rows = filter_record_batch(&rows, &BooleanArray::new(good.clone(), None)).map_err(Error::assemble)?;
        let kept = match kept {
            None => good.clone(),
            Some(kept) => within(&kept, &good),
        };
        Ok(Delivered { rows: rendering.finish(rows)?, batches: shortened(&batches, &good), kept: Some(kept), bad_rows })
    }

    /// Renders `placed`, which are rows of `rows` from `first` on.
    fn render_rows(&self, rows: &RecordBatch, placed: &[Placed], first: usize, out: &mut Rendered) -> Result<()> {
        for (row, placed) in (first..).zip(placed) {
            self.cancel.check()?;
            let Err(bad) = out.rendering.add(&self.dataset, rows, row, placed.place) else {
                out.good.append(true);
                continue;
            };
            let (path, number) = self.rows.path_and_row(&self.dataset, placed.block, placed.row).unwrap_or_default();
            let error = bad.into_error(path.clone(), number);
            if self.policy.on_bad_rows == OnBadRows::Raise || !is_of_data(&error) {
                return Err(error);
            }
            out.bad.push((row, BadRow { path, row: number, cause: error.to_string().into() }));
            if self.policy.on_bad_rows == OnBadRows::Replace {
                out.donors.push((row, self.donor(&mut out.rendering, placed, error)?));
            }
            out.good.append(self.policy.on_bad_rows == OnBadRows::Replace);
        }
        Ok(())
    }

    /// The same in jobs, some of them on threads that would wait. Their pixels are copied once more.
    fn render_on_idle_threads(&self, rows: &RecordBatch, placed: Vec<Placed>, out: &mut Rendered) -> Result<()> {
        let (work, rows, jobs) = (self.clone(), rows.clone(), placed.len().div_ceil(IMAGES_OF_A_JOB));
        let owner = std::thread::current().id();
        let job = move |number: usize| -> Result<Rendered> {
            let (first, len) = (number * IMAGES_OF_A_JOB, IMAGES_OF_A_JOB.min(placed.len() - number * IMAGES_OF_A_JOB));
            let rendering = Rendering::new(&work.dataset, &work.columns, len, work.seeds()).ok_or_else(|| Error::from(EngineError::Cancelled))?;
            let mut part = Rendered { rendering, good: BooleanBufferBuilder::new(len), donors: Vec::new(), bad: Vec::new() };
            let mut render = || work.render_rows(&rows, placed.get(first..first + len).unwrap_or_default(), first, &mut part);
            if std::thread::current().id() == owner { render() } else { work.metrics.elsewhere(Stage::Render, render) }?;
            Ok(part)
        };
        let mut failure = None;
        spread(jobs, job, |part: Result<Rendered>| match part {
            Ok(mut part) if failure.is_none() => {
                out.rendering.append(part.rendering);
                out.good.append_buffer(&part.good.finish());
                out.donors.append(&mut part.donors);
                out.bad.append(&mut part.bad);
            }
            Ok(_) => {}
            // The first error is that of the first row.
            Err(error) => failure = failure.take().or(Some(error)),
        })?;
        failure.map_or(Ok(()), Err)
    }

    fn seeds(&self) -> Seeds {
        Seeds { seed: self.policy.seed, epoch: self.policy.epoch }
    }

    /// The rows of a superbatch that are still in it, in order.
    fn placed(&self, plan: &SuperbatchPlan, kept: Option<&BooleanBuffer>) -> Vec<Placed> {
        let (mut placed, mut number) = (Vec::new(), 0);
        for run in &plan.runs {
            self.order.for_each_draw(run.clone(), self.policy.epoch, |draw| {
                number += 1;
                if kept.is_some_and(|kept| !kept.value(number - 1)) {
                    return;
                }
                let block = self.order.block(draw.scheduled).unwrap_or(usize::MAX);
                let (file, row) = self.rows.row_of_file(&self.dataset, block, draw.row).unwrap_or((usize::MAX, 0));
                placed.push(Placed { block, row: draw.row, place: RowPlace { file, row, round: draw.round } });
            });
        }
        placed
    }

    /// Adds a row of the same block whose images are good, and returns it.
    fn donor(&self, rendering: &mut Rendering, bad: &Placed, error: Error) -> Result<RecordBatch> {
        let Some(block) = self.rows.blocks().get(bad.block) else { return Err(error) };
        let choice = Permutation::new(block.rows, self.policy.seed, self.policy.epoch, Purpose::Replacement);
        let mut failure = error;
        for step in 0..block.rows.min(MAX_DONORS) {
            let place = (bad.block as u64).wrapping_add(bad.row).wrapping_add(step) % block.rows.max(1);
            let Some(row) = choice.at(place).filter(|row| *row != bad.row) else { continue };
            let Some((file, number)) = self.rows.row_of_file(&self.dataset, bad.block, row) else { continue };
            let donor = self.dataset.read_row(block.place, number, &self.columns)?;
            match rendering.add(&self.dataset, &donor, 0, RowPlace { file, row: number, round: bad.place.round }) {
                Ok(()) => return Ok(donor),
                Err(bad) => failure = bad.into_error(self.dataset.files().get(file).map(|file| file.path.clone()).unwrap_or_default(), number),
            }
        }
        Err(Error::NoReplacement { cause: Some(Arc::new(failure)) })
    }
}

/// `rows` with each donor in place of its row.
fn with_donors(rows: RecordBatch, donors: &[(usize, RecordBatch)]) -> Result<RecordBatch> {
    if donors.is_empty() {
        return Ok(rows);
    }
    let mut places: Vec<(usize, usize)> = (0..rows.num_rows()).map(|row| (0, row)).collect();
    for (number, (row, _)) in donors.iter().enumerate() {
        if let Some(place) = places.get_mut(*row) {
            *place = (number + 1, 0);
        }
    }
    let columns = (0..rows.num_columns()).map(|column| {
        let donated = donors.iter().map(|(_, donor)| donor.column(column).as_ref());
        let arrays: Vec<_> = std::iter::once(rows.column(column).as_ref()).chain(donated).collect();
        interleave(&arrays, &places).map_err(Error::assemble)
    });
    let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    RecordBatch::try_new_with_options(rows.schema(), columns.collect::<Result<_>>()?, &options).map_err(Error::assemble)
}

/// Batches without the rows that are not good.
fn shortened(batches: &[BatchRows], good: &BooleanBuffer) -> Vec<BatchRows> {
    let mut start = 0;
    let shortened = batches.iter().map(|batch| {
        let count = |range: std::ops::Range<usize>| good.slice(range.start, range.len()).count_set_bits();
        let (end, repeats) = (start + batch.rows, start + batch.rows - batch.repeats);
        let batch = BatchRows { rows: count(start..end), repeats: count(repeats..end), ..*batch };
        start = end;
        batch
    });
    shortened.collect()
}

/// The bits of `outer`, of which those that are set are the bits of `inner`.
fn within(outer: &BooleanBuffer, inner: &BooleanBuffer) -> BooleanBuffer {
    let mut inner = inner.iter();
    outer.iter().map(|bit| bit && inner.next() == Some(true)).collect()
}
