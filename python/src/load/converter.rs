//! How rows leave a loader.

use super::PyDataset;
use crate::columns::{fill_values, kind, nulls};
use crate::error::PyShardmillError;
use crate::packing::PyPackColumns;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use pyo3_arrow::PySchema;
use shardmill_load::{OutputConverter, OutputKind};
use std::sync::Arc;

/// What becomes of the rows of a superbatch.
#[pyclass(name = "OutputConverter", module = "shardmill._native.load", frozen)]
pub(crate) struct PyOutputConverter(pub(crate) Arc<OutputConverter>);

#[pymethods]
impl PyOutputConverter {
    #[new]
    #[pyo3(signature = (dataset, *, columns, kind, nulls, fill_values, is_padded, is_filtered))]
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
    fn new(
        dataset: PyRef<'_, PyDataset>,
        columns: Vec<usize>,
        kind: &str,
        nulls: &str,
        fill_values: &Bound<'_, PyDict>,
        is_padded: bool,
        is_filtered: bool,
    ) -> PyResult<Self> {
        let kind = output_kind(kind, nulls, fill_values)?;
        let converter = OutputConverter::new(&dataset.0, columns, kind, is_padded, is_filtered).map_err(PyShardmillError::from)?;
        Ok(Self(Arc::new(converter)))
    }

    /// For packs of rows, which have no nulls.
    #[staticmethod]
    #[pyo3(signature = (columns, *, kind, is_padded))]
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
    fn of_packs(py: Python<'_>, columns: PyRef<'_, PyPackColumns>, kind: &str, is_padded: bool) -> PyResult<Self> {
        let kind = output_kind(kind, "error", &PyDict::new(py))?;
        Ok(Self(Arc::new(OutputConverter::of_packs(&columns.0, kind, is_padded).map_err(PyShardmillError::from)?)))
    }

    /// Names of the entries of a batch.
    #[getter]
    fn names(&self) -> Vec<String> {
        match self.0.converter() {
            Some(converter) => converter.outputs().iter().map(|output| output.name.clone()).collect(),
            None => self.0.schema().fields().iter().map(|field| field.name().clone()).collect(),
        }
    }

    #[getter]
    fn schema(&self) -> PySchema {
        PySchema::new(Arc::clone(self.0.schema()))
    }

    /// The first column whose type torch has since 2.3 only.
    #[getter]
    fn wide_unsigned(&self) -> Option<&str> {
        self.0.converter()?.wide_unsigned()
    }
}

fn output_kind(kind: &str, nulls: &str, fill_values: &Bound<'_, PyDict>) -> PyResult<OutputKind> {
    // Checked for Arrow as well, which has no use for them.
    let (nulls, fill_values) = (self::nulls(nulls)?, self::fill_values(fill_values)?);
    Ok(match kind {
        "arrow" => OutputKind::Arrow,
        name => OutputKind::Columns { kind: self::kind(name)?, nulls, fill_values },
    })
}
