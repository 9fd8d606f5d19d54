//! An expression prepared for the columns of one schema.
//!
//! Created once by [`crate::Expression::bind`]; the loader evaluates it over each batch, and
//! pruning over the statistics of each block. The invariant: batches and bounds are compared with a
//! literal by the same code, so that pruning cannot disagree with evaluation.

mod arithmetic;
mod cast;
mod compare;
mod leaf;
mod lookup;
mod membership;
mod operand;
mod position;
mod scaled;
mod sides;
mod strings;

pub(crate) use arithmetic::{Values, computing_types, is_number, kernel};
pub(crate) use cast::cast_checked;
pub(crate) use leaf::{Leaf, Limit, Test};
pub(crate) use membership::{Members, with_both_zeros};
pub(crate) use scaled::names_zone;
pub(crate) use sides::{Side, Sides};
pub(crate) use strings::{length, lower};

use crate::{Error, Expression, Result};
use arrow_arith::boolean::{and_kleene, not, or_kleene};
use arrow_array::{BooleanArray, RecordBatch};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_schema::{ArrowError, Schema};

/// Can be evaluated over rows of its schema, or over rows with the columns
/// in [`Predicate::columns`].
#[derive(Debug, Clone)]
pub struct Predicate {
    pub(crate) root: Node,
}

#[derive(Debug, Clone)]
pub(crate) enum Node {
    Leaf(Leaf),
    Sides(Sides),
    Constant(Option<bool>),
    And(Vec<Node>),
    Or(Vec<Node>),
    Not(Box<Node>),
}

impl Predicate {
    pub(crate) fn new(expression: &Expression, schema: &Schema) -> Result<Self> {
        Ok(Self { root: Node::new(expression, schema)? })
    }

    /// The columns that are read, without repeats, in order of first appearance.
    #[must_use]
    pub fn columns(&self) -> Vec<&str> {
        let mut names = Vec::new();
        self.root.add_columns(&mut names);
        names
    }

    /// Three-valued truth of each row: null means unknown.
    ///
    /// # Errors
    /// [`Error::UnknownColumn`], and [`Error::Evaluate`] for values that cannot be compared, such
    /// as a timestamp beyond the range of the other unit.
    pub fn evaluate(&self, rows: &RecordBatch) -> Result<BooleanArray> {
        self.root.evaluate(rows)
    }

    /// The selected rows, one bit each.
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
        let all = |parts: &[Expression]| {
            parts.iter().map(|part| Self::new(part, schema)).collect::<Result<Vec<_>>>()
        };
        Ok(match expression {
            Expression::And(parts) => Self::And(all(parts)?),
            Expression::Or(parts) => Self::Or(all(parts)?),
            Expression::Not(inner) => Self::Not(Box::new(Self::new(inner, schema)?)),
            Expression::Constant(truth) => Self::Constant(*truth),
            Expression::CompareColumns { left, op, right } => {
                Sides::new(left, *op, right, schema)?.map_or(Self::Constant(None), Self::Sides)
            }
            Expression::Compare { operand, .. }
            | Expression::IsIn { operand, .. }
            | Expression::IsNull { operand, .. }
            | Expression::IsNan { operand }
            | Expression::StartsWith { operand, .. }
            | Expression::EndsWith { operand, .. }
            | Expression::Contains { operand, .. } => {
                Self::Leaf(Leaf::new(expression, operand, &operand.data_type(schema)?)?)
            }
        })
    }

    fn add_columns<'a>(&'a self, names: &mut Vec<&'a str>) {
        let add = |name: &'a str| {
            if !names.contains(&name) {
                names.push(name);
            }
        };
        match self {
            Self::Leaf(leaf) => leaf.operand.columns().into_iter().for_each(add),
            Self::Sides(sides) => sides.columns().into_iter().for_each(add),
            Self::Constant(_) => {}
            Self::And(parts) | Self::Or(parts) => {
                parts.iter().for_each(|part| part.add_columns(names));
            }
            Self::Not(inner) => inner.add_columns(names),
        }
    }

    fn evaluate(&self, rows: &RecordBatch) -> Result<BooleanArray> {
        // The boolean kernels do not fail for two arrays of equal length.
        let failed = |source: ArrowError| Error::Evaluate { operand: self.to_names(), source };
        let fold = |parts: &[Self],
                    empty: bool,
                    combine: fn(
            &BooleanArray,
            &BooleanArray,
        ) -> std::result::Result<BooleanArray, ArrowError>| {
            let mut parts = parts.iter();
            let Some(first) = parts.next() else {
                return Ok(constant(rows.num_rows(), Some(empty)));
            };
            parts.try_fold(first.evaluate(rows)?, |truth, part| {
                combine(&truth, &part.evaluate(rows)?).map_err(failed)
            })
        };
        match self {
            Self::Leaf(leaf) => leaf.evaluate(&leaf.operand.evaluate(rows)?),
            Self::Sides(sides) => sides.evaluate(rows),
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

fn constant(rows: usize, truth: Option<bool>) -> BooleanArray {
    let values = if truth == Some(true) {
        BooleanBuffer::new_set(rows)
    } else {
        BooleanBuffer::new_unset(rows)
    };
    BooleanArray::new(values, truth.is_none().then(|| NullBuffer::new_null(rows)))
}
