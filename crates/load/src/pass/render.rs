//! Renders the images of an assembled superbatch, and handles rows whose images are bad.
//!
//! A bad image is found when its row is delivered, not when its block is read. The invariant: which
//! row replaces it follows from the data, the seed and the epoch, as for rows that cannot be read.

use super::Work;
use super::bad_rows::{BadRow, OnBadRows, is_of_data};
use super::delivered::Delivered;
use super::metrics::Stage;
use super::superbatches::{BatchRows, SuperbatchPlan};
use crate::images::{Rendering, RowPlace, Seeds};
use crate::packing::Contents;
use crate::{Error, Result};
use arrow_array::{BooleanArray, RecordBatch, RecordBatchOptions};
use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder};
use arrow_select::filter::filter_record_batch;
use arrow_select::interleave::interleave;
use shardmill_engine::{Error as EngineError, has_idle_thread, spread};
use shardmill_plan::order::{Permutation, Purpose};
use std::iter::repeat_n;
use std::sync::{Arc, Mutex};

/// Number of rows of a block that are tried in place of one with a bad image.
const MAX_DONORS: u64 = 64;

/// Number of other blocks that are tried, and of rows in each of them,
/// if the block has no good row.
const MAX_DONOR_BLOCKS: u64 = 64;
const MAX_DONORS_OF_OTHERS: u64 = 4;

/// Images that a thread renders before another one may take over: a job is short beside a batch,
/// and long beside its start.
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
        // Images of packs are rendered when these are assembled.
        if self.packs.as_ref().is_some_and(|packs| matches!(packs.contents, Contents::Tokens(_))) {
            return Ok(delivered);
        }
        let count = delivered.rows.num_rows();
        let rendering = Rendering::new(
            &self.dataset,
            &self.columns,
            &delivered.rows,
            self.seeds(),
            self.memory.as_deref(),
        )?;
        let Some(rendering) = rendering else { return Ok(delivered) };
        let Delivered { rows, batches, kept, mut replaced, mut bad_rows } = delivered;
        let mut all = Rendered {
            rendering,
            good: BooleanBufferBuilder::new(count),
            donors: Vec::new(),
            bad: Vec::new(),
        };
        let placed = self.placed(plan, kept.as_ref());
        if has_idle_thread() && count > IMAGES_OF_A_JOB {
            self.render_on_idle_threads(&rows, placed, &mut all)?;
        } else {
            self.render_rows(&rows, &placed, 0, &mut all)?;
        }
        let Rendered { rendering, mut good, donors, bad } = all;
        self.metrics.add_images(rendering.decoded());
        let batch_of: Vec<usize> = batches
            .iter()
            .enumerate()
            .flat_map(|(number, batch)| repeat_n(number, batch.rows))
            .collect();
        // A row in whose place another one was read is listed already.
        let bad = bad.into_iter().filter(|(row, _)| !replaced.contains(row));
        bad_rows
            .extend(bad.map(|(row, bad)| (batch_of.get(row).copied().unwrap_or_default(), bad)));
        replaced.extend(donors.iter().map(|(row, _)| *row));
        let (good, rows) = (good.finish(), with_donors(rows, &donors)?);
        if good.count_set_bits() == count {
            return Ok(Delivered {
                rows: rendering.finish(rows)?,
                batches,
                kept,
                replaced,
                bad_rows,
            });
        }
        let rows = filter_record_batch(&rows, &BooleanArray::new(good.clone(), None))
            .map_err(Error::assemble)?;
        let kept = match kept {
            None => good.clone(),
            Some(kept) => within(&kept, &good),
        };
        Ok(Delivered {
            rows: rendering.finish(rows)?,
            batches: shortened(&batches, &good),
            kept: Some(kept),
            replaced,
            bad_rows,
        })
    }

    /// Renders `placed`, which are rows of `rows` from `first` on.
    fn render_rows(
        &self,
        rows: &RecordBatch,
        placed: &[Placed],
        first: usize,
        out: &mut Rendered,
    ) -> Result<()> {
        for (row, placed) in (first..).zip(placed) {
            self.cancel.check()?;
            let place = || {
                let place = self.rows.path_and_row(&self.dataset, placed.block, placed.row);
                place.unwrap_or_default()
            };
            let bad = match out.rendering.add(&self.dataset, rows, row, placed.place) {
                Ok(filled) => {
                    out.bad.extend(filled.map(|cause| {
                        let (path, number) = place();
                        (row, BadRow { path, row: number, cause: cause.into() })
                    }));
                    out.good.append(true);
                    continue;
                }
                Err(bad) => bad,
            };
            let (path, number) = place();
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

    /// The same in jobs, some of them on threads that would wait.
    fn render_on_idle_threads(
        &self,
        rows: &RecordBatch,
        placed: Vec<Placed>,
        out: &mut Rendered,
    ) -> Result<()> {
        let starts = (0..placed.len()).step_by(IMAGES_OF_A_JOB);
        let jobs = starts.map(|first| {
            let len = IMAGES_OF_A_JOB.min(placed.len() - first);
            let rendering = out.rendering.split(&rows.slice(first, len));
            let good = BooleanBufferBuilder::new(len);
            Mutex::new(Some(Rendered { rendering, good, donors: Vec::new(), bad: Vec::new() }))
        });
        let jobs: Vec<_> = jobs.collect();
        let (work, rows, count) = (self.clone(), rows.clone(), jobs.len());
        let job = move |number: usize| -> Result<Rendered> {
            let part = jobs.get(number).and_then(|part| part.lock().ok()?.take());
            let mut part = part.ok_or_else(|| Error::from(EngineError::Cancelled))?;
            let first = number * IMAGES_OF_A_JOB;
            let last = placed.len().min(first + IMAGES_OF_A_JOB);
            work.render_rows(&rows, placed.get(first..last).unwrap_or_default(), first, &mut part)?;
            Ok(part)
        };
        self.render_in_jobs(count, job, |mut part: Rendered| {
            out.rendering.append(part.rendering);
            out.good.append_buffer(&part.good.finish());
            out.donors.append(&mut part.donors);
            out.bad.append(&mut part.bad);
        })
    }

    /// Calls `render` for each job, also on threads that would wait, and takes what it returned in
    /// order, up to the first error.
    pub(super) fn render_in_jobs<T: Send + 'static>(
        &self,
        jobs: usize,
        render: impl Fn(usize) -> Result<T> + Send + Sync + 'static,
        mut take: impl FnMut(T),
    ) -> Result<()> {
        let (metrics, owner) = (Arc::clone(&self.metrics), std::thread::current().id());
        let job = move |number: usize| {
            if std::thread::current().id() == owner {
                render(number)
            } else {
                metrics.elsewhere(Stage::Render, || render(number))
            }
        };
        let mut failure = None;
        spread(jobs, job, |made: Result<T>| match made {
            Ok(made) if failure.is_none() => take(made),
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
                let (file, row) = self
                    .rows
                    .row_of_file(&self.dataset, block, draw.row)
                    .unwrap_or((usize::MAX, 0));
                placed.push(Placed {
                    block,
                    row: draw.row,
                    place: RowPlace { file, row, round: draw.round },
                });
            });
        }
        placed
    }

    /// Adds a row whose images are good, and returns it: of the same block,
    /// otherwise of another one.
    fn donor(&self, rendering: &mut Rendering, bad: &Placed, error: Error) -> Result<RecordBatch> {
        let mut failure = error;
        let blocks = self.rows.blocks().len() as u64;
        let choice =
            Permutation::new(blocks, self.policy.seed, self.policy.epoch, Purpose::Replacement);
        let others = (1..blocks.min(MAX_DONOR_BLOCKS + 1))
            .filter_map(|step| choice.at((bad.block as u64).wrapping_add(step) % blocks));
        let others = others
            .filter_map(|other| usize::try_from(other).ok())
            .filter(|other| *other != bad.block);
        for (block, tries) in std::iter::once((bad.block, MAX_DONORS))
            .chain(others.map(|other| (other, MAX_DONORS_OF_OTHERS)))
        {
            if let Some(donor) = self.donor_of(block, tries, rendering, bad, &mut failure)? {
                return Ok(donor);
            }
        }
        Err(Error::NoReplacement { cause: Some(Arc::new(failure)) })
    }

    /// Adds a row of this block whose images are good, if it is among the first that are tried.
    fn donor_of(
        &self,
        number: usize,
        tries: u64,
        rendering: &mut Rendering,
        bad: &Placed,
        failure: &mut Error,
    ) -> Result<Option<RecordBatch>> {
        let Some(block) = self.rows.blocks().get(number) else { return Ok(None) };
        let choice =
            Permutation::new(block.rows, self.policy.seed, self.policy.epoch, Purpose::Replacement);
        for step in 0..block.rows.min(tries) {
            let place =
                (bad.block as u64).wrapping_add(bad.row).wrapping_add(step) % block.rows.max(1);
            let Some(row) = choice.at(place).filter(|row| (number, *row) != (bad.block, bad.row))
            else {
                continue;
            };
            let candidate = (number, row, bad.place.round);
            if self.bad_rows.is_bad_donor(&candidate) {
                continue;
            }
            let Some((file, row)) = self.rows.row_of_file(&self.dataset, number, row) else {
                continue;
            };
            self.cancel.check()?;
            let added = self.dataset.read_row(block.place, row, &self.columns).and_then(|donor| {
                let added = rendering.add(
                    &self.dataset,
                    &donor,
                    0,
                    RowPlace { file, row, round: bad.place.round },
                );
                let path = || {
                    self.dataset.files().get(file).map(|file| file.path.clone()).unwrap_or_default()
                };
                added.map(|_filled| donor).map_err(|bad| bad.into_error(path(), row))
            });
            match added {
                Ok(donor) => return Ok(Some(donor)),
                Err(error) if is_of_data(&error) => *failure = error,
                // A store that does not respond says nothing about the row, and another donor would
                // depend on it.
                Err(error) => return Err(error),
            }
            self.bad_rows.add_bad_donor(candidate);
        }
        Ok(None)
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
    RecordBatch::try_new_with_options(rows.schema(), columns.collect::<Result<_>>()?, &options)
        .map_err(Error::assemble)
}

/// Batches without the rows that are not good.
fn shortened(batches: &[BatchRows], good: &BooleanBuffer) -> Vec<BatchRows> {
    let mut start = 0;
    let shortened = batches.iter().map(|batch| {
        let count =
            |range: std::ops::Range<usize>| good.slice(range.start, range.len()).count_set_bits();
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
