//! A comparison of two columns or computed values.

use super::cast::cast_checked;
use super::compare::{columns, common_types};
use crate::{Comparison, Error, Operand, Result};
use arrow_array::{ArrayRef, BooleanArray, RecordBatch};
use arrow_schema::{ArrowError, DataType, Schema};
use std::collections::BTreeSet;

#[derive(Debug, Clone)]
pub(crate) struct Sides {
    pub(crate) left: Side,
    pub(crate) op: Comparison,
    pub(crate) right: Side,
}

#[derive(Debug, Clone)]
pub(crate) struct Side {
    pub(crate) operand: Operand,
    /// For rows of the schema.
    pub(crate) data_type: DataType,
    /// In which the sides are compared.
    pub(crate) compared: DataType,
}

impl Sides {
    /// `None` if one side is always null.
    pub(super) fn new(
        left: &Operand,
        op: Comparison,
        right: &Operand,
        schema: &Schema,
    ) -> Result<Option<Self>> {
        // In a text filter, a column in quotes may be meant as a string.
        let type_of = |side: &Operand| {
            side.data_type(schema).map_err(|error| match (error, side) {
                (Error::UnknownColumn { column, available, hint: None }, Operand::Column(_)) => {
                    let hint = Some(format!("put strings in single quotes: '{column}'"));
                    Error::UnknownColumn { column, available, hint }
                }
                (other, _) => other,
            })
        };
        let (left_type, right_type) = (type_of(left)?, type_of(right)?);
        if left_type.is_null() || right_type.is_null() {
            return Ok(None);
        }
        let (left_common, right_common) =
            common_types(&left_type, &right_type).ok_or_else(|| Error::ColumnTypes {
                left: left.subject(),
                left_type: left_type.clone(),
                right: right.object(),
                right_type: right_type.clone(),
            })?;
        let side = |operand: &Operand, data_type, compared| Side {
            operand: operand.clone(),
            data_type,
            compared,
        };
        Ok(Some(Self {
            left: side(left, left_type, left_common),
            op,
            right: side(right, right_type, right_common),
        }))
    }

    pub(super) fn columns(&self) -> BTreeSet<&str> {
        &self.left.operand.columns() | &self.right.operand.columns()
    }

    pub(super) fn evaluate(&self, rows: &RecordBatch) -> Result<BooleanArray> {
        let [left, right] = [&self.left, &self.right].map(|side| side.values(rows));
        self.compare(&left?, self.op, &right?).map_err(|source| self.left.operand.failed(source))
    }

    /// Compares values, or bounds of them, in the type of their side.
    pub(crate) fn compare(
        &self,
        left: &ArrayRef,
        op: Comparison,
        right: &ArrayRef,
    ) -> std::result::Result<BooleanArray, ArrowError> {
        columns(left, op, right)
    }

    pub(crate) fn is_float(&self) -> bool {
        self.left.compared.is_floating() || self.right.compared.is_floating()
    }
}

impl Side {
    fn values(&self, rows: &RecordBatch) -> Result<ArrayRef> {
        let values = self.operand.evaluate(rows)?;
        cast_checked(&values, &self.compared).map_err(|source| self.operand.failed(source))
    }
}
