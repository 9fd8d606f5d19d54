//! Columns of tokens that are packed together.

use super::PyDataset;
use crate::columns::fill_values;
use crate::error::PyShardmillError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use shardmill_load::Error;
use shardmill_load::packing::PackColumns;
use std::sync::Arc;

/// Which columns are packed.
#[pyclass(name = "PackColumns", module = "shardmill._native.packing", frozen)]
pub(crate) struct PyPackColumns(pub(crate) Arc<PackColumns>);

#[pymethods]
impl PyPackColumns {
    #[new]
    #[pyo3(signature = (dataset, *, columns, length, pad_values, nulls_are_empty))]
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
    fn new(
        dataset: PyRef<'_, PyDataset>,
        columns: Vec<usize>,
        length: u32,
        pad_values: &Bound<'_, PyDict>,
        nulls_are_empty: bool,
    ) -> PyResult<Self> {
        let columns = PackColumns::new(
            &dataset.0,
            columns,
            length,
            &fill_values(pad_values)?,
            nulls_are_empty,
        );
        Ok(Self(Arc::new(columns.map_err(Error::from).map_err(PyShardmillError::from)?)))
    }
}
