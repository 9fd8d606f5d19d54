//! A journal as it is, for a person to look at: nothing is taken, changed or removed.

use super::plan::{self, Segment};
use super::record::{OutputRecord, UnitRecord};
use super::vault::Vault;
use super::{Fingerprint, Holder, LEASE_AGE, attempt, lease, read_job, recover};
use crate::{Error, Result};
use shardmill_storage::Disk;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a checkpoint holds.
#[derive(Debug)]
pub struct Snapshot {
    pub job: String,
    pub fingerprint: Fingerprint,
    /// The folder of the outputs.
    pub output: String,
    pub segments: Vec<Segment>,
    pub records: BTreeMap<String, UnitRecord>,
    /// Who works on the job now.
    pub holder: Option<Holder>,
    pub warnings: Vec<String>,
    vault: Vault,
}

/// A file that is not as its record says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub path: String,
    pub unit: String,
    pub problem: String,
}

impl Snapshot {
    /// # Errors
    /// [`Error::NoJob`] for a folder without a checkpoint; [`Error::Damaged`].
    pub fn read(path: &str, disk: Arc<dyn Disk>) -> Result<Self> {
        let vault = Vault::new(disk);
        let job = read_job(&vault, path)?.ok_or_else(|| Error::NoJob { path: path.to_owned() })?;
        let root = format!("{path}/{}", job.job);
        let recovered = recover::read_all(&vault, &root)?;
        Ok(Self {
            holder: lease::holder(&vault, &attempt::lease_folder(&root), LEASE_AGE)?,
            segments: plan::load(&vault, &root)?,
            records: recovered.records,
            warnings: recovered.warnings,
            job: job.job,
            fingerprint: job.fingerprint,
            output: job.output,
            vault,
        })
    }

    /// Units that were planned; some may be without work, because their files are gone.
    #[must_use]
    pub fn planned(&self) -> usize {
        self.segments.iter().map(|segment| segment.splits.len()).sum()
    }

    /// Holds each file of each record against the disk.
    ///
    /// # Errors
    /// When a file cannot be looked at.
    pub fn verify(&self) -> Result<Vec<Problem>> {
        let mut problems = Vec::new();
        for record in self.records.values() {
            for file in record.files() {
                if let Some(problem) = self.problem_of(file)? {
                    problems.push(Problem { path: file.path.clone(), unit: record.unit.clone(), problem });
                }
            }
        }
        Ok(problems)
    }

    fn problem_of(&self, file: &OutputRecord) -> Result<Option<String>> {
        let size = match self.vault.size(&file.path)? {
            Some(size) => size,
            // A record that a run has just made; its file gets its name next.
            None if self.vault.size(&file.sealed)? == Some(file.bytes) => return Ok(None),
            None => return Ok(Some("it is missing".to_owned())),
        };
        if size != file.bytes {
            return Ok(Some(format!("it has {size} bytes, its record says {}", file.bytes)));
        }
        if file.xxh3.is_empty() {
            return Ok(None);
        }
        let hash = self.vault.hash(&file.path)?;
        Ok((hash != file.xxh3).then(|| "its content changed".to_owned()))
    }
}
