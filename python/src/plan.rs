//! `shardmill._native.plan`

use crate::arrow_data::ArrowBatch;
use crate::error::{PyShardmillError, PyShardmillResult};
use crate::plain::Plain;
use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3_arrow::{PyArray, PySchema};
use shardmill_plan::images::{Piece, RULES_VERSION, Rule};
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

/// By which images become tokens.
#[pyclass(name = "ImageRule", module = "shardmill._native.plan", frozen)]
struct PyImageRule(Rule);

#[pymethods]
impl PyImageRule {
    #[new]
    fn new(options: Plain<Rule>) -> Self {
        Self(options.0)
    }

    /// Heights, widths, tokens, patches, rows and columns of all images, one after the other.
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
    fn plan_all<'py>(
        &self,
        py: Python<'py>,
        heights: PyReadonlyArray1<'py, i32>,
        widths: PyReadonlyArray1<'py, i32>,
    ) -> PyResult<Bound<'py, PyArray1<i32>>> {
        let (heights, widths) = (heights.as_slice()?, widths.as_slice()?);
        Ok(PyArray1::from_vec(py, py.detach(|| self.0.plan_all(heights, widths))))
    }

    /// Why an image cannot be planned.
    fn refusal(&self, height: i32, width: i32) -> Option<String> {
        self.0.plan(height, width).err().map(|refusal| refusal.to_string())
    }

    /// Names of the pieces that an image may have besides the placeholder.
    fn pieces(&self) -> Vec<String> {
        self.0.pieces().into_iter().map(name_of).collect()
    }

    /// Names of the pieces of an image, with how often each comes; of a tag of a tile, its text.
    fn expansion(&self, height: i32, width: i32) -> PyResult<Vec<(String, u64)>> {
        let image = self.0.plan(height, width);
        let image = image.map_err(|refusal| PyShardmillError::option(&refusal.to_string()))?;
        let named = |(piece, count)| (name_of(piece), count);
        Ok(self.0.expansion(&image).into_iter().map(named).collect())
    }
}

fn name_of(piece: Piece) -> String {
    let name = match piece {
        Piece::Placeholder => "placeholder",
        Piece::Start => "start",
        Piece::End => "end",
        Piece::RowBreak => "row_break",
        Piece::Overview => "overview",
        Piece::Newline => "\n",
        Piece::BlankLine => "\n\n",
        Piece::Tile { row, col } => return format!("<row_{row}_col_{col}>"),
    };
    name.to_owned()
}

pub(crate) fn init(parent: &Bound<'_, PyModule>) -> PyResult<()> {
    let module = crate::submodule(parent, "plan")?;
    module.add("RULES_VERSION", RULES_VERSION)?;
    module.add_class::<PyImageRule>()?;
    module.add_class::<PyInputFile>()?;
    module.add_class::<PySplit>()?;
    module.add_function(wrap_pyfunction!(check, &module)?)?;
    module.add_function(wrap_pyfunction!(evaluate, &module)?)
}
