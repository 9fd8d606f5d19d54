//! `shardmill._native.journal`

use crate::curate::PyPipeline;
use crate::error::{PyShardmillError, PyShardmillResult};
use crate::interrupt::{answered, interruptible, listening};
use crate::plain::Plain;
use crate::plan::{PyInputFile, PySplit};
use pyo3::prelude::*;
use shardmill_jobs::Agreed;
use shardmill_plan::InputFile;
use shardmill_resume::Error;
use shardmill_resume::journal::{
    self, CommitTarget, Journal, JournalOptions, Repair, Repaired, Snapshot, probe,
};
use shardmill_resume::keys::IdSchema;
use shardmill_storage::{AnyDisk, RealNames};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The journal of a job; `None` after it was released.
#[pyclass(name = "Journal", module = "shardmill._native.journal", frozen)]
struct PyJournal(Mutex<Option<Journal>>);

#[pymethods]
impl PyJournal {
    /// Takes the lease and collects the commits of earlier runs. `probes_store` verifies that the
    /// store supports conditional puts.
    #[new]
    #[pyo3(signature = (options, *, probes_store))]
    fn new(py: Python<'_>, options: Plain<JournalOptions>, probes_store: bool) -> PyResult<Self> {
        let options = options.0;
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

    /// The files that no earlier run has planned, and those that are skipped because of their
    /// format. Files that have changed since are rejected, or are among the new ones.
    fn new_files(
        &self,
        py: Python<'_>,
        pipeline: &PyPipeline,
    ) -> PyResult<(Vec<PyInputFile>, Vec<String>)> {
        answered(py, || {
            let (mut files, left_out) = pipeline.pipeline().files()?;
            let mut names = RealNames::default();
            for file in &mut files {
                file.path = names.of(&file.path);
            }
            let new = self.with(|journal| journal.discover(&files))?;
            Ok((new.into_iter().map(PyInputFile).collect(), left_out))
        })
    }

    /// Plans new files; returns the remaining splits. `id_types` are those of earlier runs, with a
    /// name for their origin in messages.
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
    fn plan(
        &self,
        py: Python<'_>,
        pipeline: &PyPipeline,
        new_files: Vec<PyRef<'_, PyInputFile>>,
        id_types: Option<(Plain<IdSchema>, String)>,
        threads: usize,
    ) -> PyResult<Vec<PySplit>> {
        let files: Vec<InputFile> = new_files.iter().map(|file| file.0.clone()).collect();
        let planner = Arc::clone(pipeline.pipeline());
        let (schema, pending) = self.with(|journal| journal.agreed_types(!files.is_empty()))?;
        let agreed = Agreed {
            schema,
            id_types: id_types.map(|(Plain(types), place)| (types, place)),
            pending,
        };
        let splits = interruptible(py, move |cancel| {
            planner.plan(files, &agreed, threads, cancel).map_err(PyShardmillError::from)
        })?;
        answered(py, || {
            let pending = self.with(|journal| {
                journal.extend(&splits, pipeline.pipeline().schema().map(AsRef::as_ref))?;
                Ok(journal.pending())
            })?;
            Ok(pending.into_iter().map(PySplit).collect())
        })
    }

    /// Files with ids that were done before a segment of the plan was created: paths, and hashes
    /// for [`check_content`].
    fn done_ids(&self, segment: usize) -> PyShardmillResult<Vec<(String, String)>> {
        self.with(|journal| Ok(journal.done_ids(segment)))
    }

    /// The id types that the job has agreed on; `None` before the first file was read.
    fn id_types(&self, py: Python<'_>) -> PyResult<Option<Plain<IdSchema>>> {
        Ok(answered(py, || self.with(|journal| journal.id_types()))?.map(Plain))
    }

    /// The columns of the results of functions that the job has agreed on.
    fn results(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        answered(py, || self.with(|journal| journal.results()))
    }

    /// What workers need to commit.
    fn target(&self) -> PyShardmillResult<Plain<CommitTarget>> {
        self.with(|journal| Ok(Plain(journal.commit_target())))
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

    fn with<T>(&self, act: impl FnOnce(&mut Journal) -> Result<T, Error>) -> PyShardmillResult<T> {
        let mut journal = self.lock();
        let released = || Error::Fenced { path: "a released journal".to_owned() };
        Ok(act(journal.as_mut().ok_or_else(released)?)?)
    }
}

/// The content of a checkpoint in numbers.
#[pyfunction]
#[pyo3(signature = (path, *, verifies))]
fn snapshot<'py>(py: Python<'py>, path: &str, verifies: bool) -> PyResult<Bound<'py, PyAny>> {
    let (snapshot, problems) = answered(py, || {
        let snapshot = Snapshot::read(path, Arc::new(AnyDisk::default()))?;
        let problems = if verifies { snapshot.verify()? } else { Vec::new() };
        Ok((snapshot, problems))
    })?;
    Plain(snapshot.summary(problems)).into_pyobject(py)
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

/// Reopens splits with missing or damaged results. Returns the problems found, and these splits.
#[pyfunction]
#[pyo3(signature = (path, *, output, names))]
fn repair(
    py: Python<'_>,
    path: &str,
    output: Option<String>,
    names: BTreeSet<String>,
) -> PyResult<Plain<Repaired>> {
    answered(py, || {
        let request = Repair { path, output, names, is_there: &InputFile::is_current };
        Ok(Plain(journal::repair(&request, Arc::new(AnyDisk::default()))?))
    })
}

/// Sets the current inputs and output of a job.
#[pyfunction]
#[pyo3(signature = (path, *, inputs, output))]
fn relocate(
    py: Python<'_>,
    path: &str,
    inputs: Option<Vec<String>>,
    output: Option<String>,
) -> PyResult<()> {
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
