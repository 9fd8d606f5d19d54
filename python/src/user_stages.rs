//! Adapts stages written in Python to the native driver.

use crate::arrow_data::ArrowBatch;
use crate::calls::Calls;
use arrow_array::RecordBatch;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use pyo3_arrow::PyRecordBatch;
use shardmill_jobs::StageFailure;
use shardmill_jobs::stage::Stage;
use shardmill_jobs::stage::user::{ImageJudge, JudgedImage, TableMap, Verdict};
use std::sync::Arc;

/// An exception of user code, passed through Rust.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Raised(PyErr);

impl Raised {
    pub(crate) fn into_inner(self) -> PyErr {
        self.0
    }
}

fn raised(error: PyErr) -> StageFailure {
    Box::new(Raised(error))
}

/// Converts a stage object of `shardmill.curate`; its `kind` selects its input.
pub(crate) fn stage_of(object: &Bound<'_, PyAny>, calls: Calls) -> PyResult<Stage> {
    let name: String = object.getattr("name")?.extract()?;
    let kind: String = object.getattr("kind")?.extract()?;
    if kind == "table" {
        let needs_bytes =
            object.getattr_opt("needs_bytes")?.map_or(Ok(false), |flag| flag.extract())?;
        let decodes_images =
            object.getattr_opt("decodes_images")?.map_or(Ok(false), |flag| flag.extract())?;
        let batch_rows =
            object.getattr_opt("batch_size")?.map_or(Ok(None), |size| size.extract())?;
        let map_rows = object.getattr_opt("map_rows")?.map(Bound::unbind);
        let map = object.getattr("map_table")?.unbind();
        return Ok(Stage::Table(Arc::new(PyTableMap {
            name,
            calls,
            needs_bytes,
            decodes_images,
            batch_rows,
            map,
            map_rows,
        })));
    }
    let drops_invalid_rows = object.getattr("drop_invalid_rows")?.extract()?;
    Ok(Stage::Images(Arc::new(PyImageJudge {
        name,
        calls,
        drops_invalid_rows,
        keep: object.getattr("keep_images")?.unbind(),
    })))
}

struct PyImageJudge {
    name: String,
    calls: Calls,
    drops_invalid_rows: bool,
    keep: Py<PyAny>,
}

impl ImageJudge for PyImageJudge {
    fn name(&self) -> &str {
        &self.name
    }

    fn drops_invalid_rows(&self) -> bool {
        self.drops_invalid_rows
    }

    fn judge(
        &self,
        images: &[JudgedImage],
        texts: &[Vec<String>],
    ) -> Result<Vec<Verdict>, StageFailure> {
        let call = |py: Python<'_>| -> PyResult<Vec<bool>> {
            let _entered = self.calls.enter(py)?;
            let bodies =
                PyList::new(py, images.iter().map(|image| PyBytes::new(py, &image.bytes)))?;
            // The images of a document share one list, to avoid a copy per image.
            let documents =
                texts.iter().map(|lines| PyList::new(py, lines)).collect::<PyResult<Vec<_>>>()?;
            let texts = PyList::new(py, images.iter().map(|image| documents.get(image.document)))?;
            self.keep.call1(py, (bodies, texts))?.extract(py)
        };
        let kept = Python::attach(call).map_err(raised)?;
        Ok(kept.into_iter().map(Verdict::from).collect())
    }
}

struct PyTableMap {
    name: String,
    calls: Calls,
    needs_bytes: bool,
    decodes_images: bool,
    batch_rows: Option<usize>,
    map: Py<PyAny>,
    /// Makes all calls for a piece of a table, so that the piece crosses
    /// the language boundary once.
    map_rows: Option<Py<PyAny>>,
}

impl TableMap for PyTableMap {
    fn name(&self) -> &str {
        &self.name
    }

    fn needs_bytes(&self) -> bool {
        self.needs_bytes
    }

    fn decodes_images(&self) -> bool {
        self.decodes_images
    }

    fn map_table(&self, table: RecordBatch) -> Result<RecordBatch, StageFailure> {
        let call = |py: Python<'_>| -> PyResult<RecordBatch> {
            let _entered = self.calls.enter(py)?;
            Ok(self.map.bind(py).call1((PyRecordBatch::new(table),))?.extract::<ArrowBatch>()?.0)
        };
        Python::attach(call).map_err(raised)
    }

    fn batch_rows(&self) -> Option<usize> {
        self.batch_rows
    }

    fn map_rows(&self, rows: RecordBatch) -> Result<Vec<RecordBatch>, StageFailure> {
        let Some(map_rows) = &self.map_rows else { return Ok(vec![self.map_table(rows)?]) };
        let call = |py: Python<'_>| -> PyResult<Vec<RecordBatch>> {
            let _entered = self.calls.enter(py)?;
            map_rows
                .bind(py)
                .call1((PyRecordBatch::new(rows),))?
                .try_iter()?
                .map(|result| Ok(result?.extract::<ArrowBatch>()?.0))
                .collect()
        };
        Python::attach(call).map_err(raised)
    }
}
