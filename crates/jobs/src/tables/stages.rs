//! The stages of a table job, each fed by the preceding one.
//!
//! The invariant: each call of a function receives exactly the requested number of rows, except the
//! last call of a split and if memory does not suffice.

use super::job::TableJob;
use crate::report::SplitReport;
use crate::results::Results;
use crate::stage::user::TableMap;
use crate::stage::{Stage, results_of};
use crate::{Error, Result};
use arrow_array::{BooleanArray, RecordBatch};
use arrow_schema::SchemaRef;
use arrow_select::concat::concat_batches;
use arrow_select::filter::filter_record_batch;
use shardmill_documents::Error as DocumentError;
use shardmill_documents::table::in_schema;
use shardmill_plan::Expression;
use std::time::Instant;

/// Receives rows that passed all stages.
pub(super) type Out<'a> = dyn FnMut(RecordBatch, &mut SplitReport) -> Result<()> + 'a;

pub(super) struct Chain<'a> {
    steps: Vec<Step<'a>>,
    /// What the user declares for the output, if no function decides its columns.
    columns: Option<SchemaRef>,
}

struct Step<'a> {
    /// Index among the stages of the report.
    index: usize,
    name: &'a str,
    work: Work<'a>,
}

enum Work<'a> {
    Filter(&'a Expression),
    Map(Box<MapStep<'a>>),
}

struct MapStep<'a> {
    map: &'a dyn TableMap,
    chunk_bytes: u64,
    /// Rows that do not fill a call yet.
    waiting: Option<RecordBatch>,
    /// The source files of the rows of the next call.
    paths: Vec<String>,
    results: Results<'a>,
    /// That of all results.
    schema: Option<SchemaRef>,
}

/// The name of a stage in reports.
fn name_of(stage: &Stage) -> &str {
    match stage {
        Stage::Filter(_) => "filter",
        other => other.name(),
    }
}

impl<'a> Chain<'a> {
    /// `delivered` are the columns of the source.
    pub(super) fn new(
        job: &'a TableJob<'a>,
        delivered: &SchemaRef,
        report: &mut SplitReport,
    ) -> Self {
        let choice = &job.choices.sink;
        let step = |(index, stage): (usize, &'a Stage)| {
            let work = match stage {
                Stage::Filter(filter) => Work::Filter(&filter.expression),
                Stage::Table(map) => {
                    let results = results_of(job.stages, index, job.turn, choice);
                    let chunk_bytes = job.chunk_bytes;
                    Work::Map(Box::new(MapStep {
                        map: &**map,
                        chunk_bytes,
                        waiting: None,
                        paths: Vec::new(),
                        results,
                        schema: None,
                    }))
                }
                // Rejected when the pipeline was created.
                Stage::AspectRatio(_)
                | Stage::Size(_)
                | Stage::Reencode(_)
                | Stage::ImageToTextRatio(_)
                | Stage::Images(_) => return None,
            };
            Some(Step { index: index + 1, name: name_of(stage), work })
        };
        let steps: Vec<Step<'_>> = job.stages.iter().enumerate().filter_map(step).collect();
        let has_functions = steps.iter().any(|step| matches!(step.work, Work::Map(_)));
        let columns = (!has_functions && choice.is_made())
            .then(|| choice.apply_counted(delivered, &mut report.ledger));
        Self { steps, columns }
    }

    /// Creates the entries of all stages, so that a split without rows has them too.
    pub(super) fn announce(&self, report: &mut SplitReport) {
        for step in &self.steps {
            report.stage(step.index, step.name);
        }
    }

    /// Passes rows of the file at `path` through all stages.
    pub(super) fn push(
        &mut self,
        rows: RecordBatch,
        path: &str,
        report: &mut SplitReport,
        out: &mut Out<'_>,
    ) -> Result<()> {
        let Some(columns) = &self.columns else {
            return push(&mut self.steps, rows, path, report, out);
        };
        push(&mut self.steps, rows, path, report, &mut |rows, report| {
            let failed =
                |source| DocumentError::File { path: path.to_owned(), source: Box::new(source) };
            out(in_schema(&rows, columns).map_err(failed)?, report)
        })
    }

    /// Passes on the rows that still wait for a full call.
    pub(super) fn finish(&mut self, report: &mut SplitReport, out: &mut Out<'_>) -> Result<()> {
        for place in 0..self.steps.len() {
            let Some((step, rest)) = self.steps.get_mut(place..).and_then(<[_]>::split_first_mut)
            else {
                continue;
            };
            let Work::Map(map) = &mut step.work else { continue };
            let path = map.paths.join(", ");
            for rows in step.measured(None, &path, report)? {
                push(rest, rows, &path, report, out)?;
            }
        }
        Ok(())
    }
}

fn push(
    steps: &mut [Step<'_>],
    rows: RecordBatch,
    path: &str,
    report: &mut SplitReport,
    out: &mut Out<'_>,
) -> Result<()> {
    let Some((step, rest)) = steps.split_first_mut() else { return out(rows, report) };
    for rows in step.measured(Some(rows), path, report)? {
        push(rest, rows, path, report, out)?;
    }
    Ok(())
}

impl Step<'_> {
    /// The result of the stage for `rows`, or for waiting rows if `None`.
    fn measured(
        &mut self,
        rows: Option<RecordBatch>,
        path: &str,
        report: &mut SplitReport,
    ) -> Result<Vec<RecordBatch>> {
        let start = Instant::now();
        let (mut rows_in, mut bytes) = (0, 0);
        let mut results = Vec::new();
        match (&mut self.work, rows) {
            (Work::Filter(expression), Some(rows)) => {
                (rows_in, bytes) = (rows.num_rows(), rows.get_array_memory_size());
                let kept = filtered(&rows, expression)?;
                report.ledger.drop_rows("filter expression", (rows_in - kept.num_rows()) as u64);
                results.push(kept);
            }
            (Work::Filter(_), None) => {}
            (Work::Map(map), rows) => {
                for rows in map.calls(rows, path)? {
                    (rows_in, bytes) =
                        (rows_in + rows.num_rows(), bytes + rows.get_array_memory_size());
                    let returned = map.call(rows, report)?;
                    results.extend(returned);
                }
                let rows_out: usize = results.iter().map(RecordBatch::num_rows).sum();
                report.ledger.drop_rows(self.name, rows_in.saturating_sub(rows_out) as u64);
                report.add_rows(self.name, rows_out.saturating_sub(rows_in) as u64);
            }
        }
        results.retain(|rows| rows.num_rows() > 0);
        let stage = report.stage(self.index, self.name);
        stage.spend(start.elapsed());
        stage.rows_in += rows_in as u64;
        stage.items += rows_in as u64;
        stage.rows_out += results.iter().map(|rows| rows.num_rows() as u64).sum::<u64>();
        stage.input_bytes += bytes as u64;
        Ok(results)
    }
}

fn filtered(rows: &RecordBatch, expression: &Expression) -> Result<RecordBatch> {
    let keep = BooleanArray::new(expression.selection(rows)?, None);
    filter_record_batch(rows, &keep).map_err(Error::unfit("table", "its schema"))
}

impl MapStep<'_> {
    /// The rows of the next calls: all waiting rows at the end.
    fn calls(&mut self, rows: Option<RecordBatch>, path: &str) -> Result<Vec<RecordBatch>> {
        let is_last = rows.is_none();
        if !is_last && self.paths.last().is_none_or(|last| last != path) {
            self.paths.push(path.to_owned());
        }
        let waited = self.waiting.take();
        let rows = match (waited, rows) {
            (Some(waited), Some(rows)) => concat_batches(&rows.schema(), [&waited, &rows])
                .map_err(Error::unfit("table", "its schema"))?,
            (Some(rows), None) | (None, Some(rows)) => rows,
            (None, None) => return Ok(Vec::new()),
        };
        let bytes = rows.get_array_memory_size() as u64;
        let Some(size) = self.map.batch_rows() else {
            return Ok(slices(&rows, rows_within(&rows, bytes, self.chunk_bytes)));
        };
        let full = rows.num_rows() - rows.num_rows() % size.max(1);
        let is_too_much = full == 0 && bytes > self.chunk_bytes.saturating_mul(2);
        let full = if is_last || is_too_much { rows.num_rows() } else { full };
        if full < rows.num_rows() {
            self.waiting = Some(rows.slice(full, rows.num_rows() - full));
        }
        Ok(if full > 0 { vec![rows.slice(0, full)] } else { Vec::new() })
    }

    fn call(&mut self, rows: RecordBatch, report: &mut SplitReport) -> Result<Vec<RecordBatch>> {
        let given = rows.schema();
        let failed = |source| Error::Stage {
            stage: self.map.name().to_owned(),
            path: self.paths.join(", "),
            source,
        };
        let mut results = self.map.map_rows(rows).map_err(failed)?;
        results.retain(|rows| rows.num_rows() > 0);
        if let (None, Some(first)) = (&self.schema, results.first()) {
            self.schema = Some(self.results.decided(
                first.schema_ref(),
                &given,
                &self.paths.join(", "),
                report,
            )?);
        }
        let converted = match &self.schema {
            Some(schema) => {
                let path = self.paths.join(", ");
                results
                    .iter()
                    .map(|rows| self.results.converted(rows, schema, &path))
                    .collect::<Result<_>>()?
            }
            None => Vec::new(),
        };
        // The next call starts with the waiting rows, which come from the last file.
        let last = self.paths.pop();
        self.paths.clear();
        self.paths.extend(last);
        Ok(converted)
    }
}

fn rows_within(rows: &RecordBatch, bytes: u64, limit: u64) -> usize {
    let share = u128::from(limit) * rows.num_rows() as u128 / u128::from(bytes.max(1));
    usize::try_from(share).unwrap_or(usize::MAX).max(1)
}

fn slices(rows: &RecordBatch, size: usize) -> Vec<RecordBatch> {
    (0..rows.num_rows())
        .step_by(size)
        .map(|start| rows.slice(start, size.min(rows.num_rows() - start)))
        .collect()
}
