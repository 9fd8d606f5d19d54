//! Reads the rows of a split that are not done.
//!
//! The invariant: a column other than an id is read for a block only if one of its rows has to be processed, and then for such rows only.

use super::columns::{Layout, OwnColumns};
use super::ids::Place;
use super::{SOURCE_STAGE, TableJob};
use crate::checkpoint::DONE;
use crate::report::SplitReport;
use crate::{Error, Result};
use arrow_array::{ArrayRef, BooleanArray, RecordBatch};
use arrow_buffer::BooleanBuffer;
use arrow_select::filter::{filter, filter_record_batch};
use shardmill_formats::table::{Block, Statistics, TableFile};
use shardmill_load::FileOpener;
use shardmill_plan::InputFile;
use shardmill_storage::{Error as StorageError, RangeRead, store_of, whole_if_small};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

/// Maximal number of rows of several blocks that are decoded together.
const MAX_RUN_ROWS: u64 = 1 << 18;

/// Smaller text files are opened again when they are read.
const SMALL_BYTES: u64 = 1 << 20;

/// Receives delivered rows, and their ids.
pub(super) type Emit<'a> = dyn FnMut(RecordBatch, &RecordBatch, &mut SplitReport) -> Result<()> + 'a;

pub(super) struct Reader<'a> {
    job: &'a TableJob<'a>,
    layout: Option<Arc<Layout>>,
    rows_out: u64,
    /// Of text whose types were only certain after a look at all files of the split.
    opener: Option<FileOpener>,
    opened: HashMap<String, Arc<dyn TableFile>>,
}

/// An open file of the split.
struct Source {
    table: Arc<dyn TableFile>,
    layout: Arc<Layout>,
    own: OwnColumns,
    /// Statistics of the only id column, when ids are looked up.
    statistics: Option<Statistics>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(job: &'a TableJob<'a>) -> Self {
        Self { job, layout: None, rows_out: 0, opener: None, opened: HashMap::new() }
    }

    /// Opens text files before the first is read, because a late value in any of them may change inferred types.
    pub(super) fn settle_types(&mut self, files: &[InputFile]) -> Result<()> {
        let Some(opener) = self.job.opener.for_uncertain_types() else { return Ok(()) };
        for file in files {
            self.job.cancel.check()?;
            let object = store_of(&file.path)?.open(&file.path)?;
            let is_small = object.size() <= SMALL_BYTES;
            let table = opener.open(object)?;
            // Many small files would need as many descriptors.
            if !is_small {
                self.opened.insert(file.path.clone(), table);
            }
        }
        self.opener = opener.with_late_types();
        if self.opener.is_some() {
            self.opened.clear();
        }
        Ok(())
    }

    pub(super) fn rows_out(&self) -> u64 {
        self.rows_out
    }

    /// Emits the rows of one file, in its order.
    pub(super) fn read(&mut self, file: &InputFile, report: &mut SplitReport, emit: &mut Emit<'_>) -> Result<()> {
        let opened = store_of(&file.path)?.open(&file.path)?;
        let identity = opened.identity();
        if identity.size != file.size || i64::try_from(identity.modified_ns).unwrap_or(i64::MAX) != file.modified_ns {
            return Err(StorageError::Changed { path: file.path.clone() }.into());
        }
        self.read_object(file, whole_if_small(Arc::clone(&opened))?, report, emit)?;
        // Checked after the read: rows read before a concurrent write are valid.
        if opened.is_unchanged() { Ok(()) } else { Err(StorageError::Changed { path: file.path.clone() }.into()) }
    }

    pub(super) fn read_object(&mut self, file: &InputFile, object: Arc<dyn RangeRead>, report: &mut SplitReport, emit: &mut Emit<'_>) -> Result<()> {
        let table = match self.opened.remove(&file.path) {
            Some(table) => table,
            None => self.opener.as_ref().unwrap_or(self.job.opener).open(object)?,
        };
        if table.blocks().iter().all(|block| block.rows == 0) {
            // A file without rows may have arbitrary types, and must not determine those of others.
            report.input_bytes += file.size;
            return Ok(());
        }
        let source = self.source(table)?;
        let all = source.table.blocks();
        let blocks = file.part.map_or(0..all.len(), |part| part.first_block..part.end_block.min(all.len()));
        let mut first_row = all.iter().take(blocks.start).map(|block| block.rows).sum();
        let within = all.get(blocks.clone()).unwrap_or_default();
        report.input_bytes += if file.part.is_some() { within.iter().map(|block| block.stored_bytes).sum() } else { file.size };
        for run in runs(all, blocks, self.job.chunk_bytes) {
            self.job.cancel.check()?;
            let rows: u64 = all.get(run.clone()).unwrap_or_default().iter().map(|block| block.rows).sum();
            report.input.rows += rows;
            self.read_run(&source, run, first_row, report, emit)?;
            first_row += rows;
        }
        Ok(())
    }

    fn source(&mut self, table: Arc<dyn TableFile>) -> Result<Source> {
        let layout = match &self.layout {
            Some(layout) => Arc::clone(layout),
            None => {
                let layout = Arc::new(Layout::new(table.as_ref(), self.job.options, self.job.ids)?);
                Arc::clone(self.layout.insert(layout))
            }
        };
        let own = layout.own_columns(table.as_ref())?;
        let only_id = match layout.ids.as_slice() {
            [only] if self.job.ids.done.is_some() => own.get(*only).copied().flatten(),
            _ => None,
        };
        let statistics = only_id.and_then(|column| table.statistics(column));
        Ok(Source { table, layout, own, statistics })
    }

    fn read_run(&mut self, source: &Source, run: Range<usize>, first_row: u64, report: &mut SplitReport, emit: &mut Emit<'_>) -> Result<()> {
        let (ids, layout) = (self.job.ids, &*source.layout);
        let place = Place { path: source.table.path(), first_row };
        if ids.done.is_none() || self.is_untouched(source, &run) {
            let rows = source.read_run(run, |_| true)?;
            ids.check_nulls(layout.ids(&rows)?.columns(), place)?;
            return self.deliver(source, rows, report, emit);
        }
        let is_id = |place: usize| layout.ids.contains(&place);
        let read = source.read_columns(run.clone(), is_id)?;
        let id_arrays: Vec<ArrayRef> = layout.ids.iter().filter_map(|place| read.get(*place).cloned().flatten()).collect();
        let total = source.rows(run.clone());
        let start = Instant::now();
        let pending = ids.pending(&id_arrays, place)?;
        let stage = report.stage(0, SOURCE_STAGE);
        stage.custom("ids_seconds", start.elapsed().as_secs_f64());
        stage.custom("ids_looked_up", u32::try_from(total).map_or(f64::MAX, f64::from));
        let Some(pending) = pending else {
            return self.deliver(source, source.complete(run, read, total)?, report, emit);
        };
        report.drop_rows(DONE, (total - pending.count_set_bits()) as u64);
        let mut from = 0;
        // Other columns are read for pending rows of one block at a time, which bounds the memory.
        let is_narrow = layout.fields.len() == layout.ids.len();
        let parts: Vec<Range<usize>> = if is_narrow { vec![run] } else { run.map(|block| block..block + 1).collect() };
        for part in parts {
            let rows = source.rows(part.clone());
            let selection = pending.slice(from, rows);
            let ids_here: Vec<Option<ArrayRef>> = read.iter().map(|array| array.as_ref().map(|array| array.slice(from, rows))).collect();
            from += rows;
            match selection.count_set_bits() {
                0 => {}
                count if count == rows => self.deliver(source, source.complete(part, ids_here, rows)?, report, emit)?,
                _ => self.deliver(source, source.select(part, &ids_here, &selection)?, report, emit)?,
            }
        }
        Ok(())
    }

    /// Whether bounds alone show that no id of these blocks is done.
    fn is_untouched(&self, source: &Source, run: &Range<usize>) -> bool {
        let (Some(statistics), Some(done)) = (&source.statistics, &self.job.ids.done) else { return false };
        run.clone().all(|block| {
            let bounds =
                [&statistics.min, &statistics.max].map(|bounds| (block < bounds.len() && bounds.is_valid(block)).then(|| bounds.slice(block, 1)));
            match bounds {
                [Some(min), Some(max)] => !done.may_contain(&min, &max),
                _ => false,
            }
        })
    }

    fn deliver(&mut self, source: &Source, rows: RecordBatch, report: &mut SplitReport, emit: &mut Emit<'_>) -> Result<()> {
        let rows = match &source.layout.filter {
            Some(predicate) => {
                let kept = filter_record_batch(&rows, &BooleanArray::new(predicate.selection(&rows)?, None)).map_err(|error| source.failed(error))?;
                report.drop_rows("source filter", (rows.num_rows() - kept.num_rows()) as u64);
                kept
            }
            None => rows,
        };
        if rows.num_rows() == 0 {
            return Ok(());
        }
        self.rows_out += rows.num_rows() as u64;
        emit(source.layout.delivered(&rows)?, &source.layout.ids(&rows)?, report)
    }
}

impl Source {
    fn rows(&self, run: Range<usize>) -> usize {
        let rows: u64 = self.table.blocks().get(run).unwrap_or_default().iter().map(|block| block.rows).sum();
        usize::try_from(rows).unwrap_or(usize::MAX)
    }

    fn first_row(&self, run: &Range<usize>) -> u64 {
        self.table.blocks().iter().take(run.start).map(|block| block.rows).sum()
    }

    /// Columns of the layout, one entry each, `None` for those that are not selected and those that the file lacks.
    fn read_columns(&self, run: Range<usize>, wanted: impl Fn(usize) -> bool) -> Result<Vec<Option<ArrayRef>>> {
        let columns: Vec<usize> = self.own.iter().enumerate().filter(|(place, _)| wanted(*place)).filter_map(|(_, own)| *own).collect();
        let batch = match run.len() {
            1 => self.table.read(run.start, &columns, None),
            _ => self.table.read_run(run, &columns),
        };
        Ok(self.spread(&batch.map_err(shardmill_load::Error::from)?, wanted))
    }

    fn spread(&self, batch: &RecordBatch, wanted: impl Fn(usize) -> bool) -> Vec<Option<ArrayRef>> {
        let mut arrays = batch.columns().iter().cloned();
        let take = |(place, own): (usize, &Option<usize>)| own.filter(|_| wanted(place)).and_then(|_| arrays.next());
        self.own.iter().enumerate().map(take).collect()
    }

    fn read_run(&self, run: Range<usize>, wanted: impl Fn(usize) -> bool) -> Result<RecordBatch> {
        let rows = self.rows(run.clone());
        let first = self.first_row(&run);
        self.layout.in_types(self.table.path(), &self.read_columns(run, wanted)?, rows, |row| first + row as u64)
    }

    /// Completes all rows of a run whose ids were read.
    fn complete(&self, run: Range<usize>, mut read: Vec<Option<ArrayRef>>, rows: usize) -> Result<RecordBatch> {
        let is_other = |place: usize| !self.layout.ids.contains(&place);
        let first = self.first_row(&run);
        if read.len() > self.layout.ids.len() {
            merge(&mut read, self.read_columns(run, is_other)?);
        }
        self.layout.in_types(self.table.path(), &read, rows, |row| first + row as u64)
    }

    /// The selected rows of a run whose ids were read: one block, or any run if only ids are read.
    fn select(&self, run: Range<usize>, read: &[Option<ArrayRef>], selection: &BooleanBuffer) -> Result<RecordBatch> {
        let is_other = |place: usize| !self.layout.ids.contains(&place);
        let mask = BooleanArray::new(selection.clone(), None);
        let kept = |array: &Option<ArrayRef>| array.as_ref().map(|array| filter(array.as_ref(), &mask)).transpose();
        let mut columns = read.iter().map(kept).collect::<std::result::Result<Vec<_>, _>>().map_err(|error| self.failed(error))?;
        if columns.len() > self.layout.ids.len() {
            let others: Vec<usize> = self.own.iter().enumerate().filter(|(place, _)| is_other(*place)).filter_map(|(_, own)| *own).collect();
            let batch = self.table.read(run.start, &others, Some(selection)).map_err(shardmill_load::Error::from)?;
            merge(&mut columns, self.spread(&batch, is_other));
        }
        let first = self.first_row(&run);
        let row_of = |row: usize| first + selection.set_indices().nth(row).unwrap_or(row) as u64;
        self.layout.in_types(self.table.path(), &columns, selection.count_set_bits(), row_of)
    }

    fn failed(&self, source: arrow_schema::ArrowError) -> Error {
        Error::File { path: self.table.path().to_owned(), source: Box::new(Error::unfit("table", "its schema")(source)) }
    }
}

fn merge(columns: &mut [Option<ArrayRef>], others: Vec<Option<ArrayRef>>) {
    for (column, other) in columns.iter_mut().zip(others) {
        if other.is_some() {
            *column = other;
        }
    }
}

/// Consecutive blocks that fit into memory together.
fn runs(all: &[Block], blocks: Range<usize>, limit: u64) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    let (mut bytes, mut rows) = (0u64, 0u64);
    for (block, about) in all.iter().enumerate().take(blocks.end).skip(blocks.start) {
        (bytes, rows) = (bytes.saturating_add(about.decoded_bytes), rows.saturating_add(about.rows));
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
