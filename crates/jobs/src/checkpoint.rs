//! How the splits of a job are committed, and which of their rows are done: sent from the driver to
//! the process that runs a split.

use crate::report::SplitReport;
use crate::tables::{DONE, IdPolicy, IdTypes, NullIds};
use crate::{Error, Result};
use arrow_schema::{Schema, SchemaRef};
use serde::{Deserialize, Serialize};
use shardmill_plan::schema::{schema_of_text, schema_text};
use shardmill_plan::{Split, Unit};
use shardmill_resume::index::{IdIndex, Levels};
use shardmill_resume::journal::{
    Attempt, CommitTarget, Committer, Outcome, UnitCounts, result_name,
};
use shardmill_resume::{DoneIds, Error as ResumeError};
use shardmill_storage::AnyDisk;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// As sent by the binding.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckpointOptions {
    pub target: CommitTarget,
    pub id_columns: Vec<String>,
    pub null_ids: NullIds,
    /// For each segment of the plan, the index files of the ids that were already done.
    pub indexes: BTreeMap<usize, Vec<String>>,
}

/// The checkpoint of a job in a worker.
#[derive(Debug)]
pub struct Checkpointing {
    committer: Committer,
    ids: BTreeMap<usize, IdPolicy>,
    /// For segments without an index.
    no_index: IdPolicy,
}

impl Checkpointing {
    /// Maps the index files.
    ///
    /// # Errors
    /// [`Error::Resume`] for an index that is missing or damaged.
    pub fn open(options: CheckpointOptions) -> Result<Self> {
        let committer = Committer::new(options.target, Arc::new(AnyDisk::default()));
        let types =
            (!options.id_columns.is_empty()).then(|| Arc::new(IdTypes::new(committer.clone())));
        let no_index =
            IdPolicy { columns: options.id_columns, nulls: options.null_ids, done: None, types };
        let mut opened: BTreeMap<String, Arc<IdIndex>> = BTreeMap::new();
        let mut ids = BTreeMap::new();
        for (segment, paths) in options.indexes {
            let mut levels = Vec::with_capacity(paths.len());
            for path in paths {
                levels.push(match opened.get(&path) {
                    Some(index) => Arc::clone(index),
                    None => Arc::clone(
                        opened.entry(path.clone()).or_insert(Arc::new(IdIndex::open(&path)?)),
                    ),
                });
            }
            // One without ids may have another type than the ids of the job.
            levels.retain(|index| !index.is_empty());
            let done: Arc<dyn DoneIds> = match levels.as_slice() {
                [] => continue,
                [only] => Arc::<IdIndex>::clone(only),
                _ => Arc::new(Levels::new(levels)),
            };
            ids.insert(segment, IdPolicy { done: Some(done), ..no_index.clone() });
        }
        Ok(Self { committer, ids, no_index })
    }

    /// Records the columns of the results of a function for later runs and for other workers,
    /// unless one of them was faster; returns the recorded ones.
    pub(crate) fn agree_on_result(&self, function: usize, schema: &Schema) -> Result<SchemaRef> {
        let text = self.committer.agree(&result_name(function), &schema_text(schema))?;
        Ok(Arc::new(schema_of_text(&text).map_err(|source| ResumeError::Arrow { source })?))
    }

    pub(crate) fn ids(&self, split: &Split) -> &IdPolicy {
        split.unit.as_ref().and_then(|unit| self.ids.get(&unit.segment)).unwrap_or(&self.no_index)
    }

    /// Starts an attempt at a split.
    ///
    /// # Errors
    /// [`Error::Option`] for a split that is not in the journal.
    pub(crate) fn attempt(&self, split: &Split) -> Result<Mutex<Attempt>> {
        let unit = split
            .unit
            .as_ref()
            .ok_or_else(|| Error::option("checkpoint", "has no unit for a split"))?;
        Ok(Mutex::new(self.committer.attempt(unit, &split.files)))
    }
}

/// Distinguishes outputs of a version of a file from those of an earlier one.
pub(crate) fn version_of(split: &Split) -> &str {
    match &split.unit {
        Some(Unit { name, is_reread: true, .. }) => name,
        _ => "",
    }
}

/// Marks a split as done, and makes all of its files visible.
pub(crate) fn commit(attempt: Mutex<Attempt>, report: &mut SplitReport) -> Result<()> {
    let counts = UnitCounts {
        rows_in: report.ledger.input.rows,
        rows_done: report.ledger.rows_dropped.get(DONE).copied().unwrap_or_default(),
        rows_out: report.output.rows,
        quarantined: report.ledger.quarantined.len() as u64,
    };
    let outcome = attempt.into_inner().unwrap_or_else(PoisonError::into_inner).commit(counts)?;
    match outcome {
        Outcome::Committed => {}
        Outcome::Lost => {
            report.ledger.warn("another attempt at the same split was committed before");
        }
        Outcome::Kept => report
            .ledger
            .warn("the split was run again with the same outcome; its earlier output was kept"),
    }
    Ok(())
}
