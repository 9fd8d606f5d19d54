//! An expression made ready for the columns of one schema.
//!
//! [`crate::Expression::bind`] makes it, once; the loader evaluates it over each batch, and pruning over what is known of each block. The invariant: a
//! batch and the bounds of its values are compared with a literal by the same code, so that pruning cannot disagree with evaluation.

mod compare;
mod leaf;
mod membership;
mod position;
mod scaled;

pub(crate) use leaf::{Leaf, Limit, Test};
pub(crate) use membership::Members;

use crate::{Comparison, Error, Expression, Result};
use arrow_arith::boolean::{and_kleene, not, or_kleene};
use arrow_array::{ArrayRef, BooleanArray, RecordBatch};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{ArrowError, DataType, Schema};
use std::sync::Arc;

/// A cast that fails is an error, never a null.
const CHECKED: CastOptions<'static> = CastOptions { safe: false, format_options: arrow_cast::display::FormatOptions::new() };

/// Can be evaluated over rows of its schema, or over those of its columns that [`Predicate::columns`] names.
#[derive(Debug, Clone)]
pub struct Predicate {
    pub(crate) root: Node,
}

#[derive(Debug, Clone)]
pub(crate) enum Node {
    Leaf(Leaf),
    Columns(Columns),
    Constant(Option<bool>),
    And(Vec<Node>),
    Or(Vec<Node>),
    Not(Box<Node>),
}

/// Two columns beside each other.
#[derive(Debug, Clone)]
pub(crate) struct Columns {
    left: (String, DataType),
    op: Comparison,
    right: (String, DataType),
}

impl Predicate {
    pub(crate) fn new(expression: &Expression, schema: &Schema) -> Result<Self> {
        Ok(Self { root: Node::new(expression, schema)? })
    }

    /// The columns that are read, each once, in the order in which they are first named.
    #[must_use]
    pub fn columns(&self) -> Vec<&str> {
        let mut names = Vec::new();
        self.root.add_columns(&mut names);
        names
    }

    /// Three-valued truth of each row: null means unknown.
    ///
    /// # Errors
    /// [`Error::UnknownColumn`], and [`Error::Evaluate`] for values that cannot be compared, such as a timestamp beyond the range of its partner's unit.
    pub fn evaluate(&self, rows: &RecordBatch) -> Result<BooleanArray> {
        self.root.evaluate(rows)
    }

    /// The rows that stay, one bit each.
    ///
    /// # Errors
    /// As [`Predicate::evaluate`].
    pub fn selection(&self, rows: &RecordBatch) -> Result<BooleanBuffer> {
        let (values, nulls) = self.evaluate(rows)?.into_parts();
        Ok(match nulls {
            Some(nulls) => &values & nulls.inner(),
            None => values,
        })
    }
}

impl Node {
    fn new(expression: &Expression, schema: &Schema) -> Result<Self> {
        let all = |parts: &[Expression]| parts.iter().map(|part| Self::new(part, schema)).collect::<Result<Vec<_>>>();
        Ok(match expression {
            Expression::And(parts) => Self::And(all(parts)?),
            Expression::Or(parts) => Self::Or(all(parts)?),
            Expression::Not(inner) => Self::Not(Box::new(Self::new(inner, schema)?)),
            Expression::Constant(truth) => Self::Constant(*truth),
            Expression::CompareColumns { left, op, right } => {
                let (left_type, right_type) = (type_of(schema, left)?, type_of(schema, right)?);
                if left_type.is_null() || right_type.is_null() {
                    return Ok(Self::Constant(None));
                }
                let common = compare::common_types(left_type, right_type);
                let (left_common, right_common) = common.ok_or_else(|| Error::ColumnTypes {
                    left: left.clone(),
                    left_type: left_type.clone(),
                    right: right.clone(),
                    right_type: right_type.clone(),
                })?;
                Self::Columns(Columns { left: (left.clone(), left_common), op: *op, right: (right.clone(), right_common) })
            }
            Expression::Compare { column, .. }
            | Expression::IsIn { column, .. }
            | Expression::IsNull { column, .. }
            | Expression::IsNan { column }
            | Expression::StartsWith { column, .. } => Self::Leaf(Leaf::new(expression, column, type_of(schema, column)?)?),
        })
    }

    fn add_columns<'a>(&'a self, names: &mut Vec<&'a str>) {
        let mut add = |name: &'a str| {
            if !names.contains(&name) {
                names.push(name);
            }
        };
        match self {
            Self::Leaf(leaf) => add(&leaf.column),
            Self::Columns(columns) => {
                add(&columns.left.0);
                add(&columns.right.0);
            }
            Self::Constant(_) => {}
            Self::And(parts) | Self::Or(parts) => parts.iter().for_each(|part| part.add_columns(names)),
            Self::Not(inner) => inner.add_columns(names),
        }
    }

    fn evaluate(&self, rows: &RecordBatch) -> Result<BooleanArray> {
        // None of the boolean kernels fails for two arrays of one length.
        let failed = |source: ArrowError| Error::Evaluate { column: self.to_names(), source };
        let fold = |parts: &[Self], empty: bool, combine: fn(&BooleanArray, &BooleanArray) -> std::result::Result<BooleanArray, ArrowError>| {
            let mut parts = parts.iter();
            let Some(first) = parts.next() else { return Ok(constant(rows.num_rows(), Some(empty))) };
            parts.try_fold(first.evaluate(rows)?, |truth, part| combine(&truth, &part.evaluate(rows)?).map_err(failed))
        };
        match self {
            Self::Leaf(leaf) => leaf.evaluate(column_of(rows, &leaf.column)?),
            Self::Columns(columns) => columns.evaluate(rows),
            Self::Constant(truth) => Ok(constant(rows.num_rows(), *truth)),
            Self::And(parts) => fold(parts, true, and_kleene),
            Self::Or(parts) => fold(parts, false, or_kleene),
            Self::Not(inner) => not(&inner.evaluate(rows)?).map_err(failed),
        }
    }

    fn to_names(&self) -> String {
        let mut names = Vec::new();
        self.add_columns(&mut names);
        names.join("`, `")
    }
}

impl Columns {
    fn evaluate(&self, rows: &RecordBatch) -> Result<BooleanArray> {
        let side = |(name, data_type): &(String, DataType)| cast(column_of(rows, name)?, data_type, name);
        let (left, right) = (side(&self.left)?, side(&self.right)?);
        compare::columns(&left, self.op, &right).map_err(|source| Error::Evaluate { column: self.left.0.clone(), source })
    }
}

fn cast(array: &ArrayRef, data_type: &DataType, column: &str) -> Result<ArrayRef> {
    if array.data_type() == data_type {
        return Ok(Arc::clone(array));
    }
    cast_with_options(array, data_type, &CHECKED).map_err(|source| Error::Evaluate { column: column.to_owned(), source })
}

fn constant(rows: usize, truth: Option<bool>) -> BooleanArray {
    let values = if truth == Some(true) { BooleanBuffer::new_set(rows) } else { BooleanBuffer::new_unset(rows) };
    BooleanArray::new(values, truth.is_none().then(|| NullBuffer::new_null(rows)))
}

fn type_of<'a>(schema: &'a Schema, column: &str) -> Result<&'a DataType> {
    match schema.column_with_name(column) {
        Some((_, field)) => Ok(field.data_type()),
        None => Err(unknown(column, schema)),
    }
}

fn column_of<'a>(rows: &'a RecordBatch, column: &str) -> Result<&'a ArrayRef> {
    rows.column_by_name(column).ok_or_else(|| unknown(column, rows.schema_ref()))
}

fn unknown(column: &str, schema: &Schema) -> Error {
    let available = schema.fields().iter().map(|field| format!("`{}`", field.name())).collect::<Vec<_>>().join(", ");
    Error::UnknownColumn { column: column.to_owned(), available }
}
