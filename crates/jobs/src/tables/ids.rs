//! Which rows are done, and the record of processed rows.
//!
//! The invariant: a null id is never done and never recorded.

use super::output::{Output, OutputOptions};
use crate::report::SplitReport;
use crate::sink::Finished;
use crate::{Error, Result};
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_schema::{Field, Schema};
use arrow_select::filter::filter_record_batch;
use serde::{Deserialize, Serialize};
use shardmill_resume::DoneIds;
use shardmill_resume::journal::Committer;
use shardmill_resume::keys::IdSchema;
use std::sync::{Arc, OnceLock};

/// Why rows are skipped that an earlier run has processed.
pub(crate) const DONE: &str = "done";

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

/// The id types of a job. All of its files must have the same, or a later run
/// could not build one index.
#[derive(Debug)]
pub(crate) struct IdTypes {
    committer: Committer,
    agreed: OnceLock<IdSchema>,
}

impl IdTypes {
    pub(crate) fn new(committer: Committer) -> Self {
        Self { committer, agreed: OnceLock::new() }
    }

    /// Fixes the types of the first file read by any worker, and compares those of later files.
    ///
    /// # Errors
    /// [`Error::Resume`] for different types.
    pub(crate) fn check(&self, schema: &Schema, columns: &[String]) -> Result<()> {
        let own = IdSchema::of(schema, columns)?;
        let agreed = match self.agreed.get() {
            Some(agreed) => agreed,
            None => {
                let text = self.committer.agree("id_types", &serde_json::to_string(&own)?)?;
                self.agreed.get_or_init(|| serde_json::from_str(&text).unwrap_or(own))
            }
        };
        let places = columns.iter().filter_map(|column| schema.field_with_name(column).ok());
        Ok(agreed.check(places.map(Field::data_type).collect::<Vec<_>>().into_iter())?)
    }
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
