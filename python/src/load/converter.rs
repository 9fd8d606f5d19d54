//! The output conversion of a loader.

use super::{PyDataset, PyPackColumns};
use crate::columns::{OutputForm, kind};
use crate::error::PyShardmillError;
use pyo3::prelude::*;
use pyo3_arrow::PySchema;
use shardmill_load::columns::{ColumnOptions, Nulls};
use shardmill_load::{OutputConverter, OutputKind};
use shardmill_plan::packing::Unit;
use std::sync::Arc;

/// Converts the rows of a superbatch.
#[pyclass(name = "OutputConverter", module = "shardmill._native.load", frozen)]
pub(crate) struct PyOutputConverter(pub(crate) Arc<OutputConverter>);

#[pymethods]
impl PyOutputConverter {
    #[new]
    #[pyo3(signature = (
        dataset, *, columns, form, is_padded, is_filtered, is_lent=false, has_float_lengths=None
    ))]
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
    fn new(
        dataset: PyRef<'_, PyDataset>,
        columns: Vec<usize>,
        form: OutputForm<'_>,
        is_padded: bool,
        is_filtered: bool,
        is_lent: bool,
        has_float_lengths: Option<bool>,
    ) -> PyResult<Self> {
        let mut kind = output_kind(form)?;
        if let OutputKind::Columns(options) = &mut kind
            && is_lent
        {
            options.lent = dataset.0.lent_columns(&columns);
        }
        // Batches that are planned by lengths have them.
        let unit =
            has_float_lengths.map(|is_float| if is_float { Unit::Float } else { Unit::Tokens });
        let converter =
            OutputConverter::new(&dataset.0, columns, kind, is_padded, is_filtered, unit);
        Ok(Self(Arc::new(converter.map_err(PyShardmillError::from)?)))
    }

    /// For packs of rows, which have no nulls.
    #[staticmethod]
    #[pyo3(signature = (columns, *, kind, is_padded))]
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
    fn of_packs(columns: PyRef<'_, PyPackColumns>, kind: &str, is_padded: bool) -> PyResult<Self> {
        let kind = match kind {
            "arrow" => OutputKind::Arrow,
            "stream" => OutputKind::ArrowStream,
            name => OutputKind::Columns(ColumnOptions::new(self::kind(name)?, Nulls::Error)),
        };
        Ok(Self(Arc::new(
            OutputConverter::of_packs(&columns.0, kind, is_padded)
                .map_err(PyShardmillError::from)?,
        )))
    }

    /// Names of the entries of a batch.
    #[getter]
    fn names(&self) -> Vec<String> {
        match self.0.converter() {
            Some(converter) => {
                converter.outputs().iter().map(|output| output.name.clone()).collect()
            }
            None => self.0.schema().fields().iter().map(|field| field.name().clone()).collect(),
        }
    }

    #[getter]
    fn schema(&self) -> PySchema {
        PySchema::new(Arc::clone(self.0.schema()))
    }

    /// The first column whose type is only supported by torch 2.3 and later.
    #[getter]
    fn wide_unsigned(&self) -> Option<&str> {
        self.0.converter()?.wide_unsigned()
    }
}

fn output_kind(mut form: OutputForm<'_>) -> PyResult<OutputKind> {
    let kind = match form.kind.as_str() {
        "arrow" => OutputKind::Arrow,
        "stream" => OutputKind::ArrowStream,
        _ => return Ok(OutputKind::Columns(form.column_options()?)),
    };
    // The other options are validated for Arrow as well, which does not use them.
    "dict".clone_into(&mut form.kind);
    form.column_options()?;
    Ok(kind)
}
