//! One attempt at one split: files under hidden names, then the record, then their final names.
//!
//! The invariant: of all attempts at a unit, at most one creates its record, and only files named
//! by the record become visible.

use super::journal_store::{Created, JournalStore};
use super::layout::{HIDDEN_END, HIDDEN_START, ids_directory, lease_directory, units_directory};
use super::lease;
use super::places::{Places, retired_ids};
use super::record::{OutputRecord, UnitRecord, from_line};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use shardmill_plan::{InputFile, Replaced, Unit};
use shardmill_storage::{Disk, Sealed};
use std::collections::BTreeSet;
use std::sync::Arc;

/// What a worker needs to commit; sent to other machines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommitTarget {
    pub places: Places,
    pub job: String,
    pub epoch: u64,
    /// Names the directory for records, which is removed when another run takes over.
    pub term: String,
}

/// Creates the attempts of a worker.
#[derive(Debug, Clone)]
pub struct Committer {
    target: CommitTarget,
    store: JournalStore,
}

impl Committer {
    #[must_use]
    pub fn new(target: CommitTarget, disk: Arc<dyn Disk>) -> Self {
        Self { target, store: JournalStore::new(disk) }
    }

    /// The text that the job has agreed on under a name: this one,
    /// unless another was stored before.
    ///
    /// # Errors
    /// When the disk fails; [`Error::Damaged`].
    pub fn agree(&self, name: &str, text: &str) -> Result<String> {
        let path = format!("{}/{name}", self.target.places.root);
        match self.store.record(&path, [text])? {
            Created::Made(_) => Ok(text.to_owned()),
            Created::NoDirectory | Created::Collected => Err(Error::Fenced { path }),
            Created::Taken => {
                let content = self.store.read(&path)?.unwrap_or_default();
                from_line(&content).ok_or_else(|| Error::damaged(&path))
            }
        }
    }

    #[must_use]
    pub fn attempt(&self, unit: &Unit, files: &[InputFile]) -> Attempt {
        let mut read = files.to_vec();
        self.target.places.store_files(&mut read);
        let attempt = uuid::Uuid::new_v4().simple().to_string();
        Attempt {
            committer: self.clone(),
            unit: unit.name.clone(),
            missing: unit.missing.clone(),
            replaces: unit.replaces.clone(),
            read,
            attempt,
            files: 0,
            outputs: Vec::new(),
            ids: None,
            is_over: false,
        }
    }
}

/// The result of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Committed,
    /// Another attempt at the same unit committed first; the files of this one are removed.
    Lost,
    /// The same input gave no more than what an earlier run published, which is kept.
    Kept,
}

/// Row counts by outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UnitCounts {
    pub rows_in: u64,
    pub rows_done: u64,
    pub rows_out: u64,
    pub quarantined: u64,
}

/// Dropping an uncommitted attempt removes its files.
#[derive(Debug)]
pub struct Attempt {
    committer: Committer,
    unit: String,
    missing: Vec<String>,
    replaces: Option<Replaced>,
    read: Vec<InputFile>,
    attempt: String,
    files: usize,
    outputs: Vec<OutputRecord>,
    ids: Option<OutputRecord>,
    is_over: bool,
}

impl Attempt {
    /// The hidden name of the next file, independent of its directory.
    pub fn hidden_name(&mut self) -> String {
        self.files += 1;
        let CommitTarget { job, term, .. } = &self.committer.target;
        format!(
            "{HIDDEN_START}{job}-{term}-{}-{}-{}{HIDDEN_END}",
            self.unit, self.attempt, self.files
        )
    }

    /// The path that an input had when the job was created: a moved job
    /// keeps the names of its outputs.
    #[must_use]
    pub fn first_path(&self, path: &str) -> String {
        self.committer.target.places.first(path)
    }

    /// Path for the ids of the rows of this attempt.
    #[must_use]
    pub fn ids_path(&self) -> String {
        format!(
            "{}/{}-{}.parquet",
            ids_directory(&self.committer.target.places.root),
            self.unit,
            self.attempt
        )
    }

    /// Adds a file; returns the path that it gets when the split is committed.
    pub fn add_output(&mut self, mut sealed: Sealed, rows: u64, xxh3: String) -> String {
        let is_retired = |name: &str| {
            self.replaces
                .as_ref()
                .is_some_and(|replaced| replaced.retired.iter().any(|retired| retired == name))
        };
        if is_retired(name_of(&sealed.target)) {
            let (stem, extension) = sealed.target.rsplit_once('.').unwrap_or((&sealed.target, ""));
            sealed.target = format!("{stem}-{}.{extension}", self.attempt);
        }
        let path = sealed.target.clone();
        self.outputs.push(record_of(&sealed, rows, xxh3));
        path
    }

    pub fn set_ids(&mut self, sealed: &Sealed, rows: u64, xxh3: String) {
        self.ids = Some(record_of(sealed, rows, xxh3));
    }

    /// Commits the unit.
    ///
    /// # Errors
    /// [`Error::Fenced`] when a later run took over: then nothing is visible. [`Error::Journal`]
    /// when the disk fails: then the next run finds out whether the record exists.
    pub fn commit(mut self, counts: UnitCounts) -> Result<Outcome> {
        let Committer { target, store } = self.committer.clone();
        if self.replaces.as_ref().is_some_and(|replaced| is_no_better(counts, replaced)) {
            return Ok(Outcome::Kept);
        }
        let places = &target.places;
        // A record must not outlive the names of the files that it lists.
        for directory in [
            (!self.outputs.is_empty()).then(|| places.output.clone()),
            self.ids.as_ref().map(|_| ids_directory(&places.root)),
        ]
        .into_iter()
        .flatten()
        {
            store.sync_directory(&directory)?;
        }
        lease::check(&store, &lease_directory(&target.places.root), target.epoch)?;
        let record = UnitRecord {
            unit: self.unit.clone(),
            attempt: self.attempt.clone(),
            epoch: target.epoch,
            generation: self.replaces.as_ref().map_or(0, |replaced| replaced.generation + 1),
            missing: self.missing.clone(),
            outputs: self.outputs.clone(),
            ids: self.ids.clone(),
            rows_in: counts.rows_in,
            rows_done: counts.rows_done,
            rows_out: counts.rows_out,
            quarantined: counts.quarantined,
            read: if counts.quarantined > 0 { self.read.clone() } else { Vec::new() },
            is_reopened: false,
            retired: self.retired(),
        };
        let path = format!("{}/{}", units_directory(&target.places.root, &target.term), self.unit);
        match store.record(&path, [&record]) {
            Ok(Created::Made(_)) => {
                self.is_over = true;
                if let Err(error) = publish(&store, places, &record) {
                    // A run that took over has published the record,
                    // and may have replaced it since.
                    lease::check(&store, &lease_directory(&places.root), target.epoch)?;
                    return Err(error);
                }
                Ok(Outcome::Committed)
            }
            Ok(Created::Taken) => Ok(Outcome::Lost),
            Ok(Created::NoDirectory) => {
                Err(Error::Fenced { path: lease_directory(&target.places.root) })
            }
            Ok(Created::Collected) => {
                // A later run has the record, and renames the files.
                self.is_over = true;
                Err(Error::Fenced { path: lease_directory(&target.places.root) })
            }
            Err(error) => {
                // The record may exist although its creation failed: then it needs the files.
                self.is_over = true;
                Err(error)
            }
        }
    }

    /// Names given by earlier records that no file has after this commit.
    fn retired(&self) -> Vec<String> {
        let Some(replaced) = &self.replaces else { return Vec::new() };
        let ids = self.ids.iter().map(|ids| retired_ids(&ids.name));
        let own: BTreeSet<String> =
            self.outputs.iter().map(|file| file.name.clone()).chain(ids).collect();
        let gone: BTreeSet<&String> = replaced
            .retired
            .iter()
            .chain(replaced.names.iter().filter(|name| !own.contains(*name)))
            .collect();
        gone.into_iter().cloned().collect()
    }
}

/// Published outputs are kept if the same files gave no more than before:
/// a disk may fail temporarily.
fn is_no_better(counts: UnitCounts, replaced: &Replaced) -> bool {
    replaced.is_same_input
        && counts.quarantined >= replaced.quarantined.max(1)
        && counts.rows_out <= replaced.rows_out
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if !self.is_over {
            let CommitTarget { places, .. } = &self.committer.target;
            let outputs = self.outputs.iter().map(|file| places.output(&file.sealed));
            for path in outputs.chain(self.ids.iter().map(|file| places.ids(&file.sealed))) {
                let _collected_later = self.committer.store.remove(&path);
            }
        }
    }
}

fn record_of(sealed: &Sealed, rows: u64, xxh3: String) -> OutputRecord {
    OutputRecord {
        sealed: name_of(&sealed.path).to_owned(),
        name: name_of(&sealed.target).to_owned(),
        bytes: sealed.bytes,
        rows,
        xxh3,
    }
}

fn name_of(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_directory, name)| name)
}

/// Renames the files of a record, replacing those with the same names, then removes the replaced
/// files with other names: so at any moment one of the two is visible. Idempotent, and safe to run
/// in two processes at the same time.
pub(crate) fn publish(store: &JournalStore, places: &Places, record: &UnitRecord) -> Result<()> {
    for (file, sealed, path) in record.files(places) {
        let is_whole = |bytes: Option<u64>| bytes == Some(file.bytes);
        let lost = |path: &str| Error::lost(path, &record.unit, places.state());
        // A record is created after the sync of its files: another length is damage, not a crash.
        if store.size(&sealed)?.is_some_and(|bytes| bytes != file.bytes) {
            return Err(lost(&sealed));
        }
        if !store.rename(&sealed, &path)? && !is_whole(store.size(&path)?) {
            return Err(lost(&path));
        }
    }
    if record.retired.is_empty() {
        return Ok(());
    }
    sync_places(store, places, record)?;
    for name in &record.retired {
        store.remove(&places.retired(name))?;
    }
    Ok(())
}

/// Makes the names durable that [`publish`] adds and removes.
pub(crate) fn sync_places(
    store: &JournalStore,
    places: &Places,
    record: &UnitRecord,
) -> Result<()> {
    let is_retired = !record.retired.is_empty();
    let directories =
        [!record.outputs.is_empty() || is_retired, record.ids.is_some() || is_retired];
    for (_, directory) in directories
        .into_iter()
        .zip([places.output.clone(), ids_directory(&places.root)])
        .filter(|(is_touched, _)| *is_touched)
    {
        store.sync_directory(&directory)?;
    }
    Ok(())
}
