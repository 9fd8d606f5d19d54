//! One condition on one column or computed value.

use super::arithmetic::is_number;
use super::cast::{cast_checked, unwrapped};
use super::membership::{Members, each_bytes};
use super::position::{Matching, Place, compared_as, place};
use super::{compare, constant};
use crate::{Comparison, Error, Expression, Literal, Operand, Result};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray};
use arrow_buffer::BooleanBuffer;
use arrow_schema::{ArrowError, DataType};
use arrow_select::take::take;
use memchr::memmem::Finder;

#[derive(Debug, Clone)]
pub(crate) struct Leaf {
    pub(crate) operand: Operand,
    /// Type of the values for rows of the schema.
    data_type: DataType,
    /// Type in which its values are compared.
    compared: DataType,
    pub(crate) test: Test,
    /// For a batch whose column has another type than in the schema, such as a dictionary.
    expression: Expression,
}

#[derive(Debug, Clone)]
pub(crate) enum Test {
    Compare(Comparison, Limit),
    Range(Limit, Option<Limit>),
    IsIn {
        members: Box<Members>,
        /// `None`: unknown.
        of_null: Option<bool>,
    },
    EndsWith(Vec<u8>),
    Contains(Box<Finder<'static>>),
    IsNull {
        nan_is_null: bool,
    },
    IsNan,
    /// True for no row, including nulls.
    Never,
    /// An all-null column has no values to compare.
    Unknown,
}

/// A literal converted for its column.
#[derive(Debug, Clone)]
pub(crate) struct Limit(pub(super) Place);

impl Limit {
    pub(crate) fn compare(
        &self,
        array: &ArrayRef,
        op: Comparison,
    ) -> std::result::Result<BooleanArray, ArrowError> {
        match &self.0 {
            Place::NotANumber => Ok(compare::constant(array, op == Comparison::NotEqual)),
            Place::Among(position) => compare::with_literal(array, op, position),
        }
    }

    pub(crate) fn is_nan(&self) -> bool {
        matches!(self.0, Place::NotANumber)
    }

    /// The only value of the column's type that equals the literal; an empty list if there is none.
    pub(crate) fn only_value(&self) -> Option<ArrayRef> {
        match &self.0 {
            Place::NotANumber => None,
            Place::Among(position) => {
                position.first.as_ref().filter(|_| position.matching == Matching::One).cloned()
            }
        }
    }
}

impl Leaf {
    pub(super) fn new(
        expression: &Expression,
        operand: &Operand,
        data_type: &DataType,
    ) -> Result<Self> {
        let refused = |literal: &Literal| Error::LiteralType {
            operand: operand.subject(),
            data_type: data_type.clone(),
            literal: Box::new(literal.clone()),
        };
        let unsuitable = |function, wanted| Error::OperandType {
            operand: operand.subject(),
            data_type: data_type.clone(),
            function,
            wanted,
        };
        let limit = |literal: &Literal, compared: &DataType| {
            place(literal, compared).map(Limit).ok_or_else(|| refused(literal))
        };
        let bytes = |literal: &Literal, function| match literal {
            _ if !(unwrapped(data_type).is_string() || unwrapped(data_type).is_binary()) => {
                Err(unsuitable(function, "strings and binary values"))
            }
            Literal::Text(text) => Ok(text.as_bytes().to_vec()),
            Literal::Binary(bytes) => Ok(bytes.clone()),
            other => Err(refused(other)),
        };
        let mut compared = compared_as(data_type, None);
        let test = match expression {
            Expression::IsNull { nan_is_null, .. } => Test::IsNull { nan_is_null: *nan_is_null },
            Expression::IsIn { matches_null: true, .. } if compared.is_null() => {
                Test::IsNull { nan_is_null: false }
            }
            Expression::IsIn { null_is_unknown: false, .. } if compared.is_null() => Test::Never,
            _ if compared.is_null() => Test::Unknown,
            Expression::IsNan { .. } if is_number(data_type) => Test::IsNan,
            Expression::IsNan { .. } => return Err(unsuitable("is_nan", "numbers")),
            Expression::Compare { op, value, .. } => {
                compared = compared_as(data_type, Some(value));
                Test::Compare(*op, limit(value, &compared)?)
            }
            Expression::StartsWith { prefix, .. } => {
                let first = Literal::Binary(bytes(prefix, "starts_with")?);
                compared = compared_as(data_type, Some(&first));
                Test::Range(
                    limit(&first, &compared)?,
                    successor(&first).map(|behind| limit(&behind, &compared)).transpose()?,
                )
            }
            Expression::EndsWith { suffix, .. } => Test::EndsWith(bytes(suffix, "ends_with")?),
            Expression::Contains { part, .. } => {
                Test::Contains(Box::new(Finder::new(&bytes(part, "contains")?).into_owned()))
            }
            Expression::IsIn { values, matches_null, null_is_unknown, .. } => {
                let binary = values.iter().find(|value| matches!(value, Literal::Binary(_)));
                compared = compared_as(data_type, binary);
                let members = Members::new(values, &compared, *null_is_unknown)
                    .map_err(|source| operand.failed(source))?
                    .map_err(refused)?;
                Test::IsIn {
                    members: Box::new(members),
                    of_null: (!null_is_unknown).then_some(*matches_null),
                }
            }
            _ => Test::Unknown,
        };
        Ok(Self {
            operand: operand.clone(),
            data_type: data_type.clone(),
            compared,
            test,
            expression: expression.clone(),
        })
    }

    pub(super) fn evaluate(&self, array: &ArrayRef) -> Result<BooleanArray> {
        if *array.data_type() != self.data_type {
            return Self::new(&self.expression, &self.operand, array.data_type())?.evaluate(array);
        }
        let failed = |source| self.operand.failed(source);
        match array.as_any_dictionary_opt() {
            // Each value is compared once, unless there are fewer rows than values.
            Some(dictionary) if dictionary.values().len() <= array.len() => {
                let values = self.test_values(dictionary.values())?;
                let truth = take(&values, dictionary.keys(), None).map_err(failed)?;
                Ok(match self.test.truth_of_null() {
                    Some(of_null) => filled(truth.as_boolean(), of_null),
                    None => truth.as_boolean().clone(),
                })
            }
            _ => self.test_values(array),
        }
    }

    /// The array in the type in which the leaf compares.
    pub(crate) fn comparable(&self, array: &ArrayRef) -> Result<ArrayRef> {
        cast_checked(array, &self.compared).map_err(|source| self.operand.failed(source))
    }

    pub(crate) fn compared(&self) -> &DataType {
        &self.compared
    }

    /// Of the values, for rows of the schema.
    pub(crate) fn data_type(&self) -> &DataType {
        &self.data_type
    }

    /// Compared values in the stored type of the column, for a dictionary in its value type. `None`
    /// if that would change them.
    pub(crate) fn as_stored(&self, values: &ArrayRef) -> Option<ArrayRef> {
        let stored = match &self.data_type {
            DataType::Dictionary(_, value) => value.as_ref(),
            own => own,
        };
        if matches!(stored, DataType::Float16) {
            return None;
        }
        cast_checked(values, stored).ok()
    }

    pub(crate) fn is_float(&self) -> bool {
        self.compared.is_floating()
    }

    pub(crate) fn test_values(&self, array: &ArrayRef) -> Result<BooleanArray> {
        let failed = |source| self.operand.failed(source);
        match &self.test {
            Test::Unknown => Ok(constant(array.len(), None)),
            Test::Never => Ok(constant(array.len(), Some(false))),
            Test::Compare(op, limit) => {
                limit.compare(&self.comparable(array)?, *op).map_err(failed)
            }
            Test::Range(first, behind) => {
                let array = self.comparable(array)?;
                let from = first.compare(&array, Comparison::GreaterOrEqual).map_err(failed)?;
                match behind {
                    Some(behind) => arrow_arith::boolean::and(
                        &from,
                        &behind.compare(&array, Comparison::Less).map_err(failed)?,
                    )
                    .map_err(failed),
                    None => Ok(from),
                }
            }
            Test::IsIn { members, of_null } => {
                let array = self.comparable(array)?;
                let found =
                    BooleanArray::new(members.find(&array).map_err(failed)?, array.logical_nulls());
                Ok(of_null.map_or_else(|| found.clone(), |of_null| filled(&found, of_null)))
            }
            Test::EndsWith(suffix) => {
                test_bytes(&self.comparable(array)?, |bytes| bytes.ends_with(suffix))
                    .map_err(failed)
            }
            Test::Contains(part) => {
                test_bytes(&self.comparable(array)?, |bytes| part.find(bytes).is_some())
                    .map_err(failed)
            }
            Test::IsNull { nan_is_null } => {
                let is_null = array
                    .logical_nulls()
                    .map_or_else(|| BooleanBuffer::new_unset(array.len()), |nulls| !nulls.inner());
                if !(*nan_is_null && self.is_float()) {
                    return Ok(BooleanArray::new(is_null, None));
                }
                let is_nan = filled(&compare::is_nan(&self.comparable(array)?), false);
                Ok(BooleanArray::new(&is_null | is_nan.values(), None))
            }
            Test::IsNan => Ok(compare::is_nan(&self.comparable(array)?)),
        }
    }
}

impl Test {
    /// `None`: unknown.
    fn truth_of_null(&self) -> Option<bool> {
        match self {
            Self::Compare(..)
            | Self::Range(..)
            | Self::EndsWith(_)
            | Self::Contains(_)
            | Self::IsNan
            | Self::Unknown => None,
            Self::IsIn { of_null, .. } => *of_null,
            Self::IsNull { .. } => Some(true),
            Self::Never => Some(false),
        }
    }
}

fn test_bytes(
    array: &ArrayRef,
    holds: impl Fn(&[u8]) -> bool,
) -> std::result::Result<BooleanArray, ArrowError> {
    let mut truth = Vec::with_capacity(array.len());
    each_bytes(array, &mut |bytes| truth.push(holds(bytes)))?;
    Ok(BooleanArray::new(BooleanBuffer::from(truth), array.logical_nulls()))
}

/// Nulls become `truth`.
fn filled(array: &BooleanArray, truth: bool) -> BooleanArray {
    let values = match array.nulls() {
        None => array.values().clone(),
        Some(nulls) if truth => array.values() | &!nulls.inner(),
        Some(nulls) => array.values() & nulls.inner(),
    };
    BooleanArray::new(values, None)
}

/// The smallest byte string after all that start with `prefix`.
fn successor(prefix: &Literal) -> Option<Literal> {
    let Literal::Binary(bytes) = prefix else { return None };
    let mut bytes = bytes.clone();
    while let Some(last) = bytes.pop() {
        if let Some(next) = last.checked_add(1) {
            bytes.push(next);
            return Some(Literal::Binary(bytes));
        }
    }
    None
}
