//! Passes over files before a job is planned, for executors whose tasks run on other machines.

use super::Pipeline;
use crate::spec::SourceOptions;
use crate::tables::{Passed, PassedFiles, Passes};
use crate::{Error, Result};
use shardmill_engine::Cancel;
use shardmill_plan::InputFile;
use std::sync::PoisonError;

impl Pipeline {
    /// The passes that planning `files`, by default all input files, needs, for tasks on other
    /// machines. `None` if the columns are in footers, if the user declares them, or if these
    /// passes were added. Documents need no pass, and their files are not listed.
    ///
    /// # Errors
    /// As [`Pipeline::files`], and when the start of a text file cannot be read.
    pub fn passes(
        &self,
        files: Option<Vec<InputFile>>,
        threads: usize,
        cancel: &Cancel,
    ) -> Result<Option<Passes>> {
        let SourceOptions::Table(options) = &self.spec.source else { return Ok(None) };
        let files = files.map_or_else(|| self.files().map(|found| found.0), Ok)?;
        let passed = self.passed.lock().unwrap_or_else(PoisonError::into_inner);
        if passed.as_ref().is_some_and(|passed| passed.is_of(&files)) {
            return Ok(None);
        }
        self.table_input(options).passes(&files, threads, cancel)
    }

    /// Makes the pass over one of the files of `passes`.
    ///
    /// # Errors
    /// When the file cannot be read, or is not of the format of the job.
    pub fn pass(&self, passes: &Passes, path: &str) -> Result<Passed> {
        match &self.spec.source {
            SourceOptions::Table(options) => self.table_input(options).pass(passes, path),
            _ => Err(Error::option("passes", "are of files of a TableSource".to_owned())),
        }
    }

    /// Adds what the passes found, in the order of `passes.paths`. Planning the same files then
    /// opens none of them.
    pub fn add_passed(&self, passes: Passes, found: Vec<Passed>) {
        *self.passed.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(PassedFiles::new(passes, found));
    }
}
