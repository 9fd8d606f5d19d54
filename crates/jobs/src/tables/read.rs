//! Reads the rows of a split that are not done.
//!
//! The invariant: a column other than an id is read for a block only if one of its rows has to be
//! processed, and then for such rows only.

use super::columns::{Layout, check_fits, selected, shown};
use super::ids::{DONE, IdPolicy, Place};
use super::job::TableJob;
use crate::report::SplitReport;
use crate::{Error, Result};
use arrow_array::{Array, BooleanArray, RecordBatch};
use arrow_buffer::BooleanBuffer;
use arrow_schema::SchemaRef;
use arrow_select::filter::filter_record_batch;
use shardmill_formats::table::{Block, Statistics};
use shardmill_load::{Error as LoadError, OpenFile};
use shardmill_plan::InputFile;
use shardmill_plan::schema::FileColumns;
use shardmill_resume::DoneIds;
use shardmill_storage::{AnyStore, Error as StorageError, RangeRead, Store, whole_if_small};
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

pub(super) const SOURCE_STAGE: &str = "table_reader";

/// Maximal number of rows of several blocks that are decoded together.
const MAX_RUN_ROWS: u64 = 1 << 18;

/// Receives delivered rows, and their ids.
pub(super) type Emit<'a> =
    dyn FnMut(RecordBatch, &RecordBatch, &mut SplitReport) -> Result<()> + 'a;

pub(super) struct Reader<'a> {
    job: &'a TableJob<'a>,
    layout: Layout,
    rows_out: u64,
}

/// An open file of the split.
struct Source<'a> {
    file: OpenFile,
    layout: &'a Layout,
    /// Statistics of the only id column, when ids are looked up.
    statistics: Option<Statistics>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(job: &'a TableJob<'a>) -> Result<Self> {
        Ok(Self { job, layout: Layout::new(job.reader, job.options, job.ids)?, rows_out: 0 })
    }

    /// The columns that stages receive.
    pub(super) fn delivered(&self) -> &SchemaRef {
        &self.layout.delivered
    }

    pub(super) fn rows_out(&self) -> u64 {
        self.rows_out
    }

    /// Emits the rows of one file, in its order.
    pub(super) fn read(
        &mut self,
        file: &InputFile,
        report: &mut SplitReport,
        emit: &mut Emit<'_>,
    ) -> Result<()> {
        let opened = AnyStore.open(&file.path)?;
        let identity = opened.identity();
        if identity.size != file.size
            || i64::try_from(identity.modified_ns).unwrap_or(i64::MAX) != file.modified_ns
        {
            return Err(StorageError::Changed { path: file.path.clone() }.into());
        }
        self.read_object(file, whole_if_small(Arc::clone(&opened))?, report, emit)?;
        // Checked after the read: rows read before a concurrent write are valid.
        if opened.is_unchanged() {
            Ok(())
        } else {
            Err(StorageError::Changed { path: file.path.clone() }.into())
        }
    }

    pub(super) fn read_object(
        &mut self,
        input: &InputFile,
        object: Arc<dyn RangeRead>,
        report: &mut SplitReport,
        emit: &mut Emit<'_>,
    ) -> Result<()> {
        let file = self.job.reader.open(object)?;
        let all = file.table.blocks();
        if all.iter().all(|block| block.rows == 0) {
            report.input_bytes += input.size;
            return Ok(());
        }
        let blocks =
            input.part.map_or(0..all.len(), |part| part.first_block..part.end_block.min(all.len()));
        let within = all.get(blocks.clone()).unwrap_or_default();
        report.input_bytes += if input.part.is_some() {
            within.iter().map(|block| block.stored_bytes).sum()
        } else {
            input.size
        };
        let runs = runs(all, blocks, self.job.chunk_bytes);
        let (job, layout, rows_out) = (self.job, &self.layout, &mut self.rows_out);
        // A file that was planned in an earlier version may have other columns now.
        let (agreed, declared) = (job.reader.schema(), file.table.declared_schema());
        let schema = match &job.options.columns {
            Some(_) => selected(declared, |name| agreed.index_of(name).is_ok()),
            None => shown(file.table.as_ref()),
        };
        let schema = job.choices.source.retyped(&schema);
        check_fits(
            agreed,
            &FileColumns { schema: &schema, ..FileColumns::of(file.table.as_ref()) },
        )?;
        let source = Source::new(file, layout, job)?;
        for run in runs {
            job.cancel.check()?;
            report.ledger.input.rows += source.rows(&run) as u64;
            source.read_run(run, job.ids, report, &mut |rows, report| {
                let rows = source.filtered(rows, report)?;
                if rows.num_rows() > 0 {
                    *rows_out += rows.num_rows() as u64;
                    emit(layout.delivered(&rows)?, &layout.ids(&rows)?, report)?;
                }
                Ok(())
            })?;
        }
        Ok(())
    }
}

/// Receives all columns of rows that have to be processed.
type Deliver<'a> = dyn FnMut(RecordBatch, &mut SplitReport) -> Result<()> + 'a;

impl<'a> Source<'a> {
    fn new(file: OpenFile, layout: &'a Layout, job: &TableJob<'_>) -> Result<Self> {
        let ids = job.ids;
        let columns = || layout.ids.iter().filter_map(|place| layout.columns.get(*place));
        for (column, name) in columns().zip(&ids.columns) {
            if file.lacks(*column) {
                return Err(
                    LoadError::MissingRequired { column: name.clone(), path: file.path }.into()
                );
            }
        }
        let statistics = match layout.ids.as_slice() {
            [only] if ids.done.is_some() => layout
                .columns
                .get(*only)
                .and_then(|column| file.statistics(*column, job.reader.columns())),
            _ => None,
        };
        Ok(Self { file, layout, statistics })
    }

    fn read_run(
        &self,
        run: Range<usize>,
        ids: &IdPolicy,
        report: &mut SplitReport,
        deliver: &mut Deliver<'_>,
    ) -> Result<()> {
        let (file, layout) = (&self.file, self.layout);
        let place = Place { path: &file.path, first_row: self.first_row(&run) };
        let Some(done) = ids.done.as_ref().filter(|done| !self.is_untouched(done.as_ref(), &run))
        else {
            let rows = file.read_run(run, &layout.columns, Arc::clone(&layout.fields))?;
            ids.check_nulls(layout.ids(&rows)?.columns(), place)?;
            return deliver(rows, report);
        };
        let (columns, fields) = layout.select(&layout.ids);
        let found = file.read_run(run.clone(), &columns, fields)?;
        let start = Instant::now();
        let pending = ids.pending(done.as_ref(), found.columns(), place)?;
        let stage = report.stage(0, SOURCE_STAGE);
        stage.custom("ids_seconds", start.elapsed().as_secs_f64());
        stage.custom("ids_looked_up", u32::try_from(found.num_rows()).map_or(f64::MAX, f64::from));
        let (columns, fields) = layout.select(&layout.others());
        if columns.is_empty() {
            let Some(pending) = &pending else {
                return deliver(layout.joined(&found, None)?, report);
            };
            report.ledger.drop_rows(DONE, (found.num_rows() - pending.count_set_bits()) as u64);
            return deliver(layout.joined(&self.kept(&found, pending)?, None)?, report);
        }
        let Some(pending) = pending else {
            let others = file.read_run(run, &columns, fields)?;
            return deliver(layout.joined(&found, Some(&others))?, report);
        };
        report.ledger.drop_rows(DONE, (found.num_rows() - pending.count_set_bits()) as u64);
        let mut from = 0;
        // Other columns are read for pending rows of one block at a time, which bounds the memory.
        for block in run {
            let rows = self.rows(&(block..block + 1));
            let (selection, found) = (pending.slice(from, rows), found.slice(from, rows));
            from += rows;
            let (found, selection) = match selection.count_set_bits() {
                0 => continue,
                count if count == rows => (found, None),
                _ => (self.kept(&found, &selection)?, Some(&selection)),
            };
            let others = file.read(block, &columns, selection, Arc::clone(&fields))?;
            deliver(layout.joined(&found, Some(&others))?, report)?;
        }
        Ok(())
    }

    /// Whether bounds alone show that no id of these blocks is done.
    fn is_untouched(&self, done: &dyn DoneIds, run: &Range<usize>) -> bool {
        let Some(statistics) = &self.statistics else { return false };
        run.clone().all(|block| {
            let bounds = [&statistics.min, &statistics.max].map(|bounds| {
                (block < bounds.len() && bounds.is_valid(block)).then(|| bounds.slice(block, 1))
            });
            match bounds {
                [Some(min), Some(max)] => !done.may_contain(&min, &max),
                _ => false,
            }
        })
    }

    fn filtered(&self, rows: RecordBatch, report: &mut SplitReport) -> Result<RecordBatch> {
        let Some(predicate) = &self.layout.filter else { return Ok(rows) };
        let kept = self.kept(&rows, &predicate.selection(&rows)?)?;
        report.ledger.drop_rows("source filter", (rows.num_rows() - kept.num_rows()) as u64);
        Ok(kept)
    }

    fn kept(&self, rows: &RecordBatch, selection: &BooleanBuffer) -> Result<RecordBatch> {
        let failed = |source| Error::File {
            path: self.file.path.clone(),
            source: Box::new(Error::unfit("table", "its schema")(source)),
        };
        filter_record_batch(rows, &BooleanArray::new(selection.clone(), None)).map_err(failed)
    }

    fn rows(&self, run: &Range<usize>) -> usize {
        let rows: u64 = self
            .file
            .table
            .blocks()
            .get(run.clone())
            .unwrap_or_default()
            .iter()
            .map(|block| block.rows)
            .sum();
        usize::try_from(rows).unwrap_or(usize::MAX)
    }

    fn first_row(&self, run: &Range<usize>) -> u64 {
        self.file.table.blocks().iter().take(run.start).map(|block| block.rows).sum()
    }
}

/// Consecutive blocks that fit into memory together.
fn runs(all: &[Block], blocks: Range<usize>, limit: u64) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    let (mut bytes, mut rows) = (0u64, 0u64);
    for (block, about) in all.iter().enumerate().take(blocks.end).skip(blocks.start) {
        (bytes, rows) =
            (bytes.saturating_add(about.decoded_bytes), rows.saturating_add(about.rows));
        match runs.last_mut() {
            Some(run) if bytes <= limit && rows <= MAX_RUN_ROWS => run.end = block + 1,
            _ => {
                (bytes, rows) = (about.decoded_bytes, about.rows);
                runs.push(block..block + 1);
            }
        }
    }
    runs
}
