//! `shardmill._native.journal`

use crate::curate::PyPipeline;
use crate::error::{PyShardmillError, PyShardmillResult};
use crate::interrupt::listening;
use pyo3::prelude::*;
use serde::Deserialize;
use shardmill_curate::Error;
use shardmill_resume::Error as ResumeError;
use shardmill_resume::journal::{Fingerprint, Journal, JournalOptions, LEASE_AGE, Snapshot};
use shardmill_storage::{AnyDisk, RealNames};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// As Python sends it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Options {
    path: String,
    fingerprint: Fingerprint,
    output: String,
    reprocesses_changed: bool,
}

/// The journal of a job; `None` when it was let go.
#[pyclass(name = "Journal", module = "shardmill._native.journal", frozen)]
struct PyJournal(Mutex<Option<Journal>>);

#[pymethods]
impl PyJournal {
    /// Takes the lease and collects what earlier runs committed.
    #[new]
    fn new(py: Python<'_>, options: &str) -> PyResult<Self> {
        let options: Options = serde_json::from_str(options).map_err(Error::from).map_err(PyShardmillError::from)?;
        let options = JournalOptions {
            path: options.path,
            fingerprint: options.fingerprint,
            output: options.output,
            reprocesses_changed: options.reprocesses_changed,
            lease_age: LEASE_AGE,
        };
        let journal = listening(py, || Journal::open(&options, Arc::new(AnyDisk::default())))?.map_err(PyShardmillError::from)?;
        Ok(Self(Mutex::new(Some(journal))))
    }

    fn warnings(&self) -> PyShardmillResult<Vec<String>> {
        self.with(|journal| Ok(journal.warnings().to_vec()))
    }

    /// Splits that earlier runs committed.
    fn committed(&self) -> PyShardmillResult<usize> {
        self.with(|journal| Ok(journal.committed()))
    }

    fn is_resumed(&self) -> PyShardmillResult<bool> {
        self.with(|journal| Ok(journal.is_resumed()))
    }

    /// The files that no earlier run has planned, each as JSON. Those that have changed since are refused, or among them.
    fn new_files(&self, py: Python<'_>, pipeline: &PyPipeline) -> PyResult<Vec<String>> {
        let told: PyShardmillResult<Vec<String>> = listening(py, || {
            let mut files = pipeline.pipeline().files()?;
            let mut names = RealNames::default();
            for file in &mut files {
                file.path = names.of(&file.path);
            }
            let new = self.with(|journal| journal.discover(&files))?;
            Ok(new.iter().map(serde_json::to_string).collect::<Result<_, _>>().map_err(Error::from)?)
        })?;
        Ok(told?)
    }

    /// Plans new files; returns the splits that are left to be run, each as JSON.
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
    fn plan(&self, py: Python<'_>, pipeline: &PyPipeline, new_files: Vec<String>) -> PyResult<Vec<String>> {
        let told: PyShardmillResult<Vec<String>> = listening(py, || {
            let files = new_files.iter().map(|file| serde_json::from_str(file)).collect::<Result<Vec<_>, _>>().map_err(Error::from)?;
            let splits = pipeline.pipeline().cut(files)?;
            let pending = self.with(|journal| {
                journal.extend(&splits)?;
                Ok(journal.pending())
            })?;
            Ok(pending.iter().map(serde_json::to_string).collect::<Result<_, _>>().map_err(Error::from)?)
        })?;
        Ok(told?)
    }

    /// Paths of files with ids that were done before a segment of the plan was made.
    fn done_ids(&self, py: Python<'_>, segment: usize) -> PyResult<Vec<String>> {
        let told: PyShardmillResult<Vec<String>> =
            listening(py, || self.with(|journal| Ok(journal.done_ids(segment)?.into_iter().map(|file| file.path).collect())))?;
        Ok(told?)
    }

    /// What workers commit with, as JSON.
    fn target(&self) -> PyShardmillResult<String> {
        let target = self.with(|journal| Ok(journal.commit_target()))?;
        Ok(serde_json::to_string(&target).map_err(Error::from)?)
    }

    /// Ends the job; with `deletes`, the checkpoint goes. Returns a warning when it could not.
    fn finish(&self, py: Python<'_>, deletes: bool) -> PyResult<Option<String>> {
        let told: PyShardmillResult<Option<String>> = listening(py, || match self.lock().take() {
            Some(journal) => Ok(journal.finish(deletes)?),
            None => Ok(None),
        })?;
        Ok(told?)
    }

    /// Lets the lease go.
    fn release(&self, py: Python<'_>) {
        py.detach(|| drop(self.lock().take()));
    }
}

impl PyJournal {
    fn lock(&self) -> MutexGuard<'_, Option<Journal>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(&self, act: impl FnOnce(&mut Journal) -> Result<T, ResumeError>) -> PyShardmillResult<T> {
        let mut journal = self.lock();
        let released = || ResumeError::Fenced { path: "a journal that was let go".to_owned() };
        Ok(act(journal.as_mut().ok_or_else(released)?)?)
    }
}

/// What a checkpoint holds, as JSON.
#[pyfunction]
#[pyo3(signature = (path, *, verifies))]
fn snapshot(py: Python<'_>, path: &str, verifies: bool) -> PyShardmillResult<String> {
    py.detach(|| {
        let snapshot = Snapshot::read(path, Arc::new(AnyDisk::default()))?;
        let problems = if verifies { snapshot.verify()? } else { Vec::new() };
        let problem = |problem: &shardmill_resume::journal::Problem| serde_json::json!({"path": problem.path, "unit": problem.unit, "problem": problem.problem});
        let sum = |count: fn(&shardmill_resume::journal::UnitRecord) -> u64| snapshot.records.values().map(count).sum::<u64>();
        let told = serde_json::json!({
            "path": path,
            "job": snapshot.job,
            "output": snapshot.output,
            "fingerprint": snapshot.fingerprint,
            "holder": snapshot.holder.as_ref().map(ToString::to_string),
            "splits": snapshot.planned(),
            "committed_splits": snapshot.records.len(),
            "segments": snapshot.segments.len(),
            "rows_in": sum(|record| record.rows_in),
            "rows_done_before": sum(|record| record.rows_done),
            "rows_out": sum(|record| record.rows_out),
            "quarantined": sum(|record| record.quarantined),
            "ids": sum(|record| record.ids.as_ref().map_or(0, |ids| ids.rows)),
            "output_files": sum(|record| record.outputs.len() as u64),
            "output_bytes": sum(|record| record.outputs.iter().map(|output| output.bytes).sum()),
            "warnings": snapshot.warnings,
            "problems": problems.iter().map(problem).collect::<Vec<_>>(),
        });
        Ok(told.to_string())
    })
}

/// Puts the records of all earlier runs into one file.
#[pyfunction]
fn compact(py: Python<'_>, path: &str) -> PyShardmillResult<()> {
    py.detach(|| {
        let disk = Arc::new(AnyDisk::default());
        let snapshot = Snapshot::read(path, Arc::<AnyDisk>::clone(&disk))?;
        let options = JournalOptions {
            path: path.to_owned(),
            fingerprint: snapshot.fingerprint,
            output: snapshot.output,
            reprocesses_changed: false,
            lease_age: LEASE_AGE,
        };
        Ok(Journal::open(&options, disk)?.compact()?)
    })
}

pub(crate) fn init(parent: &Bound<'_, PyModule>) -> PyResult<()> {
    let module = crate::submodule(parent, "journal")?;
    module.add_class::<PyJournal>()?;
    module.add_function(wrap_pyfunction!(snapshot, &module)?)?;
    module.add_function(wrap_pyfunction!(compact, &module)?)
}
