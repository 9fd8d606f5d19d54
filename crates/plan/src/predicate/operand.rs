//! Evaluates the operands of conditions.

use super::arithmetic::{Values, arithmetic, is_number};
use super::lookup::{column_of, type_of};
use super::strings;
use crate::{Computed, Error, Operand, Result};
use arrow_array::{Array, ArrayRef, RecordBatch, UInt64Array, new_empty_array};
use arrow_schema::{ArrowError, DataType, Schema};
use arrow_select::take::take;
use std::sync::Arc;

impl Operand {
    /// The type of the values, for rows of `schema`.
    pub(super) fn data_type(&self, schema: &Schema) -> Result<DataType> {
        let computed = match self {
            Self::Column(name) => return type_of(schema, name).cloned(),
            Self::Computed(computed) => computed.as_ref(),
        };
        // An evaluation of no rows tells the type, so that it cannot differ from
        // that of the values.
        let empty = |of: &Self| of.data_type(schema).map(|data_type| new_empty_array(&data_type));
        let of_arguments = match computed {
            Computed::Literal(_) => self.computed(computed, &[])?,
            Computed::Lower(of) | Computed::Length(of) => {
                self.computed(computed, &[Values::Rows(empty(of)?)])?
            }
            Computed::Arithmetic(_, left, right) => {
                self.computed(computed, &[Values::Rows(empty(left)?), Values::Rows(empty(right)?)])?
            }
        };
        Ok(of_arguments.array().data_type().clone())
    }

    /// One value for each row.
    pub(super) fn evaluate(&self, rows: &RecordBatch) -> Result<ArrayRef> {
        match self.values(rows)? {
            Values::Rows(array) => Ok(array),
            Values::Same(array) => take(&array, &UInt64Array::from(vec![0; rows.num_rows()]), None)
                .map_err(|source| self.failed(source)),
        }
    }

    fn values(&self, rows: &RecordBatch) -> Result<Values> {
        let computed = match self {
            Self::Column(name) => return Ok(Values::Rows(Arc::clone(column_of(rows, name)?))),
            Self::Computed(computed) => computed.as_ref(),
        };
        match computed {
            Computed::Literal(_) => self.computed(computed, &[]),
            Computed::Lower(of) | Computed::Length(of) => {
                self.computed(computed, &[of.values(rows)?])
            }
            Computed::Arithmetic(_, left, right) => {
                self.computed(computed, &[left.values(rows)?, right.values(rows)?])
            }
        }
    }

    fn computed(&self, computed: &Computed, arguments: &[Values]) -> Result<Values> {
        match (computed, arguments) {
            (Computed::Literal(literal), _) => {
                literal.to_array().map(Values::Same).ok_or_else(|| Error::LiteralType {
                    operand: self.subject(),
                    data_type: DataType::Null,
                    literal: Box::new(literal.clone()),
                })
            }
            (Computed::Lower(of), [values]) => {
                let lower = values.map(strings::lower).map_err(|source| self.failed(source))?;
                lower.ok_or_else(|| of.unsuitable(values, "lower", "strings"))
            }
            (Computed::Length(of), [values]) => {
                let length = values.map(strings::length).map_err(|source| self.failed(source))?;
                length.ok_or_else(|| {
                    of.unsuitable(values, "length", "strings, binary values and lists")
                })
            }
            (Computed::Arithmetic(op, left, right), [left_values, right_values]) => {
                for (side, values) in [(left, left_values), (right, right_values)] {
                    if !is_number(values.array().data_type()) {
                        return Err(side.unsuitable(values, op.symbol(), "numbers"));
                    }
                }
                arithmetic(*op, left_values, right_values).map_err(|source| self.failed(source))
            }
            _ => Err(self
                .failed(ArrowError::InvalidArgumentError("wrong number of arguments".to_owned()))),
        }
    }

    fn unsuitable(&self, values: &Values, function: &'static str, wanted: &'static str) -> Error {
        Error::OperandType {
            operand: self.subject(),
            data_type: values.array().data_type().clone(),
            function,
            wanted,
        }
    }

    pub(super) fn failed(&self, source: ArrowError) -> Error {
        match source {
            ArrowError::ArithmeticOverflow(_) => {
                Error::Overflow { operand: self.to_string(), source }
            }
            source => Error::Evaluate { operand: self.to_string(), source },
        }
    }
}
