//! A read-only view of a journal: nothing is locked, changed or removed.

use super::journal_store::JournalStore;
use super::plan::{self, Segment};
use super::record::{OutputRecord, UnitRecord};
use super::{Fingerprint, Holder, JournalOptions, LEASE_AGE, Places, job, layout, lease, recover};
use crate::Result;
use shardmill_storage::Disk;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The content of a checkpoint.
#[derive(Debug)]
pub struct Snapshot {
    pub job: String,
    /// The parts of the job, including its paths.
    pub fingerprint: Fingerprint,
    /// The options with which the job opens its journal.
    pub options: JournalOptions,
    pub places: Places,
    pub segments: Vec<Segment>,
    pub records: BTreeMap<String, UnitRecord>,
    /// The process that currently runs the job.
    pub holder: Option<Holder>,
    pub warnings: Vec<String>,
    store: JournalStore,
}

/// A file that does not match its record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub path: String,
    pub unit: String,
    pub problem: String,
}

impl Snapshot {
    /// # Errors
    /// [`Error::NoJob`] for a directory without a checkpoint; [`Error::Damaged`].
    pub fn read(path: &str, disk: Arc<dyn Disk>) -> Result<Self> {
        let store = JournalStore::new(disk);
        let job = job::here(&store, path)?;
        let places = job.places(path);
        let recovered = recover::read_all(&store, &places.root)?;
        let segments = plan::load(&store, &places.root, false)?;
        let options = JournalOptions {
            path: path.to_owned(),
            fingerprint: job.fingerprint.clone(),
            inputs: job.inputs.clone(),
            output: job.output.clone(),
            reprocesses_changed: false,
            knows_ids: recovered.records.values().any(|record| record.ids.is_some()),
            lease_age: LEASE_AGE,
        };
        Ok(Self {
            holder: lease::holder(&store, &layout::lease_directory(&places.root), LEASE_AGE)?,
            segments,
            records: recovered.records,
            warnings: recovered.warnings,
            fingerprint: job.told(),
            job: job.job,
            options,
            places,
            store,
        })
    }

    /// Units that a later run does again: some of their input was skipped, or their outputs were lost.
    #[must_use]
    pub fn open_units(&self) -> usize {
        plan::open_units(&self.segments, &self.records)
    }

    /// Planned units; some may have no work, because their files are missing.
    #[must_use]
    pub fn planned(&self) -> usize {
        self.segments.iter().map(|segment| segment.splits.len()).sum()
    }

    /// Compares each file of each record with the disk.
    ///
    /// # Errors
    /// When a file cannot be inspected.
    pub fn verify(&self) -> Result<Vec<Problem>> {
        let mut problems = Vec::new();
        for record in self.records.values() {
            problems.extend(problems_of(&self.store, &self.places, record)?.into_iter().map(|(_name, problem)| problem));
        }
        Ok(problems)
    }
}

/// The files of a record that do not match it, by name.
pub(crate) fn problems_of(store: &JournalStore, places: &Places, record: &UnitRecord) -> Result<Vec<(String, Problem)>> {
    let mut problems = Vec::new();
    for (file, sealed, path) in record.files(places) {
        if let Some(problem) = problem_of(store, file, &sealed, &path)? {
            problems.push((file.name.clone(), Problem { path, unit: record.unit.clone(), problem }));
        }
    }
    Ok(problems)
}

fn problem_of(store: &JournalStore, file: &OutputRecord, sealed: &str, path: &str) -> Result<Option<String>> {
    let size = match store.size(path)? {
        Some(size) => size,
        // A run has just created the record, and renames the file next.
        None if store.size(sealed)? == Some(file.bytes) => return Ok(None),
        None => return Ok(Some("it is missing".to_owned())),
    };
    if size != file.bytes {
        return Ok(Some(format!("it has {size} bytes, its record says {}", file.bytes)));
    }
    if file.xxh3.is_empty() {
        return Ok(None);
    }
    let hash = store.hash(path)?;
    Ok((hash != file.xxh3).then(|| "its content changed".to_owned()))
}
