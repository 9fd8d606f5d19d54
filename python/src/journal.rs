//! `shardmill._native.journal`

use crate::curate::PyPipeline;
use crate::error::{PyShardmillError, PyShardmillResult};
use crate::interrupt::{answered, interruptible, listening};
use crate::resume::known_types;
use pyo3::prelude::*;
use serde::Deserialize;
use shardmill_curate::{Agreed, Error};
use shardmill_plan::InputFile;
use shardmill_plan::schema::{schema_of_text, schema_text};
use shardmill_resume::Error as ResumeError;
use shardmill_resume::journal::{self, Journal, JournalOptions, Problem, Repair, Snapshot, UnitRecord, probe};
use shardmill_storage::{AnyDisk, RealNames};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// As sent by Python.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Options {
    journal: JournalOptions,
    /// Whether to verify that the store supports conditional puts.
    probes_store: bool,
}

/// The journal of a job; `None` after it was released.
#[pyclass(name = "Journal", module = "shardmill._native.journal", frozen)]
struct PyJournal(Mutex<Option<Journal>>);

#[pymethods]
impl PyJournal {
    /// Takes the lease and collects the commits of earlier runs.
    #[new]
    fn new(py: Python<'_>, options: &str) -> PyResult<Self> {
        let Options { journal: options, probes_store } = serde_json::from_str(options).map_err(Error::from).map_err(PyShardmillError::from)?;
        let open = || {
            if probes_store {
                probe(&options.path, Arc::new(AnyDisk::default()))?;
            }
            Journal::open(&options, Arc::new(AnyDisk::default()))
        };
        let journal = listening(py, open)?.map_err(PyShardmillError::from)?;
        Ok(Self(Mutex::new(Some(journal))))
    }

    fn warnings(&self) -> PyShardmillResult<Vec<String>> {
        self.with(|journal| Ok(journal.warnings().to_vec()))
    }

    /// Number of splits that earlier runs have done.
    fn committed(&self) -> PyShardmillResult<usize> {
        self.with(|journal| Ok(journal.committed()))
    }

    /// Number of splits with published outputs of earlier runs, including those that are run again.
    fn published(&self) -> PyShardmillResult<usize> {
        self.with(|journal| Ok(journal.published()))
    }

    /// Whether splits wait for others whose ids were lost: a later run does them.
    fn holds_back(&self) -> PyShardmillResult<bool> {
        self.with(|journal| Ok(journal.holds_back()))
    }

    fn is_resumed(&self) -> PyShardmillResult<bool> {
        self.with(|journal| Ok(journal.is_resumed()))
    }

    /// The files that no earlier run has planned, each as JSON, and those that are skipped because of their format. Files that have changed since are
    /// rejected, or are among the new ones.
    fn new_files(&self, py: Python<'_>, pipeline: &PyPipeline) -> PyResult<(Vec<String>, Vec<String>)> {
        answered(py, || {
            let (mut files, left_out) = pipeline.pipeline().files()?;
            let mut names = RealNames::default();
            for file in &mut files {
                file.path = names.of(&file.path);
            }
            let new = self.with(|journal| journal.discover(&files))?;
            Ok((new.iter().map(serde_json::to_string).collect::<Result<_, _>>().map_err(Error::from)?, left_out))
        })
    }

    /// Plans new files; returns the remaining splits, each as JSON. `id_types` are those of earlier runs, with a name for their origin in messages.
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
    fn plan(
        &self,
        py: Python<'_>,
        pipeline: &PyPipeline,
        new_files: Vec<String>,
        id_types: Option<(String, String)>,
        threads: usize,
    ) -> PyResult<Vec<String>> {
        let files = new_files.iter().map(|file| serde_json::from_str(file)).collect::<Result<Vec<_>, _>>().map_err(Error::from);
        let files = files.map_err(PyShardmillError::from)?;
        let planner = Arc::clone(pipeline.pipeline());
        let (schema, pending) = self.with(|journal| {
            // Until something is committed, new files may change the types of the job.
            let holds = files.is_empty() || journal.committed() > 0 || journal.published() > 0;
            let mut pending: Vec<InputFile> = if holds { Vec::new() } else { journal.pending().into_iter().flat_map(|split| split.files).collect() };
            // Parts of a file are planned one after another.
            pending.dedup_by(|part, before| part.path == before.path);
            Ok((journal.schema().filter(|_| holds).map(str::to_owned), pending))
        })?;
        let schema = schema.map(|text| schema_of_text(&text).map(Arc::new)).transpose();
        let schema = schema.map_err(|other| PyShardmillError::from(ResumeError::Arrow { source: other }))?;
        let agreed = Agreed { schema, id_types: id_types.map(known_types).transpose()?, pending };
        let splits = interruptible(py, move |cancel| planner.plan(files, &agreed, threads, cancel).map_err(PyShardmillError::from))?;
        answered(py, || {
            let pending = self.with(|journal| {
                journal.extend(&splits, pipeline.pipeline().schema().map(|schema| schema_text(schema)))?;
                Ok(journal.pending())
            })?;
            Ok(pending.iter().map(serde_json::to_string).collect::<Result<_, _>>().map_err(Error::from)?)
        })
    }

    /// Files with ids that were done before a segment of the plan was created: paths, and hashes for [`check_content`].
    fn done_ids(&self, segment: usize) -> PyShardmillResult<Vec<(String, String)>> {
        self.with(|journal| Ok(journal.done_ids(segment)))
    }

    /// The id types that the job has agreed on, as JSON; `None` before the first file was read.
    fn id_types(&self, py: Python<'_>) -> PyResult<Option<String>> {
        answered(py, || self.with(|journal| journal.agreed("id_types")))
    }

    /// The columns of the results of functions that the job has agreed on.
    fn results(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        answered(py, || self.with(|journal| journal.results()))
    }

    /// What workers need to commit, as JSON.
    fn target(&self) -> PyShardmillResult<String> {
        let target = self.with(|journal| Ok(journal.commit_target()))?;
        Ok(serde_json::to_string(&target).map_err(Error::from)?)
    }

    /// Ends the job; with `deletes`, removes the checkpoint. Returns a warning if that failed.
    fn finish(&self, py: Python<'_>, deletes: bool) -> PyResult<Option<String>> {
        answered(py, || match self.lock().take() {
            Some(journal) => Ok(journal.finish(deletes)?),
            None => Ok(None),
        })
    }

    /// Releases the lease.
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
        let released = || ResumeError::Fenced { path: "a released journal".to_owned() };
        Ok(act(journal.as_mut().ok_or_else(released)?)?)
    }
}

/// The content of a checkpoint as JSON.
#[pyfunction]
#[pyo3(signature = (path, *, verifies))]
fn snapshot(py: Python<'_>, path: &str, verifies: bool) -> PyResult<String> {
    answered(py, || {
        let snapshot = Snapshot::read(path, Arc::new(AnyDisk::default()))?;
        let problems = if verifies { snapshot.verify()? } else { Vec::new() };
        let sum = |count: fn(&UnitRecord) -> u64| snapshot.records.values().map(count).sum::<u64>();
        let all = serde_json::json!({
            "path": path,
            "job": snapshot.job,
            "output": snapshot.places.output,
            "fingerprint": snapshot.fingerprint,
            "holder": snapshot.holder.as_ref().map(ToString::to_string),
            "splits": snapshot.planned(),
            "committed_splits": snapshot.records.len() - snapshot.open_units(),
            "open_splits": snapshot.open_units(),
            "segments": snapshot.segments.len(),
            "rows_in": sum(|record| record.rows_in),
            "rows_done_before": sum(|record| record.rows_done),
            "rows_out": sum(|record| record.rows_out),
            "quarantined": sum(|record| record.quarantined),
            "ids": sum(|record| record.ids.as_ref().map_or(0, |ids| ids.rows)),
            "output_files": sum(|record| record.outputs.len() as u64),
            "output_bytes": sum(|record| record.outputs.iter().map(|output| output.bytes).sum()),
            "warnings": snapshot.warnings,
            "problems": problems.iter().map(told).collect::<Vec<_>>(),
        });
        Ok(all.to_string())
    })
}

/// Rejects files whose content does not match their recorded hash.
#[pyfunction]
fn check_content(py: Python<'_>, files: Vec<(String, String)>) -> PyResult<()> {
    answered(py, || Ok(journal::check_content(files, Arc::new(AnyDisk::default()))?))
}

/// Merges the records of all earlier runs into one file.
#[pyfunction]
fn compact(py: Python<'_>, path: &str) -> PyResult<()> {
    answered(py, || {
        let disk = Arc::new(AnyDisk::default());
        let snapshot = Snapshot::read(path, Arc::<AnyDisk>::clone(&disk))?;
        Ok(Journal::open(&snapshot.options, disk)?.compact()?)
    })
}

/// Reopens splits with missing or damaged results. Returns the problems found, as JSON.
#[pyfunction]
#[pyo3(signature = (path, *, output, names))]
fn repair(py: Python<'_>, path: &str, output: Option<String>, names: BTreeSet<String>) -> PyResult<String> {
    answered(py, || {
        let is_there = |planned: &InputFile| {
            InputFile::of(planned.path.clone()).is_ok_and(|file| (file.size, file.modified_ns) == (planned.size, planned.modified_ns))
        };
        let done = journal::repair(&Repair { path, output, names, is_there: &is_there }, Arc::new(AnyDisk::default()))?;
        Ok(serde_json::json!({
            "problems": done.problems.iter().map(told).collect::<Vec<_>>(),
            "reopened": done.reopened,
            "without_input": done.without_input,
        })
        .to_string())
    })
}

fn told(problem: &Problem) -> serde_json::Value {
    serde_json::json!({"path": problem.path, "unit": problem.unit, "problem": problem.problem})
}

/// Sets the current inputs and output of a job.
#[pyfunction]
#[pyo3(signature = (path, *, inputs, output))]
fn relocate(py: Python<'_>, path: &str, inputs: Option<Vec<String>>, output: Option<String>) -> PyResult<()> {
    answered(py, || Ok(journal::relocate(path, inputs, output, Arc::new(AnyDisk::default()))?))
}

pub(crate) fn init(parent: &Bound<'_, PyModule>) -> PyResult<()> {
    let module = crate::submodule(parent, "journal")?;
    module.add_class::<PyJournal>()?;
    module.add_function(wrap_pyfunction!(snapshot, &module)?)?;
    module.add_function(wrap_pyfunction!(check_content, &module)?)?;
    module.add_function(wrap_pyfunction!(repair, &module)?)?;
    module.add_function(wrap_pyfunction!(relocate, &module)?)?;
    module.add_function(wrap_pyfunction!(compact, &module)?)
}
