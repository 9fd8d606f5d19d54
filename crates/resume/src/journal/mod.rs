//! Which splits of a job are committed.
//!
//! ```text
//! checkpoint.json            which job this is: its parts, and the folder of its journal
//! <job>/lease/<epoch>        who may commit
//! <job>/plan/<number>        splits, fixed once planned
//! <job>/units-<term>/<unit>  records of the run that holds the lease
//! <job>/packs/…              records of earlier runs
//! <job>/ids/…parquet         ids of committed rows, for jobs that know rows by id
//! ```
//!
//! A split is written under hidden names, synced, recorded, renamed ([`Attempt`]). The record is the commit: before it nothing counts, after it whoever
//! opens the journal finishes the renames ([`recover`]). The invariant: a row is done only if a record names synced files that hold all of its results.
//! docs/concepts/commit-protocol.md has the crash matrix.

mod attempt;
mod fingerprint;
mod holder;
mod lease;
mod plan;
mod record;
mod recover;
mod snapshot;
mod vault;

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

pub use attempt::{Attempt, CommitTarget, Committer, Outcome, UnitCounts};
pub use fingerprint::Fingerprint;
pub use holder::Holder;
pub use plan::{PlannedSplit, Segment};
pub use record::{OutputRecord, UnitRecord};
pub use snapshot::{Problem, Snapshot};

use crate::{Error, Result};
use lease::Lease;
use record::from_line;
use serde::{Deserialize, Serialize};
use shardmill_plan::{InputFile, Split};
use shardmill_storage::Disk;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use vault::{Created, Vault};

const CHECKPOINT: &str = "checkpoint.json";
/// Of another machine's lease, when no lock tells.
pub const LEASE_AGE: Duration = Duration::from_secs(60);

/// What a job says of itself when it opens its journal.
#[derive(Debug, Clone)]
pub struct JournalOptions {
    /// The folder of the checkpoint; absolute.
    pub path: String,
    pub fingerprint: Fingerprint,
    /// The folder of the outputs; absolute.
    pub output: String,
    /// Files that changed since they were planned are read again; their rows are known by id.
    pub reprocesses_changed: bool,
    pub lease_age: Duration,
}

/// `checkpoint.json`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) format: u32,
    pub(crate) job: String,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) output: String,
}

/// Of the layout of a journal.
const FORMAT: u32 = 1;

/// The journal of one job, held by the one process that may plan and let commit.
#[derive(Debug)]
pub struct Journal {
    vault: Vault,
    path: String,
    root: String,
    job: Job,
    lease: Lease,
    segments: Vec<Segment>,
    records: BTreeMap<String, UnitRecord>,
    warnings: Vec<String>,
    found: HashMap<String, plan::Version>,
    reprocesses_changed: bool,
}

impl Journal {
    /// Takes the lease, and collects what earlier runs committed.
    ///
    /// # Errors
    /// [`Error::OtherJob`], [`Error::LeaseHeld`], [`Error::Damaged`], [`Error::OutputChanged`]; [`Error::Journal`] when the disk fails.
    pub fn open(options: &JournalOptions, disk: Arc<dyn Disk>) -> Result<Self> {
        let vault = Vault::new(disk);
        vault.make_folder(&options.path)?;
        let job = job_of(&vault, options)?;
        let root = format!("{}/{}", options.path, job.job);
        let lease = Lease::take(&vault, &root, options.lease_age)?;
        // Whoever finished and deleted the checkpoint held the lease until just now.
        if vault.size(&checkpoint_of(&options.path))?.is_none() {
            return Err(Error::Fenced { path: options.path.clone() });
        }
        let recovered = recover::recover(&vault, &root, &lease)?;
        recover::collect_garbage(&vault, &options.path, &root, &job)?;
        let segments = plan::load(&vault, &root)?;
        plan::check_records(&root, &segments, &recovered.records)?;
        Ok(Self {
            path: options.path.clone(),
            root,
            job,
            lease,
            segments,
            records: recovered.records,
            warnings: recovered.warnings,
            found: HashMap::new(),
            reprocesses_changed: options.reprocesses_changed,
            vault,
        })
    }

    /// What was strange, for the user to know.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Whether an earlier run has planned anything.
    #[must_use]
    pub fn is_resumed(&self) -> bool {
        !self.segments.is_empty()
    }

    /// Units that were committed when the journal was opened.
    #[must_use]
    pub fn committed(&self) -> usize {
        self.records.len()
    }

    /// Tells which files exist now; returns those that no segment has planned, to be cut into splits for [`Journal::extend`].
    ///
    /// # Errors
    /// [`Error::InputChanged`] when a file is not what it was.
    pub fn discover(&mut self, found: &[InputFile]) -> Result<Vec<InputFile>> {
        let (new, changed) = plan::compare(&self.segments, &self.records, found);
        if let Some(first) = changed.first().filter(|_| !self.reprocesses_changed) {
            return Err(Error::InputChanged { path: (*first).to_owned(), others: changed.len() - 1, checkpoint: self.path.clone() });
        }
        self.found = found.iter().map(|file| (file.path.clone(), plan::version(file))).collect();
        self.check_damaged()?;
        Ok(new)
    }

    /// A split whose record was damaged is done again under the same names; that needs the very files that it was planned with.
    fn check_damaged(&self) -> Result<()> {
        let folder = attempt::damaged_folder(&self.root);
        let names = self.vault.list(&folder)?;
        if names.is_empty() {
            return Ok(());
        }
        let splits: HashMap<&str, &PlannedSplit> =
            self.segments.iter().flat_map(|segment| &segment.splits).map(|split| (split.unit.as_str(), split)).collect();
        for name in names {
            let path = format!("{folder}/{name}");
            let is_whole = |split: &&PlannedSplit| split.files.iter().all(|file| plan::is_there(&self.found, file));
            if self.records.contains_key(&name) {
                self.vault.remove(&path)?;
            } else if splits.get(name.as_str()).is_none_or(|split| !is_whole(split)) {
                return Err(Error::Damaged { path });
            }
        }
        Ok(())
    }

    /// Plans splits of new files; none is fine.
    ///
    /// # Errors
    /// When the plan cannot be saved.
    pub fn extend(&mut self, splits: &[Split]) -> Result<()> {
        if splits.is_empty() {
            return Ok(());
        }
        let segment = plan::new_segment(splits, self.records.keys().cloned().collect());
        plan::save(&self.vault, &self.root, self.segments.len(), &segment)?;
        self.segments.push(segment);
        Ok(())
    }

    /// The splits that are left, in the order in which they were planned.
    #[must_use]
    pub fn pending(&self) -> Vec<Split> {
        let (mut pending, mut known) = (Vec::new(), HashSet::new());
        for (segment, planned) in self.segments.iter().enumerate() {
            pending.extend(plan::pending(segment, planned, &plan::Looks { committed: &self.records, found: &self.found, known: &known }));
            known.extend(planned.splits.iter().flat_map(|split| &split.files).map(|file| file.path.as_str()));
        }
        pending.into_iter().enumerate().map(|(index, (files, unit))| Split { index, files, unit: Some(unit) }).collect()
    }

    /// Files with ids of rows that were done before the segment was planned. A row of it with such an id is not done again.
    ///
    /// # Errors
    /// [`Error::Damaged`] for a file whose content is not what was recorded.
    pub fn done_ids(&self, segment: usize) -> Result<Vec<OutputRecord>> {
        let before = self.segments.get(segment).map(|segment| segment.done_before.as_slice()).unwrap_or_default();
        let files: Vec<OutputRecord> = before.iter().filter_map(|unit| self.records.get(unit)?.ids.clone()).collect();
        for file in files.iter().filter(|file| !file.xxh3.is_empty()) {
            if self.vault.hash(&file.path)? != file.xxh3 {
                return Err(Error::Damaged { path: file.path.clone() });
            }
        }
        Ok(files)
    }

    /// What workers commit with.
    #[must_use]
    pub fn commit_target(&self) -> CommitTarget {
        CommitTarget { root: self.root.clone(), job: self.job.job.clone(), epoch: self.lease.epoch(), term: self.lease.term().to_owned() }
    }

    /// Makes the names of the outputs durable, after the last commit; with `deletes`, removes the checkpoint then.
    ///
    /// # Errors
    /// When a folder cannot be synced: the checkpoint is kept then. A checkpoint that cannot be removed is a warning, which is returned.
    pub fn finish(self, deletes: bool) -> Result<Option<String>> {
        for folder in [&self.job.output, &attempt::ids_folder(&self.root)] {
            if self.vault.exists(folder)? {
                self.vault.sync_folder(folder)?;
            }
        }
        if !deletes {
            return Ok(None);
        }
        lease::check(&self.vault, &attempt::lease_folder(&self.root), self.lease.epoch())?;
        // Without this file nothing else counts; so there is no moment at which a part of the checkpoint would.
        let removed = self.vault.remove(&checkpoint_of(&self.path)).and_then(|()| self.vault.sync_folder(&self.path));
        let Self { vault, root, lease, .. } = self;
        drop(lease);
        let removed = removed.and_then(|()| vault.remove_folder(&root));
        Ok(removed.err().map(|error| format!("the checkpoint was not removed: {error}")))
    }

    /// Puts the records of all earlier runs into one file.
    ///
    /// # Errors
    /// When the disk fails; nothing is lost then.
    pub fn compact(&self) -> Result<()> {
        recover::compact(&self.vault, &self.root, self.lease.epoch())
    }
}

pub(crate) fn checkpoint_of(path: &str) -> String {
    format!("{path}/{CHECKPOINT}")
}

/// The job of a checkpoint, or `None` when it has none.
pub(crate) fn read_job(vault: &Vault, path: &str) -> Result<Option<Job>> {
    let file = checkpoint_of(path);
    let Some(content) = vault.read(&file)? else { return Ok(None) };
    let job: Job = from_line(&content).ok_or_else(|| Error::Damaged { path: file.clone() })?;
    if job.format == FORMAT { Ok(Some(job)) } else { Err(Error::OtherFormat { path: file, format: job.format }) }
}

/// The job of the checkpoint, made when there is none.
fn job_of(vault: &Vault, options: &JournalOptions) -> Result<Job> {
    let existing = || -> Result<Option<Job>> {
        let job = read_job(vault, &options.path)?;
        job.as_ref().map_or(Ok(()), |job| job.fingerprint.check(&options.fingerprint, &options.path))?;
        Ok(job)
    };
    if let Some(job) = existing()? {
        // Who made it may have died before its name was durable.
        vault.sync_folder(&options.path)?;
        return Ok(job);
    }
    let job = uuid::Uuid::new_v4().simple().to_string();
    let job = Job { format: FORMAT, job, fingerprint: options.fingerprint.clone(), output: options.output.clone() };
    let file = checkpoint_of(&options.path);
    match vault.record(&file, [&job])? {
        Created::Made(_) => Ok(job),
        Created::NoFolder | Created::Collected => Err(Error::Fenced { path: file }),
        // Another process began at the same moment; the lease decides between the two.
        Created::Taken => existing()?.ok_or(Error::Damaged { path: file }),
    }
}
