//! Columns of tokens that are packed together.

use super::PyDataset;
use crate::columns::fill_values;
use crate::error::PyShardmillError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use shardmill_load::Error;
use shardmill_load::packing::{PackColumns, PackForm};
use std::sync::Arc;

/// Which columns are packed.
#[pyclass(name = "PackColumns", module = "shardmill._native.packing", frozen)]
pub(crate) struct PyPackColumns(pub(crate) Arc<PackColumns>);

#[pymethods]
impl PyPackColumns {
    #[new]
    #[pyo3(signature = (
        dataset, *, columns, length, multiple_of, next_token, across, pad_values, nulls_are_empty
    ))]
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of a Python call")]
    fn new(
        dataset: PyRef<'_, PyDataset>,
        columns: Vec<usize>,
        length: u32,
        multiple_of: u32,
        next_token: Vec<String>,
        across: bool,
        pad_values: &Bound<'_, PyDict>,
        nulls_are_empty: bool,
    ) -> PyResult<Self> {
        let form = PackForm { length, has_padding: multiple_of > 1, next_token, across };
        let columns =
            PackColumns::new(&dataset.0, columns, form, &fill_values(pad_values)?, nulls_are_empty);
        Ok(Self(Arc::new(columns.map_err(Error::from).map_err(PyShardmillError::from)?)))
    }

    /// Size of the rows in a full pack.
    #[getter]
    fn row_bytes(&self) -> u64 {
        self.0.row_bytes()
    }
}
