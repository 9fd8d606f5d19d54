//! Which rows are done, and the record of those that were processed.
//!
//! The invariant: a null id is never done and never recorded.

use super::output::{Output, OutputOptions};
use crate::checkpoint::IdTypes;
use crate::report::SplitReport;
use crate::sink::Finished;
use crate::{Error, Result};
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow_buffer::BooleanBuffer;
use arrow_select::filter::filter_record_batch;
use serde::{Deserialize, Serialize};
use shardmill_resume::DoneIds;
use std::sync::Arc;

/// What becomes of a row whose id is null.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NullIds {
    #[default]
    Error,
    /// It is processed, in each run again.
    AlwaysProcess,
}

/// How the rows of a job are told from one another. Without columns, they are not.
#[derive(Debug, Clone, Default)]
pub struct IdPolicy {
    /// Of the input files; several make one id together.
    pub columns: Vec<String>,
    /// Rows with these ids are skipped.
    pub done: Option<Arc<dyn DoneIds>>,
    pub nulls: NullIds,
    /// What the files of the whole job agree on.
    pub types: Option<Arc<IdTypes>>,
}

/// Where ids were read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    pub path: &'a str,
    /// Number of the first row within its file.
    pub first_row: u64,
}

impl IdPolicy {
    /// One bit a row, set where it has to be processed; `None` when all of them have.
    pub(super) fn pending(&self, ids: &[ArrayRef], place: Place<'_>) -> Result<Option<BooleanBuffer>> {
        self.check_nulls(ids, place)?;
        let Some(done) = &self.done else { return Ok(None) };
        let done = done.contains(ids).map_err(|error| Error::File { path: place.path.to_owned(), source: Box::new(error.into()) })?;
        Ok(if done.count_set_bits() == 0 { None } else { Some(!&done) })
    }

    pub(super) fn check_nulls(&self, ids: &[ArrayRef], place: Place<'_>) -> Result<()> {
        if self.nulls == NullIds::AlwaysProcess {
            return Ok(());
        }
        for (column, array) in self.columns.iter().zip(ids) {
            let nulls = array.logical_nulls().filter(|nulls| nulls.null_count() > 0);
            if let Some(row) = nulls.and_then(|nulls| nulls.iter().position(|is_valid| !is_valid)) {
                return Err(Error::NullId { column: column.clone(), path: place.path.to_owned(), row: place.first_row + row as u64 });
            }
        }
        Ok(())
    }
}

/// Writes the ids of processed rows.
pub(super) struct Recorder<'a> {
    output: Output<'a>,
    /// The rows of this file are no output of the job.
    uncounted: SplitReport,
}

impl<'a> Recorder<'a> {
    pub(super) fn new(path: &str, options: &OutputOptions<'a>) -> Self {
        Self { output: Output::new(path, options).of_ids(), uncounted: SplitReport::default() }
    }

    pub(super) fn write(&mut self, ids: &RecordBatch) -> Result<()> {
        let is_whole = |row: usize| ids.columns().iter().all(|column| column.is_valid(row));
        if ids.columns().iter().all(|column| column.null_count() == 0) {
            return self.output.write(0, ids.clone(), &mut self.uncounted);
        }
        let whole: BooleanArray = (0..ids.num_rows()).map(|row| Some(is_whole(row))).collect();
        let ids =
            filter_record_batch(ids, &whole).map_err(|source| Error::Cast { column: "ids".to_owned(), data_type: "a record".to_owned(), source })?;
        self.output.write(0, ids, &mut self.uncounted)
    }

    pub(super) fn finish(mut self) -> Result<Option<Finished>> {
        self.output.finish(0, &mut self.uncounted)
    }
}
