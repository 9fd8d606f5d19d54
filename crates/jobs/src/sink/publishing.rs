//! How files get their names: immediately, or all files of a split together
//! with the record of an attempt.

use super::CountingFile;
use super::name::{Digits, file_stem};
use crate::Result;
use crate::report::{OutputFile, SplitReport};
use shardmill_documents::Lineage;
use shardmill_resume::journal::Attempt;
use shardmill_storage::{AnyStore, Replace, Staged, Store, Unpublished};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// State shared by the files of a split.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Publishing<'a> {
    pub replace: Replace,
    /// The unpublished files of the whole run.
    pub unpublished: &'a Unpublished,
    /// Files wait for its commit; without one, each is published when it is complete.
    pub attempt: Option<&'a Mutex<Attempt>>,
    /// The version of sources that the job has read before in another version.
    pub version: &'a str,
}

impl Publishing<'_> {
    pub(crate) fn stem(&self, lineage: &Lineage, digits: Digits) -> String {
        let Some(attempt) = self.attempt else { return file_stem(lineage, self.version, digits) };
        let attempt = attempt.lock().unwrap_or_else(PoisonError::into_inner);
        let sources = lineage.sources.iter().map(|source| attempt.first_path(source)).collect();
        file_stem(&Lineage { sources, ..*lineage }, self.version, digits)
    }

    /// Starts a file.
    pub(crate) fn file(&self, path: &str) -> Result<CountingFile> {
        let staged = match self.attempt {
            Some(attempt) => {
                let hidden = attempt.lock().unwrap_or_else(PoisonError::into_inner).hidden_name();
                AnyStore.stage_as(path, &hidden, self.unpublished)?
            }
            None => AnyStore.stage(path, self.unpublished)?,
        };
        Ok(CountingFile::new(staged, path, self.attempt.is_some()))
    }
}

/// A complete file that is not yet synced and named.
pub(crate) struct Finished {
    staged: Box<dyn Staged>,
    file: OutputFile,
    hash: String,
}

impl Finished {
    pub(crate) fn new(staged: CountingFile, file: OutputFile) -> Result<Self> {
        let (staged, hash) = staged.into_staged()?;
        Ok(Self { staged, file, hash })
    }

    /// Its future name.
    pub(crate) fn path(&self) -> &str {
        &self.file.path
    }

    /// Syncs the file and gives it its name, or passes it to the attempt; needs no core.
    ///
    /// # Errors
    /// As [`Staged::publish`].
    pub(crate) fn publish(
        mut self,
        publishing: Publishing<'_>,
        stage: usize,
        name: &str,
        report: &mut SplitReport,
    ) -> Result<()> {
        let start = Instant::now();
        match publishing.attempt {
            None => self.staged.publish(publishing.replace)?,
            Some(attempt) => {
                let sealed = self.staged.seal()?;
                self.file.path = attempt.lock().unwrap_or_else(PoisonError::into_inner).add_output(
                    sealed,
                    self.file.rows,
                    self.hash,
                );
            }
        }
        let entry = report.stage(stage, name);
        entry.spend(start.elapsed());
        entry.custom("publish_s", start.elapsed().as_secs_f64());
        report.outputs.push(self.file);
        Ok(())
    }

    /// Passes the file to the attempt as the ids of its rows.
    ///
    /// # Errors
    /// As [`Staged::seal`].
    pub(crate) fn record_ids(self, attempt: &Mutex<Attempt>) -> Result<()> {
        let sealed = self.staged.seal()?;
        attempt.lock().unwrap_or_else(PoisonError::into_inner).set_ids(
            &sealed,
            self.file.rows,
            self.hash,
        );
        Ok(())
    }
}
