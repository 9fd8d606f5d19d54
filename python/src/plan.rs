//! `shardmill._native.plan`

use crate::arrow_data::ArrowBatch;
use crate::error::{PyShardmillError, PyShardmillResult};
use crate::plain::Plain;
use pyo3::prelude::*;
use pyo3_arrow::{PyArray, PySchema};
use shardmill_plan::{Expression, InputFile, Split};
use std::sync::Arc;

/// Three-valued truth of each row, as a boolean Arrow array.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
fn evaluate(
    py: Python<'_>,
    expression: Plain<Expression>,
    rows: ArrowBatch,
) -> PyShardmillResult<PyArray> {
    let truth = py.detach(|| expression.0.evaluate(&rows.0))?;
    Ok(PyArray::from_array_ref(Arc::new(truth)))
}

/// Raises if the expression is not valid for rows of the schema.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
fn check(expression: Plain<Expression>, schema: PySchema) -> PyShardmillResult<()> {
    Ok(expression.0.check(&schema.into_inner())?)
}

/// A file of a job, in the version that was found.
#[pyclass(name = "InputFile", module = "shardmill._native.plan", frozen)]
pub(crate) struct PyInputFile(pub(crate) InputFile);

#[pymethods]
impl PyInputFile {
    #[getter]
    fn path(&self) -> &str {
        &self.0.path
    }
}

/// A unit of work of a job. Other machines get it as JSON.
#[pyclass(name = "Split", module = "shardmill._native.plan", frozen)]
pub(crate) struct PySplit(pub(crate) Split);

#[pymethods]
impl PySplit {
    #[new]
    fn new(text: &str) -> PyShardmillResult<Self> {
        let split = serde_json::from_str(text)
            .map_err(|error| PyShardmillError::option(&format!("split: {error}")))?;
        Ok(Self(split))
    }

    fn __getnewargs__(&self) -> PyShardmillResult<(String,)> {
        Ok((serde_json::to_string(&self.0)
            .map_err(|error| PyShardmillError::option(&format!("split: {error}")))?,))
    }

    /// Index of its segment of the plan, in a job that has a journal.
    #[getter]
    fn segment(&self) -> Option<usize> {
        self.0.unit.as_ref().map(|unit| unit.segment)
    }
}

pub(crate) fn init(parent: &Bound<'_, PyModule>) -> PyResult<()> {
    let module = crate::submodule(parent, "plan")?;
    module.add_class::<PyInputFile>()?;
    module.add_class::<PySplit>()?;
    module.add_function(wrap_pyfunction!(check, &module)?)?;
    module.add_function(wrap_pyfunction!(evaluate, &module)?)
}
