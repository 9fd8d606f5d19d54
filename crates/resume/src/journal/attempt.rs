//! One attempt at one split: files under hidden names, then the record, then their final names.
//!
//! The invariant: of all attempts at a unit, at most one makes its record, and only the files that the record names become visible.

use super::lease;
use super::record::{OutputRecord, UnitRecord, from_line};
use super::vault::{Created, Vault, folder_of};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use shardmill_plan::Unit;
use shardmill_storage::{Disk, Sealed};
use std::collections::BTreeSet;
use std::sync::Arc;

/// What a worker must know to commit; travels to other machines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommitTarget {
    /// The folder of the job within the checkpoint.
    pub root: String,
    pub job: String,
    pub epoch: u64,
    /// Names the folder for records; it goes when another run takes over.
    pub term: String,
}

/// Makes the attempts of a worker.
#[derive(Debug, Clone)]
pub struct Committer {
    target: CommitTarget,
    vault: Vault,
}

impl Committer {
    #[must_use]
    pub fn new(target: CommitTarget, disk: Arc<dyn Disk>) -> Self {
        Self { target, vault: Vault::new(disk) }
    }

    /// The text that the job has agreed on under a name: this one, unless another was there before.
    ///
    /// # Errors
    /// When the disk fails; [`Error::Damaged`].
    pub fn agree(&self, name: &str, text: &str) -> Result<String> {
        let path = format!("{}/{name}", self.target.root);
        match self.vault.record(&path, [text])? {
            Created::Made(_) => Ok(text.to_owned()),
            Created::NoFolder | Created::Collected => Err(Error::Fenced { path }),
            Created::Taken => {
                let content = self.vault.read(&path)?.unwrap_or_default();
                from_line(&content).ok_or(Error::Damaged { path })
            }
        }
    }

    #[must_use]
    pub fn attempt(&self, unit: &Unit) -> Attempt {
        let attempt = uuid::Uuid::new_v4().simple().to_string();
        Attempt {
            committer: self.clone(),
            unit: unit.name.clone(),
            missing: unit.missing.clone(),
            attempt,
            files: 0,
            outputs: Vec::new(),
            ids: None,
            is_over: false,
        }
    }
}

/// How a commit ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Committed,
    /// Another attempt at the same unit was first; the files of this one are gone.
    Lost,
}

/// How many rows went which way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UnitCounts {
    pub rows_in: u64,
    pub rows_done: u64,
    pub rows_out: u64,
    pub quarantined: u64,
}

/// Dropping an attempt that was not committed removes its files.
#[derive(Debug)]
pub struct Attempt {
    committer: Committer,
    unit: String,
    missing: Vec<String>,
    attempt: String,
    files: usize,
    outputs: Vec<OutputRecord>,
    ids: Option<OutputRecord>,
    is_over: bool,
}

impl Attempt {
    /// The hidden name of the next file, in whatever folder it will lie.
    pub fn hidden_name(&mut self) -> String {
        self.files += 1;
        let CommitTarget { job, term, .. } = &self.committer.target;
        format!("{HIDDEN_START}{job}-{term}-{}-{}-{}{HIDDEN_END}", self.unit, self.attempt, self.files)
    }

    /// Where the ids of the rows of this attempt go.
    #[must_use]
    pub fn ids_path(&self) -> String {
        format!("{}/{}-{}.parquet", ids_folder(&self.committer.target.root), self.unit, self.attempt)
    }

    pub fn add_output(&mut self, sealed: Sealed, rows: u64, xxh3: String) {
        self.outputs.push(record_of(sealed, rows, xxh3));
    }

    pub fn set_ids(&mut self, sealed: Sealed, rows: u64, xxh3: String) {
        self.ids = Some(record_of(sealed, rows, xxh3));
    }

    /// Makes the unit done.
    ///
    /// # Errors
    /// [`Error::Fenced`] when a later run took over: then nothing is visible. [`Error::Journal`] when the disk fails: then the next run finds out whether
    /// the record was made.
    pub fn commit(mut self, counts: UnitCounts) -> Result<Outcome> {
        let Committer { target, vault } = self.committer.clone();
        // A record must not outlive the names of the files that it names.
        let folders: BTreeSet<&str> = self.files().map(|file| folder_of(&file.sealed)).collect();
        for folder in folders {
            vault.sync_folder(folder)?;
        }
        lease::check(&vault, &lease_folder(&target.root), target.epoch)?;
        let record = UnitRecord {
            unit: self.unit.clone(),
            attempt: self.attempt.clone(),
            epoch: target.epoch,
            missing: self.missing.clone(),
            outputs: self.outputs.clone(),
            ids: self.ids.clone(),
            rows_in: counts.rows_in,
            rows_done: counts.rows_done,
            rows_out: counts.rows_out,
            quarantined: counts.quarantined,
        };
        let path = format!("{}/{}", units_folder(&target.root, &target.term), self.unit);
        match vault.record(&path, [&record]) {
            Ok(Created::Made(_)) => {
                self.is_over = true;
                promote(&vault, &record)?;
                Ok(Outcome::Committed)
            }
            Ok(Created::Taken) => Ok(Outcome::Lost),
            Ok(Created::NoFolder) => Err(Error::Fenced { path: lease_folder(&target.root) }),
            Ok(Created::Collected) => {
                // A later run has the record, and gives the files their names.
                self.is_over = true;
                Err(Error::Fenced { path: lease_folder(&target.root) })
            }
            Err(error) => {
                // The record may be there, although its making failed: then it needs the files.
                self.is_over = true;
                Err(error)
            }
        }
    }

    fn files(&self) -> impl Iterator<Item = &OutputRecord> {
        self.outputs.iter().chain(&self.ids)
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if !self.is_over {
            for file in self.files() {
                let _collected_later = self.committer.vault.remove(&file.sealed);
            }
        }
    }
}

fn record_of(sealed: Sealed, rows: u64, xxh3: String) -> OutputRecord {
    OutputRecord { sealed: sealed.path, path: sealed.target, bytes: sealed.bytes, rows, xxh3 }
}

/// Gives the files of a record their names. Repeating it is harmless, and so is a second process that does it at the same time.
pub(crate) fn promote(vault: &Vault, record: &UnitRecord) -> Result<()> {
    for file in record.files() {
        let is_whole = |bytes: Option<u64>| bytes == Some(file.bytes);
        // A record was made after the sync of its files: another length is damage, not a crash.
        if vault.size(&file.sealed)?.is_some_and(|bytes| bytes != file.bytes) {
            return Err(Error::OutputChanged { path: file.sealed.clone(), unit: record.unit.clone() });
        }
        if !vault.rename(&file.sealed, &file.path)? && !is_whole(vault.size(&file.path)?) {
            return Err(Error::OutputChanged { path: file.path.clone(), unit: record.unit.clone() });
        }
    }
    Ok(())
}

const HIDDEN_END: &str = ".attempt";

const HIDDEN_START: &str = ".shardmill-job-";

/// The term of a job that a file in the making belongs to; `None` when it is no such file, or another job's.
pub(crate) fn term_of<'a>(job: &str, name: &'a str) -> Option<&'a str> {
    let (term, _rest) = name.strip_prefix(HIDDEN_START)?.strip_prefix(job)?.strip_prefix('-')?.split_once('-')?;
    name.ends_with(HIDDEN_END).then_some(term)
}

pub(crate) fn ids_folder(root: &str) -> String {
    format!("{root}/ids")
}

/// Records that were found damaged; each until its split is done again.
pub(crate) fn damaged_folder(root: &str) -> String {
    format!("{root}/damaged")
}

pub(crate) fn plan_folder(root: &str) -> String {
    format!("{root}/plan")
}

pub(crate) fn lease_folder(root: &str) -> String {
    format!("{root}/lease")
}

const UNITS: &str = "units-";

/// Records of one term. Only its holder makes this folder, and only once: when it is gone, nobody can commit under that term.
pub(crate) fn units_folder(root: &str, term: &str) -> String {
    format!("{root}/{UNITS}{term}")
}

/// The term of a folder for records.
pub(crate) fn term_of_folder(name: &str) -> Option<&str> {
    name.strip_prefix(UNITS)
}
