//! One condition on one column.

use super::membership::Members;
use super::position::{Matching, Place, compared_as, place};
use super::{cast, compare, constant};
use crate::{Comparison, Error, Expression, Literal, Result};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, BooleanArray};
use arrow_buffer::BooleanBuffer;
use arrow_schema::{ArrowError, DataType};
use arrow_select::take::take;

#[derive(Debug, Clone)]
pub(crate) struct Leaf {
    pub(crate) column: String,
    /// Of the column, by the schema.
    data_type: DataType,
    /// In which its values are compared.
    compared: DataType,
    pub(crate) test: Test,
    /// For a batch whose column has another type than the schema said, such as a dictionary.
    expression: Expression,
}

#[derive(Debug, Clone)]
pub(crate) enum Test {
    Compare(Comparison, Limit),
    Range(Limit, Option<Limit>),
    IsIn {
        members: Box<Members>,
        matches_null: bool,
    },
    IsNull {
        nan_is_null: bool,
    },
    IsNan,
    /// True for no row, also not for a null.
    Never,
    /// A column of nothing but nulls has no values to compare.
    Unknown,
}

/// A literal as its column sees it.
#[derive(Debug, Clone)]
pub(crate) struct Limit(Place);

impl Limit {
    pub(crate) fn compare(&self, array: &ArrayRef, op: Comparison) -> std::result::Result<BooleanArray, ArrowError> {
        match &self.0 {
            Place::NotANumber => Ok(compare::constant(array, op == Comparison::NotEqual)),
            Place::Among(position) => compare::with_literal(array, op, position),
        }
    }

    /// The one value of the column's type that equals the literal; an empty list when there is none.
    pub(crate) fn only_value(&self) -> Option<ArrayRef> {
        match &self.0 {
            Place::NotANumber => None,
            Place::Among(position) => position.first.as_ref().filter(|_| position.matching == Matching::One).cloned(),
        }
    }
}

impl Leaf {
    pub(super) fn new(expression: &Expression, column: &str, data_type: &DataType) -> Result<Self> {
        let refused =
            |literal: &Literal| Error::LiteralType { column: column.to_owned(), data_type: data_type.clone(), literal: literal.to_string() };
        let limit = |literal: &Literal, compared: &DataType| place(literal, compared).map(Limit).ok_or_else(|| refused(literal));
        let mut compared = compared_as(data_type, None);
        let test = match expression {
            Expression::IsNull { nan_is_null, .. } => Test::IsNull { nan_is_null: *nan_is_null },
            Expression::IsNan { .. } => Test::IsNan,
            Expression::IsIn { matches_null: true, .. } if compared.is_null() => Test::IsNull { nan_is_null: false },
            Expression::IsIn { .. } if compared.is_null() => Test::Never,
            _ if compared.is_null() => Test::Unknown,
            Expression::Compare { op, value, .. } => {
                compared = compared_as(data_type, Some(value));
                Test::Compare(*op, limit(value, &compared)?)
            }
            Expression::StartsWith { prefix, .. } => {
                let bytes = match prefix {
                    Literal::Text(text) => text.as_bytes().to_vec(),
                    Literal::Binary(bytes) => bytes.clone(),
                    other => return Err(refused(other)),
                };
                let first = Literal::Binary(bytes);
                compared = compared_as(data_type, Some(&first));
                Test::Range(limit(&first, &compared)?, successor(&first).map(|behind| limit(&behind, &compared)).transpose()?)
            }
            Expression::IsIn { values, matches_null, .. } => {
                let binary = values.iter().find(|value| matches!(value, Literal::Binary(_)));
                compared = compared_as(data_type, binary);
                let failed = |source| Error::Evaluate { column: column.to_owned(), source };
                let members = Members::new(values, &compared).map_err(failed)?.map_err(refused)?;
                Test::IsIn { members: Box::new(members), matches_null: *matches_null }
            }
            _ => Test::Unknown,
        };
        Ok(Self { column: column.to_owned(), data_type: data_type.clone(), compared, test, expression: expression.clone() })
    }

    pub(super) fn evaluate(&self, array: &ArrayRef) -> Result<BooleanArray> {
        if *array.data_type() != self.data_type {
            return Self::new(&self.expression, &self.column, array.data_type())?.evaluate(array);
        }
        let failed = |source| Error::Evaluate { column: self.column.clone(), source };
        match array.as_any_dictionary_opt() {
            // Each value is judged once, unless there are fewer rows than values.
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
        cast(array, &self.compared, &self.column)
    }

    pub(crate) fn compared(&self) -> &DataType {
        &self.compared
    }

    /// Whether bounds of that type are bounds of this column.
    pub(crate) fn is_of_type(&self, bounds: &DataType) -> bool {
        match &self.data_type {
            DataType::Dictionary(_, value) => bounds == &self.data_type || bounds == value.as_ref(),
            own => bounds == own,
        }
    }

    /// Compared values in the type that the column stores, a dictionary's in that of its values. `None` where that would change them.
    pub(crate) fn as_stored(&self, values: &ArrayRef) -> Option<ArrayRef> {
        let stored = match &self.data_type {
            DataType::Dictionary(_, value) => value.as_ref(),
            own => own,
        };
        if matches!(stored, DataType::Float16) {
            return None;
        }
        cast(values, stored, &self.column).ok()
    }

    pub(crate) fn is_float(&self) -> bool {
        self.compared.is_floating()
    }

    fn test_values(&self, array: &ArrayRef) -> Result<BooleanArray> {
        let failed = |source| Error::Evaluate { column: self.column.clone(), source };
        match &self.test {
            Test::Unknown => Ok(constant(array.len(), None)),
            Test::Never => Ok(constant(array.len(), Some(false))),
            Test::Compare(op, limit) => limit.compare(&self.comparable(array)?, *op).map_err(failed),
            Test::Range(first, behind) => {
                let array = self.comparable(array)?;
                let from = first.compare(&array, Comparison::GreaterOrEqual).map_err(failed)?;
                match behind {
                    Some(behind) => arrow_arith::boolean::and(&from, &behind.compare(&array, Comparison::Less).map_err(failed)?).map_err(failed),
                    None => Ok(from),
                }
            }
            Test::IsIn { members, matches_null } => {
                let array = self.comparable(array)?;
                let found = BooleanArray::new(members.find(&array).map_err(failed)?, array.logical_nulls());
                Ok(filled(&found, *matches_null))
            }
            Test::IsNull { nan_is_null } => {
                let is_null = array.logical_nulls().map_or_else(|| BooleanBuffer::new_unset(array.len()), |nulls| !nulls.inner());
                if !(*nan_is_null && self.is_float()) {
                    return Ok(BooleanArray::new(is_null, None));
                }
                let is_nan = filled(&is_nan(&self.comparable(array)?), false);
                Ok(BooleanArray::new(&is_null | is_nan.values(), None))
            }
            Test::IsNan => Ok(is_nan(&self.comparable(array)?)),
        }
    }
}

impl Test {
    /// `None`: unknown.
    fn truth_of_null(&self) -> Option<bool> {
        match self {
            Self::Compare(..) | Self::Range(..) | Self::IsNan | Self::Unknown => None,
            Self::IsIn { matches_null, .. } => Some(*matches_null),
            Self::IsNull { .. } => Some(true),
            Self::Never => Some(false),
        }
    }
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

fn is_nan(array: &ArrayRef) -> BooleanArray {
    match array.data_type() {
        DataType::Float32 => BooleanArray::from_unary(array.as_primitive::<Float32Type>(), f32::is_nan),
        DataType::Float64 => BooleanArray::from_unary(array.as_primitive::<Float64Type>(), f64::is_nan),
        _ => compare::constant(array, false),
    }
}

/// The first string of bytes behind all that start with these.
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
