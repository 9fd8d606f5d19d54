//! The filter tree: conditions on columns and computed values, combined by and / or / not, in
//! three-valued logic.
//!
//! Parsed from the binding's JSON; [`Expression::bind`] creates a [`Predicate`] for one schema. The
//! invariant: an expression has the same meaning as in `pyarrow.Table.filter`. A comparison with
//! null is unknown, never true; NaN follows IEEE 754; membership is unknown only where the tree
//! says so.

mod operand;

pub use operand::{Arithmetic, Computed, Operand};

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

impl Comparison {
    /// True where this one is false.
    pub(crate) fn negated(self) -> Self {
        match self {
            Self::Equal => Self::NotEqual,
            Self::NotEqual => Self::Equal,
            Self::Less => Self::GreaterOrEqual,
            Self::LessOrEqual => Self::Greater,
            Self::Greater => Self::LessOrEqual,
            Self::GreaterOrEqual => Self::Less,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expression {
    Compare {
        #[serde(rename = "column")]
        operand: Operand,
        op: Comparison,
        value: Literal,
    },
    CompareColumns {
        left: Operand,
        op: Comparison,
        right: Operand,
    },
    /// Whether a value is one of `values`: floats are compared bitwise, so that NaN matches NaN and
    /// −0.0 does not match 0.0, as in Arrow's `is_in`.
    IsIn {
        #[serde(rename = "column")]
        operand: Operand,
        values: Vec<Literal>,
        /// Whether a null counts as found. Otherwise it is not found,
        /// which is not the same as unknown.
        #[serde(default, skip_serializing_if = "is_false")]
        matches_null: bool,
        /// Whether the membership of a null is unknown, as in SQL.
        #[serde(default, skip_serializing_if = "is_false")]
        null_is_unknown: bool,
    },
    IsNull {
        #[serde(rename = "column")]
        operand: Operand,
        /// Whether NaN counts as null.
        #[serde(default, skip_serializing_if = "is_false")]
        nan_is_null: bool,
    },
    IsNan {
        #[serde(rename = "column")]
        operand: Operand,
    },
    StartsWith {
        #[serde(rename = "column")]
        operand: Operand,
        prefix: Literal,
    },
    EndsWith {
        #[serde(rename = "column")]
        operand: Operand,
        suffix: Literal,
    },
    /// Whether a value contains `part`, taken literally.
    Contains {
        #[serde(rename = "column")]
        operand: Operand,
        part: Literal,
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
            Self::Compare { operand, .. }
            | Self::IsIn { operand, .. }
            | Self::IsNull { operand, .. }
            | Self::IsNan { operand }
            | Self::StartsWith { operand, .. }
            | Self::EndsWith { operand, .. }
            | Self::Contains { operand, .. } => operand.columns(),
            Self::CompareColumns { left, right, .. } => &left.columns() | &right.columns(),
            Self::Constant(_) => BTreeSet::new(),
            Self::And(parts) | Self::Or(parts) => parts.iter().flat_map(Self::columns).collect(),
            Self::Not(inner) => inner.columns(),
        }
    }

    /// Prepares the tree for rows of `schema`: literals are located among the values of their
    /// columns once.
    ///
    /// # Errors
    /// As [`Expression::check`].
    pub fn bind(&self, schema: &Schema) -> Result<Predicate> {
        Predicate::new(self, schema)
    }

    /// Whether the tree can be evaluated over rows of `schema`.
    ///
    /// # Errors
    /// [`crate::Error::UnknownColumn`], [`crate::Error::LiteralType`],
    /// [`crate::Error::ColumnTypes`] and [`crate::Error::OperandType`].
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

    /// The selected rows, one bit each.
    ///
    /// # Errors
    /// As [`Expression::evaluate`].
    pub fn selection(&self, rows: &RecordBatch) -> Result<BooleanBuffer> {
        self.bind(rows.schema_ref())?.selection(rows)
    }

    /// The selected rows.
    ///
    /// # Errors
    /// As [`Expression::evaluate`].
    pub fn keep(&self, rows: &RecordBatch) -> Result<Vec<bool>> {
        Ok(self.selection(rows)?.iter().collect())
    }
}

#[cfg(test)]
mod tests;
