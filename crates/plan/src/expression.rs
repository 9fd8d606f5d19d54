//! The filter tree: `column op literal`, combined by and / or / not, in SQL's three-valued logic.
//!
//! The invariant: a null compares as unknown, never as true; a row is kept only where the whole tree is true.

use crate::{Error, Literal, Result};
use arrow_array::{Array, ArrayRef, BooleanArray, Datum, RecordBatch, Scalar};
use arrow_ord::cmp;
use arrow_schema::ArrowError;
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
    Compare { column: String, op: Comparison, value: Literal },
    IsIn { column: String, values: Vec<Literal> },
    IsNull { column: String },
    And(Box<Expression>, Box<Expression>),
    Or(Box<Expression>, Box<Expression>),
    Not(Box<Expression>),
}

impl Expression {
    /// The columns that the tree reads.
    #[must_use]
    pub fn columns(&self) -> BTreeSet<&str> {
        match self {
            Self::Compare { column, .. } | Self::IsIn { column, .. } | Self::IsNull { column } => BTreeSet::from([column.as_str()]),
            Self::And(left, right) | Self::Or(left, right) => left.columns().union(&right.columns()).copied().collect(),
            Self::Not(inner) => inner.columns(),
        }
    }

    /// Three-valued truth of each row: null means unknown.
    ///
    /// # Errors
    /// [`Error::UnknownColumn`] and [`Error::LiteralType`].
    pub fn evaluate(&self, rows: &RecordBatch) -> Result<BooleanArray> {
        match self {
            Self::Compare { column, op, value } => compare(column_of(rows, column)?, column, *op, value),
            Self::IsIn { column, values } => {
                let array = column_of(rows, column)?;
                let nothing = BooleanArray::from(vec![Some(false); rows.num_rows()]);
                values.iter().try_fold(nothing, |found, value| {
                    let equal = compare(array, column, Comparison::Equal, value)?;
                    Ok(zip(&found, &equal, or))
                })
            }
            Self::IsNull { column } => {
                // Arrays of type null, and dictionaries with a null among their values, have no mask of their own.
                let nulls = column_of(rows, column)?.logical_nulls();
                Ok((0..rows.num_rows()).map(|row| Some(nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)))).collect())
            }
            Self::And(left, right) => {
                let (left, right) = (left.evaluate(rows)?, right.evaluate(rows)?);
                Ok(zip(&left, &right, and))
            }
            Self::Or(left, right) => Ok(zip(&left.evaluate(rows)?, &right.evaluate(rows)?, or)),
            Self::Not(inner) => Ok(inner.evaluate(rows)?.iter().map(|truth| truth.map(|truth| !truth)).collect()),
        }
    }

    /// The rows that stay.
    ///
    /// # Errors
    /// As [`Expression::evaluate`].
    pub fn keep(&self, rows: &RecordBatch) -> Result<Vec<bool>> {
        Ok(self.evaluate(rows)?.iter().map(|truth| truth == Some(true)).collect())
    }
}

fn column_of<'a>(rows: &'a RecordBatch, column: &str) -> Result<&'a ArrayRef> {
    rows.column_by_name(column).ok_or_else(|| Error::UnknownColumn {
        column: column.to_owned(),
        available: rows.schema().fields().iter().map(|field| format!("`{}`", field.name())).collect::<Vec<_>>().join(", "),
    })
}

fn compare(array: &ArrayRef, name: &str, op: Comparison, value: &Literal) -> Result<BooleanArray> {
    // A column of nothing but nulls has no type to compare with.
    if array.data_type().is_null() {
        return Ok(BooleanArray::from(vec![None; array.len()]));
    }
    let (column, literal) = value.align(name, array)?;
    let scalar = Scalar::new(literal);
    let kernel: fn(&dyn Datum, &dyn Datum) -> std::result::Result<BooleanArray, ArrowError> = match op {
        Comparison::Equal => cmp::eq,
        Comparison::NotEqual => cmp::neq,
        Comparison::Less => cmp::lt,
        Comparison::LessOrEqual => cmp::lt_eq,
        Comparison::Greater => cmp::gt,
        Comparison::GreaterOrEqual => cmp::gt_eq,
    };
    kernel(&column, &scalar).map_err(|source| Error::Evaluate { column: name.to_owned(), source })
}

fn and(left: Option<bool>, right: Option<bool>) -> Option<bool> {
    match (left, right) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    }
}

fn or(left: Option<bool>, right: Option<bool>) -> Option<bool> {
    match (left, right) {
        (Some(true), _) | (_, Some(true)) => Some(true),
        (Some(false), Some(false)) => Some(false),
        _ => None,
    }
}

fn zip(left: &BooleanArray, right: &BooleanArray, combine: fn(Option<bool>, Option<bool>) -> Option<bool>) -> BooleanArray {
    left.iter().zip(right.iter()).map(|(left, right)| combine(left, right)).collect()
}

#[cfg(test)]
mod tests;
