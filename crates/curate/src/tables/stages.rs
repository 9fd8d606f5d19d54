//! The stages of a table job, each fed by the preceding one.
//!
//! The invariant: each call of a function receives exactly the requested number of rows, except the last call of a split and if memory does not
//! suffice.

use crate::report::SplitReport;
use crate::stage::Stage;
use crate::stage::user::TableMap;
use crate::table::{batch_of, cast_checked};
use crate::{Error, Result};
use arrow_array::{BooleanArray, RecordBatch, RecordBatchOptions};
use arrow_schema::{Field, FieldRef, Schema, SchemaRef};
use arrow_select::concat::concat_batches;
use arrow_select::filter::filter_record_batch;
use shardmill_formats::table::column_type_name;
use shardmill_plan::Expression;
use shardmill_plan::schema::with_wide_keys;
use std::sync::Arc;
use std::time::Instant;

/// Receives rows that passed all stages.
pub(super) type Out<'a> = dyn FnMut(RecordBatch, &mut SplitReport) -> Result<()> + 'a;

pub(super) struct Chain<'a> {
    steps: Vec<Step<'a>>,
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
    /// Schema returned by the first call.
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
    pub(super) fn new(stages: &'a [Stage], chunk_bytes: u64) -> Self {
        let step = |(index, stage): (usize, &'a Stage)| {
            let work = match stage {
                Stage::Filter(filter) => Work::Filter(&filter.expression),
                Stage::Table(map) => Work::Map(Box::new(MapStep { map: &**map, chunk_bytes, waiting: None, paths: Vec::new(), schema: None })),
                // Rejected when the pipeline was created.
                Stage::AspectRatio(_) | Stage::Size(_) | Stage::Reencode(_) | Stage::ImageToTextRatio(_) | Stage::Images(_) => return None,
            };
            Some(Step { index: index + 1, name: name_of(stage), work })
        };
        Self { steps: stages.iter().enumerate().filter_map(step).collect() }
    }

    /// Creates the entries of all stages, so that a split without rows has them too.
    pub(super) fn announce(&self, report: &mut SplitReport) {
        for step in &self.steps {
            report.stage(step.index, step.name);
        }
    }

    /// Passes rows of the file at `path` through all stages.
    pub(super) fn push(&mut self, rows: RecordBatch, path: &str, report: &mut SplitReport, out: &mut Out<'_>) -> Result<()> {
        push(&mut self.steps, rows, path, report, out)
    }

    /// Passes on the rows that still wait for a full call.
    pub(super) fn finish(&mut self, report: &mut SplitReport, out: &mut Out<'_>) -> Result<()> {
        for place in 0..self.steps.len() {
            let Some((step, rest)) = self.steps.get_mut(place..).and_then(<[_]>::split_first_mut) else { continue };
            let Work::Map(map) = &mut step.work else { continue };
            let path = map.paths.join(", ");
            for rows in step.measured(None, &path, report)? {
                push(rest, rows, &path, report, out)?;
            }
        }
        Ok(())
    }
}

fn push(steps: &mut [Step<'_>], rows: RecordBatch, path: &str, report: &mut SplitReport, out: &mut Out<'_>) -> Result<()> {
    let Some((step, rest)) = steps.split_first_mut() else { return out(rows, report) };
    for rows in step.measured(Some(rows), path, report)? {
        push(rest, rows, path, report, out)?;
    }
    Ok(())
}

impl Step<'_> {
    /// The result of the stage for `rows`, or for waiting rows if `None`.
    fn measured(&mut self, rows: Option<RecordBatch>, path: &str, report: &mut SplitReport) -> Result<Vec<RecordBatch>> {
        let start = Instant::now();
        let (mut rows_in, mut bytes) = (0, 0);
        let mut results = Vec::new();
        match (&mut self.work, rows) {
            (Work::Filter(expression), Some(rows)) => {
                (rows_in, bytes) = (rows.num_rows(), rows.get_array_memory_size());
                let kept = filtered(&rows, expression)?;
                report.drop_rows("filter expression", (rows_in - kept.num_rows()) as u64);
                results.push(kept);
            }
            (Work::Filter(_), None) => {}
            (Work::Map(map), rows) => {
                for rows in map.calls(rows, path)? {
                    (rows_in, bytes) = (rows_in + rows.num_rows(), bytes + rows.get_array_memory_size());
                    let returned = map.call(rows)?;
                    results.extend(returned);
                }
                let rows_out: usize = results.iter().map(RecordBatch::num_rows).sum();
                report.drop_rows(self.name, rows_in.saturating_sub(rows_out) as u64);
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
            (Some(waited), Some(rows)) => concat_batches(&rows.schema(), [&waited, &rows]).map_err(Error::unfit("table", "its schema"))?,
            (Some(rows), None) | (None, Some(rows)) => rows,
            (None, None) => return Ok(Vec::new()),
        };
        let bytes = rows.get_array_memory_size() as u64;
        let Some(size) = self.map.batch_rows() else { return Ok(slices(&rows, rows_within(&rows, bytes, self.chunk_bytes))) };
        let full = rows.num_rows() - rows.num_rows() % size.max(1);
        let is_too_much = full == 0 && bytes > self.chunk_bytes.saturating_mul(2);
        let full = if is_last || is_too_much { rows.num_rows() } else { full };
        if full < rows.num_rows() {
            self.waiting = Some(rows.slice(full, rows.num_rows() - full));
        }
        Ok(if full > 0 { vec![rows.slice(0, full)] } else { Vec::new() })
    }

    fn call(&mut self, rows: RecordBatch) -> Result<Vec<RecordBatch>> {
        let path = || self.paths.join(", ");
        let results = self.map.map_rows(rows).map_err(|source| Error::Stage { stage: self.map.name().to_owned(), path: path(), source })?;
        let mut checked = Vec::with_capacity(results.len());
        for rows in results {
            let rows = in_wide_keys(rows)?;
            let schema = self.schema.get_or_insert_with(|| rows.schema());
            let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
            let same = if has_fields_of(schema, rows.schema_ref()) {
                RecordBatch::try_new_with_options(Arc::clone(schema), rows.columns().to_vec(), &options).map_err(|error| error.to_string())
            } else {
                Err(format!("{}; before: {}", described(rows.schema_ref()), described(schema)))
            };
            let problem = |problem| Error::StageSchema { stage: self.map.name().to_owned(), path: self.paths.join(", "), problem };
            checked.push(same.map_err(problem)?);
        }
        // The next call starts with the waiting rows, which come from the last file.
        let last = self.paths.pop();
        self.paths.clear();
        self.paths.extend(last);
        Ok(checked)
    }
}

/// The same rows, with dictionaries that can index the values of all calls together.
fn in_wide_keys(rows: RecordBatch) -> Result<RecordBatch> {
    let wide = |field: &FieldRef| Arc::new(Field::clone(field).with_data_type(with_wide_keys(field.data_type())));
    let fields: Vec<FieldRef> = rows.schema_ref().fields().iter().map(wide).collect();
    if fields.as_slice() == rows.schema_ref().fields().as_ref() {
        return Ok(rows);
    }
    let columns = fields.iter().zip(rows.columns()).map(|(field, column)| cast_checked(field.name(), column, field.data_type()));
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let schema = Arc::new(Schema::new_with_metadata(fields, rows.schema_ref().metadata().clone()));
    batch_of(schema, columns, rows.num_rows()).map_err(Error::unfit("table", "its schema"))
}

fn has_fields_of(schema: &Schema, other: &Schema) -> bool {
    let is_same = |(one, other): (&FieldRef, &FieldRef)| one.name() == other.name() && one.data_type().equals_datatype(other.data_type());
    schema.fields().len() == other.fields().len() && schema.fields().iter().zip(other.fields()).all(is_same)
}

fn described(schema: &Schema) -> String {
    schema.fields().iter().map(|field| format!("{}: {}", field.name(), column_type_name(field))).collect::<Vec<_>>().join(", ")
}

fn rows_within(rows: &RecordBatch, bytes: u64, limit: u64) -> usize {
    let share = u128::from(limit) * rows.num_rows() as u128 / u128::from(bytes.max(1));
    usize::try_from(share).unwrap_or(usize::MAX).max(1)
}

fn slices(rows: &RecordBatch, size: usize) -> Vec<RecordBatch> {
    (0..rows.num_rows()).step_by(size).map(|start| rows.slice(start, size.min(rows.num_rows() - start))).collect()
}
