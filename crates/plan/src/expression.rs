//! The filter tree: conditions on columns, combined by and / or / not, in three-valued logic.
//!
//! JSON of the binding enters; [`Expression::bind`] makes a [`Predicate`] of it for one schema. The invariant: an expression means what the same one means
//! to `pyarrow.Table.filter`. A null compares as unknown, never as true; NaN compares as IEEE 754 says; membership is never unknown.

use crate::{Literal, Predicate, Result};
use arrow_array::{BooleanArray, RecordBatch};
use arrow_buffer::BooleanBuffer;
use arrow_schema::Schema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Comparison {
    #[serde(rename = "==")]
    Equal,
    #[serde(rename = "!=")]
    NotEqual,
    #[serde(rename = "<")]
    Less,
    #[serde(rename = "<=")]
    LessOrEqual,
    #[serde(rename = ">")]
    Greater,
    #[serde(rename = ">=")]
    GreaterOrEqual,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expression {
    Compare {
        column: String,
        op: Comparison,
        value: Literal,
    },
    CompareColumns {
        left: String,
        op: Comparison,
        right: String,
    },
    /// Where a value is one of `values`: floats bit by bit, so that NaN finds NaN and −0.0 does not find 0.0, as Arrow's `is_in` has it.
    IsIn {
        column: String,
        values: Vec<Literal>,
        /// Whether a null counts as found. It is not found otherwise, which is no unknown.
        #[serde(default, skip_serializing_if = "is_false")]
        matches_null: bool,
    },
    IsNull {
        column: String,
        /// Whether NaN counts as null.
        #[serde(default, skip_serializing_if = "is_false")]
        nan_is_null: bool,
    },
    IsNan {
        column: String,
    },
    StartsWith {
        column: String,
        prefix: Literal,
    },
    /// The same for each row; `None` is unknown.
    Constant(Option<bool>),
    And(Vec<Expression>),
    Or(Vec<Expression>),
    Not(Box<Expression>),
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}

impl Expression {
    /// The columns that the tree reads.
    #[must_use]
    pub fn columns(&self) -> BTreeSet<&str> {
        match self {
            Self::Compare { column, .. }
            | Self::IsIn { column, .. }
            | Self::IsNull { column, .. }
            | Self::IsNan { column }
            | Self::StartsWith { column, .. } => BTreeSet::from([column.as_str()]),
            Self::CompareColumns { left, right, .. } => BTreeSet::from([left.as_str(), right.as_str()]),
            Self::Constant(_) => BTreeSet::new(),
            Self::And(parts) | Self::Or(parts) => parts.iter().flat_map(Self::columns).collect(),
            Self::Not(inner) => inner.columns(),
        }
    }

    /// The tree made ready for rows of `schema`: literals are placed among the values of their columns, once.
    ///
    /// # Errors
    /// As [`Expression::check`].
    pub fn bind(&self, schema: &Schema) -> Result<Predicate> {
        Predicate::new(self, schema)
    }

    /// Whether the tree can be evaluated over rows of `schema`.
    ///
    /// # Errors
    /// [`crate::Error::UnknownColumn`], [`crate::Error::LiteralType`] and [`crate::Error::ColumnTypes`].
    pub fn check(&self, schema: &Schema) -> Result<()> {
        self.bind(schema).map(drop)
    }

    /// Three-valued truth of each row: null means unknown.
    ///
    /// # Errors
    /// As [`Expression::check`], and [`crate::Error::Evaluate`].
    pub fn evaluate(&self, rows: &RecordBatch) -> Result<BooleanArray> {
        self.bind(rows.schema_ref())?.evaluate(rows)
    }

    /// The rows that stay, one bit each.
    ///
    /// # Errors
    /// As [`Expression::evaluate`].
    pub fn selection(&self, rows: &RecordBatch) -> Result<BooleanBuffer> {
        self.bind(rows.schema_ref())?.selection(rows)
    }

    /// The rows that stay.
    ///
    /// # Errors
    /// As [`Expression::evaluate`].
    pub fn keep(&self, rows: &RecordBatch) -> Result<Vec<bool>> {
        Ok(self.selection(rows)?.iter().collect())
    }
}

#[cfg(test)]
mod tests;
