//! `shardmill._native.curate`

use crate::calls::Calls;
use crate::delivery::{Stop, deliver};
use crate::error::PyShardmillError;
use crate::interrupt::{interruptible, listening};
use crate::plain::Plain;
use crate::plan::{PyInputFile, PySplit};
use crate::user_stages::stage_of;
use arrow_schema::{Schema, SchemaRef};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3_arrow::PySchema;
use shardmill_documents::schema::SchemaChoice;
use shardmill_engine::Cancel;
use shardmill_formats::table::column_type_name;
use shardmill_jobs::SplitReport;
use shardmill_jobs::{CheckpointOptions, Checkpointing, Choices, Passed, Passes, Pipeline, Spec};
use shardmill_plan::schema::{schema_of_text, schema_text};
use shardmill_plan::{InputFile, Split};
use std::sync::Arc;

#[pyclass(name = "Pipeline", module = "shardmill._native.curate", frozen)]
pub(crate) struct PyPipeline {
    pipeline: Arc<Pipeline>,
    calls: Calls,
}

#[pymethods]
impl PyPipeline {
    /// `source` and `sink` are the columns that the user fixes there: all of them,
    /// and types of some.
    #[new]
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
    #[pyo3(signature = (
        spec, user_stages, *,
        source=(None, None), sink=(None, None), checkpoint=None, schema=None, results=None,
    ))]
    fn new(
        spec: Plain<Spec>,
        user_stages: Vec<Bound<'_, PyAny>>,
        source: (Option<PySchema>, Option<PySchema>),
        sink: (Option<PySchema>, Option<PySchema>),
        checkpoint: Option<Plain<CheckpointOptions>>,
        schema: Option<&str>,
        results: Option<Vec<String>>,
    ) -> PyResult<Self> {
        let calls = Calls::new();
        let stages =
            user_stages.iter().map(|stage| stage_of(stage, calls)).collect::<PyResult<Vec<_>>>()?;
        let choice = |(schema, overrides): (Option<PySchema>, Option<PySchema>)| SchemaChoice {
            schema: schema.map(PySchema::into_inner),
            overrides: overrides.map(PySchema::into_inner),
        };
        let choices = Choices { source: choice(source), sink: choice(sink) };
        let mut pipeline =
            Pipeline::new(spec.0, &stages, choices).map_err(PyShardmillError::from)?;
        if let Some(Plain(options)) = checkpoint {
            pipeline = pipeline
                .with_checkpoint(Checkpointing::open(options).map_err(PyShardmillError::from)?);
        }
        if let Some(text) = schema {
            pipeline = pipeline.with_schema(parsed_schema(text)?);
        }
        let results = results
            .unwrap_or_default()
            .iter()
            .map(|text| parsed_schema(text))
            .collect::<PyResult<_>>()?;
        pipeline = pipeline.with_results(results);
        Ok(Self { pipeline: Arc::new(pipeline), calls })
    }

    /// The splits, and the files below the paths that are skipped because of their format.
    fn splits(&self, py: Python<'_>, threads: usize) -> PyResult<(Vec<PySplit>, Vec<String>)> {
        let pipeline = Arc::clone(&self.pipeline);
        let (splits, left_out) = interruptible(py, move |cancel| {
            pipeline.splits(threads, cancel).map_err(PyShardmillError::from)
        })?;
        Ok((splits.into_iter().map(PySplit).collect(), left_out))
    }

    /// The passes that planning `files`, by default all files of the job, needs, for tasks on other
    /// machines; `None` if it needs none.
    #[pyo3(signature = (files, threads))]
    fn passes(
        &self,
        py: Python<'_>,
        files: Option<Vec<PyRef<'_, PyInputFile>>>,
        threads: usize,
    ) -> PyResult<Option<Plain<Passes>>> {
        let files: Option<Vec<InputFile>> =
            files.map(|files| files.iter().map(|file| file.0.clone()).collect());
        let pipeline = Arc::clone(&self.pipeline);
        let passes = interruptible(py, move |cancel| {
            pipeline.passes(files, threads, cancel).map_err(PyShardmillError::from)
        })?;
        Ok(passes.map(Plain))
    }

    /// Makes the pass over one of the files of `passes`.
    fn pass_over(
        &self,
        py: Python<'_>,
        passes: Plain<Passes>,
        path: String,
    ) -> PyResult<Plain<Passed>> {
        let pipeline = Arc::clone(&self.pipeline);
        let passed = interruptible(py, move |_cancel| {
            pipeline.pass(&passes.0, &path).map_err(PyShardmillError::from)
        })?;
        Ok(Plain(passed))
    }

    /// Adds what the passes found, in the order of their files.
    fn add_passed(&self, passes: Plain<Passes>, found: Vec<Plain<Passed>>) {
        let found = found.into_iter().map(|Plain(passed)| passed).collect();
        self.pipeline.add_passed(passes.0, found);
    }

    /// The schema on which the files of a job have agreed, for other machines;
    /// `None` before it is planned.
    fn schema(&self) -> Option<String> {
        self.pipeline.schema().map(|schema| schema_text(schema))
    }

    /// The columns of the results of functions, for other machines; `None` for those that are not
    /// decided yet.
    fn results(&self) -> Vec<Option<String>> {
        self.pipeline
            .results()
            .iter()
            .map(|schema| schema.as_ref().map(|schema| schema_text(schema)))
            .collect()
    }

    /// The columns that the user fixes at the source and at the sink: their names and types.
    fn declared(&self) -> [Option<Vec<(String, String)>>; 4] {
        let Choices { source, sink } = self.pipeline.choices();
        [&source.schema, &source.overrides, &sink.schema, &sink.overrides]
            .map(|schema| schema.as_ref().map(|schema| described(schema)))
    }

    /// The columns of that schema, and their types.
    fn columns(&self) -> Option<Vec<(String, String)>> {
        self.pipeline.schema().map(|schema| described(schema))
    }

    /// Checks that the names in the options exist in the input of the splits.
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
    fn check_names(&self, py: Python<'_>, splits: Vec<PyRef<'_, PySplit>>) -> PyResult<()> {
        let splits = cloned(&splits);
        let pipeline = Arc::clone(&self.pipeline);
        interruptible(py, move |cancel| {
            pipeline.check_names(&splits, cancel).map_err(PyShardmillError::from)
        })
    }

    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
    #[pyo3(signature = (splits, *, is_resumed))]
    fn prepare(
        &self,
        py: Python<'_>,
        splits: Vec<PyRef<'_, PySplit>>,
        is_resumed: bool,
    ) -> PyResult<()> {
        let splits = cloned(&splits);
        Ok(listening(py, || self.pipeline.prepare(&splits, is_resumed))?
            .map_err(PyShardmillError::from)?)
    }

    /// Runs the splits on threads; `on_report` receives each split's report, in order.
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
    fn run(
        &self,
        py: Python<'_>,
        splits: Vec<PyRef<'_, PySplit>>,
        workers: usize,
        on_report: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.drive(py, cloned(&splits), workers, |report| {
            on_report.call1((Plain(report),)).map(drop)
        })
    }

    /// Runs one split and returns its report. The calling thread waits, so that Ctrl-C and a
    /// cancelled Ray task stop it.
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
    fn run_split(&self, py: Python<'_>, split: PyRef<'_, PySplit>) -> PyResult<Plain<SplitReport>> {
        let mut only = None;
        self.drive(py, vec![split.0.clone()], 1, |report| {
            only = Some(Plain(report));
            Ok(())
        })?;
        only.ok_or_else(|| PyRuntimeError::new_err("the split has no report"))
    }
}

impl PyPipeline {
    pub(crate) fn pipeline(&self) -> &Arc<Pipeline> {
        &self.pipeline
    }

    fn drive(
        &self,
        py: Python<'_>,
        splits: Vec<Split>,
        workers: usize,
        on_report: impl FnMut(SplitReport) -> PyResult<()>,
    ) -> PyResult<()> {
        let cancel = Cancel::default();
        let run = self.pipeline.run(splits, workers, &cancel).map_err(PyShardmillError::from)?;
        deliver(
            py,
            run,
            on_report,
            &StopPipeline { py, pipeline: &self.pipeline, calls: self.calls, cancel },
        )
    }
}

struct StopPipeline<'a> {
    py: Python<'a>,
    pipeline: &'a Pipeline,
    calls: Calls,
    cancel: Cancel,
}

impl Stop for StopPipeline<'_> {
    fn stop(&self) {
        self.cancel.cancel();
        // The error that stopped the run is more useful than one of the interruption.
        let _uninterrupted = self.calls.interrupt(self.py);
    }

    fn abandon(&self) {
        self.pipeline.abandon();
    }
}

fn parsed_schema(text: &str) -> PyResult<SchemaRef> {
    Ok(Arc::new(
        schema_of_text(text).map_err(|error| PyShardmillError::option(&error.to_string()))?,
    ))
}

fn described(schema: &Schema) -> Vec<(String, String)> {
    schema.fields().iter().map(|field| (field.name().clone(), column_type_name(field))).collect()
}

fn cloned(splits: &[PyRef<'_, PySplit>]) -> Vec<Split> {
    splits.iter().map(|split| split.0.clone()).collect()
}

pub(crate) fn init(parent: &Bound<'_, PyModule>) -> PyResult<()> {
    crate::submodule(parent, "curate")?.add_class::<PyPipeline>()
}
