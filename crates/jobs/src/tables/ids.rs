//! Which rows are done, and the record of processed rows.
//!
//! The invariant: a null id is never done and never recorded.

use super::output::{Output, OutputOptions};
use crate::checkpoint::IdTypes;
use crate::report::SplitReport;
use crate::sink::Finished;
use crate::{Error, Result};
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_select::filter::filter_record_batch;
use serde::{Deserialize, Serialize};
use shardmill_resume::DoneIds;
use std::sync::Arc;

/// How rows with null ids are handled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NullIds {
    #[default]
    Raise,
    /// Process it in every run.
    AlwaysProcess,
}

/// How the rows of a job are identified. Without columns they are not.
#[derive(Debug, Clone, Default)]
pub(crate) struct IdPolicy {
    /// Columns of the input files; several columns form a compound id.
    pub columns: Vec<String>,
    /// Rows with these ids are skipped.
    pub done: Option<Arc<dyn DoneIds>>,
    pub nulls: NullIds,
    /// The id types of the whole job.
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
    /// One bit per row, set if it has to be processed; `None` if all rows have to be.
    pub(super) fn pending(
        &self,
        done: &dyn DoneIds,
        ids: &[ArrayRef],
        place: Place<'_>,
    ) -> Result<Option<BooleanBuffer>> {
        self.check_nulls(ids, place)?;
        // A column without values has no type of ids, and no row an id.
        if ids.iter().any(|array| array.data_type().is_null()) {
            return Ok(None);
        }
        let done = done.contains(ids).map_err(|error| Error::File {
            path: place.path.to_owned(),
            source: Box::new(error.into()),
        })?;
        Ok(if done.count_set_bits() == 0 { None } else { Some(!&done) })
    }

    pub(super) fn check_nulls(&self, ids: &[ArrayRef], place: Place<'_>) -> Result<()> {
        if self.nulls == NullIds::AlwaysProcess {
            return Ok(());
        }
        for (column, array) in self.columns.iter().zip(ids) {
            let nulls = array.logical_nulls().filter(|nulls| nulls.null_count() > 0);
            if let Some(row) = nulls.and_then(|nulls| nulls.iter().position(|is_valid| !is_valid)) {
                return Err(Error::NullId {
                    column: column.clone(),
                    path: place.path.to_owned(),
                    row: place.first_row + row as u64,
                });
            }
        }
        Ok(())
    }
}

/// Writes the ids of processed rows.
pub(super) struct Recorder<'a> {
    output: Output<'a>,
    /// The rows of this file are not part of the job's output.
    uncounted: SplitReport,
}

impl<'a> Recorder<'a> {
    pub(super) fn new(path: &str, options: &OutputOptions<'a>) -> Self {
        Self { output: Output::new(path, options).of_ids(), uncounted: SplitReport::default() }
    }

    pub(super) fn write(&mut self, ids: &RecordBatch) -> Result<()> {
        let all = ids.columns().iter().map(Array::logical_nulls);
        let nulls = all.fold(None, |nulls: Option<NullBuffer>, column| {
            NullBuffer::union(nulls.as_ref(), column.as_ref())
        });
        let Some(nulls) = nulls.filter(|nulls| nulls.null_count() > 0) else {
            return self.output.write(0, ids, &mut self.uncounted);
        };
        let whole = BooleanArray::new(nulls.into_inner(), None);
        let ids = filter_record_batch(ids, &whole).map_err(Error::unfit("ids", "a record"))?;
        self.output.write(0, &ids, &mut self.uncounted)
    }

    pub(super) fn finish(mut self) -> Result<Option<Finished>> {
        self.output.finish(0, &mut self.uncounted)
    }
}
