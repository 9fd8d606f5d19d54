//! Computes with numbers.
//!
//! Integers are computed as `Int64`, with `UInt64` as decimals, and floats as `Float64`. The
//! invariant: a result out of the range of its type is an error, and a division by zero is null.

use super::cast::{cast_checked, unwrapped};
use crate::Arithmetic;
use arrow_arith::numeric;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Decimal128Type, Decimal256Type, Float64Type, Int64Type,
};
use arrow_array::{Array, ArrayRef, Datum, NullArray, PrimitiveArray, Scalar};
use arrow_schema::{ArrowError, DataType};
use num_traits::Zero;
use std::sync::Arc;

/// The values of an operand.
#[derive(Debug, Clone)]
pub(crate) enum Values {
    /// One for each row.
    Rows(ArrayRef),
    /// An array of length one, with the value of all rows.
    Same(ArrayRef),
}

impl Values {
    pub(crate) fn array(&self) -> &ArrayRef {
        match self {
            Self::Rows(array) | Self::Same(array) => array,
        }
    }

    /// `None` if `function` does not apply to values of this type.
    pub(super) fn map(
        &self,
        function: impl Fn(&ArrayRef) -> Result<Option<ArrayRef>, ArrowError>,
    ) -> Result<Option<Self>, ArrowError> {
        Ok(function(self.array())?.map(|array| self.with(array)))
    }

    fn with(&self, array: ArrayRef) -> Self {
        match self {
            Self::Rows(_) => Self::Rows(array),
            Self::Same(_) => Self::Same(array),
        }
    }

    fn datum(&self) -> Box<dyn Datum> {
        match self {
            Self::Rows(array) => Box::new(Arc::clone(array)),
            Self::Same(array) => Box::new(Scalar::new(Arc::clone(array))),
        }
    }
}

/// Whether values of the type can be computed with. A column of nulls has no other values.
pub(crate) fn is_number(data_type: &DataType) -> bool {
    let data_type = unwrapped(data_type);
    data_type.is_numeric() || data_type.is_null()
}

pub(crate) fn arithmetic(
    op: Arithmetic,
    left: &Values,
    right: &Values,
) -> Result<Values, ArrowError> {
    let (left_type, right_type) =
        computing_types(op, left.array().data_type(), right.array().data_type());
    // Nothing is cast to nulls.
    let in_type = |side: &Values, data_type: &DataType| match data_type {
        DataType::Null => Ok(side.with(Arc::new(NullArray::new(side.array().len())))),
        _ => cast_checked(side.array(), data_type).map(|array| side.with(array)),
    };
    let (left, right) = (in_type(left, &left_type)?, in_type(right, &right_type)?);
    let result = kernel(op, &left, &right)?;
    Ok(if matches!((&left, &right), (Values::Same(_), Values::Same(_))) {
        Values::Same(result)
    } else {
        Values::Rows(result)
    })
}

/// The types in which two numbers are computed with.
pub(crate) fn computing_types(
    op: Arithmetic,
    left: &DataType,
    right: &DataType,
) -> (DataType, DataType) {
    let (left, right) = (unwrapped(left), unwrapped(right));
    if left.is_null() || right.is_null() {
        return (DataType::Null, DataType::Null);
    }
    if op == Arithmetic::Divide || left.is_floating() || right.is_floating() {
        return (DataType::Float64, DataType::Float64);
    }
    let is_small = |data_type: &DataType| data_type.is_integer() && *data_type != DataType::UInt64;
    if is_small(left) && is_small(right) {
        return (DataType::Int64, DataType::Int64);
    }
    match (digits(left), digits(right)) {
        ((precision, scale), (other_precision, other_scale)) if is_wide(left) || is_wide(right) => {
            (
                DataType::Decimal256(precision, scale),
                DataType::Decimal256(other_precision, other_scale),
            )
        }
        ((precision, scale), (other_precision, other_scale)) => (
            DataType::Decimal128(precision, scale),
            DataType::Decimal128(other_precision, other_scale),
        ),
    }
}

fn is_wide(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Decimal256(..))
}

/// Precision and scale of a decimal type that holds all values of an integer or decimal type.
pub(super) fn digits(data_type: &DataType) -> (u8, i8) {
    match data_type {
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => (*precision, *scale),
        DataType::UInt64 => (20, 0),
        _ => (19, 0),
    }
}

/// Of values in their [`computing_types`].
pub(crate) fn kernel(
    op: Arithmetic,
    left: &Values,
    right: &Values,
) -> Result<ArrayRef, ArrowError> {
    if left.array().data_type().is_null() {
        return Ok(Arc::new(NullArray::new(
            if matches!(left, Values::Rows(_)) { left } else { right }.array().len(),
        )));
    }
    let (dividend, divisor) = (left.datum(), right.datum());
    let result = match op {
        Arithmetic::Add => numeric::add(&*dividend, &*divisor),
        Arithmetic::Subtract => numeric::sub(&*dividend, &*divisor),
        Arithmetic::Multiply => numeric::mul(&*dividend, &*divisor),
        Arithmetic::Divide => {
            numeric::div(&*dividend, &*right.with(without_zeros(right.array())).datum())
        }
        Arithmetic::Remainder => {
            numeric::rem(&*dividend, &*right.with(without_zeros(right.array())).datum())
        }
    }?;
    // The kernels check for the width of the type alone.
    let overflow = |error: ArrowError| ArrowError::ArithmeticOverflow(error.to_string());
    match result.data_type() {
        DataType::Decimal128(precision, _) => result
            .as_primitive::<Decimal128Type>()
            .validate_decimal_precision(*precision)
            .map_err(overflow)?,
        DataType::Decimal256(precision, _) => result
            .as_primitive::<Decimal256Type>()
            .validate_decimal_precision(*precision)
            .map_err(overflow)?,
        _ => {}
    }
    Ok(result)
}

/// Zeros become nulls.
fn without_zeros(array: &ArrayRef) -> ArrayRef {
    fn of<T: ArrowPrimitiveType<Native: Zero>>(array: &ArrayRef) -> ArrayRef {
        let array: &PrimitiveArray<T> = array.as_primitive();
        let is_any = array.values().iter().any(Zero::is_zero);
        let without = || {
            array
                .unary_opt::<_, T>(|value| (!value.is_zero()).then_some(value))
                .with_data_type(array.data_type().clone())
        };
        Arc::new(if is_any { without() } else { array.clone() })
    }
    match array.data_type() {
        DataType::Int64 => of::<Int64Type>(array),
        DataType::Float64 => of::<Float64Type>(array),
        DataType::Decimal128(..) => of::<Decimal128Type>(array),
        DataType::Decimal256(..) => of::<Decimal256Type>(array),
        _ => Arc::clone(array),
    }
}
