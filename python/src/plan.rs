//! `shardmill._native.plan`

use crate::arrow_data::ArrowBatch;
use crate::error::{PyShardmillError, PyShardmillResult};
use pyo3::prelude::*;
use pyo3_arrow::{PyArray, PySchema};
use shardmill_plan::Expression;
use std::sync::Arc;

/// Three-valued truth of each row, as a boolean Arrow array.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
fn evaluate(py: Python<'_>, expression: &str, rows: ArrowBatch) -> PyShardmillResult<PyArray> {
    let expression = parsed(expression)?;
    let truth = py.detach(|| expression.evaluate(&rows.0))?;
    Ok(PyArray::from_array_ref(Arc::new(truth)))
}

/// Raises if the expression is not valid for rows of the schema.
#[pyfunction]
fn check(expression: &str, schema: PySchema) -> PyShardmillResult<()> {
    Ok(parsed(expression)?.check(&schema.into_inner())?)
}

fn parsed(expression: &str) -> PyShardmillResult<Expression> {
    serde_json::from_str(expression).map_err(|error| PyShardmillError::option(&format!("expression: {error}")))
}

pub(crate) fn init(parent: &Bound<'_, PyModule>) -> PyResult<()> {
    let module = crate::submodule(parent, "plan")?;
    module.add_function(wrap_pyfunction!(check, &module)?)?;
    module.add_function(wrap_pyfunction!(evaluate, &module)?)
}
