//! Data of Rust as plain objects of Python: dicts, lists, texts and numbers.

use crate::error::PyShardmillError;
use pyo3::prelude::*;
use pythonize::{depythonize, pythonize};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// An argument or a result that has no class of its own.
pub(crate) struct Plain<T>(pub(crate) T);

impl<T: DeserializeOwned> FromPyObject<'_, '_> for Plain<T> {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        let read = depythonize(&object.to_owned());
        Ok(Self(read.map_err(|error| {
            PyShardmillError::option(&format!("an option cannot be read: {error}"))
        })?))
    }
}

impl<'py, T: Serialize> IntoPyObject<'py> for Plain<T> {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(pythonize(py, &self.0)?)
    }
}
