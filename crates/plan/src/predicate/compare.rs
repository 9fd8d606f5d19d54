//! Compares a column with a literal, or with another column.
//!
//! The kernels of arrow-rs use total order for floats, where −0.0 < 0.0 and NaN equals itself; here
//! floats are compared according to IEEE 754.

use super::arithmetic::digits;
use super::cast::unwrapped;
use super::position::{Matching, Position};
use crate::Comparison;
use arrow_arith::boolean::and;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type, Int64Type, UInt64Type};
use arrow_array::{Array, ArrayRef, BooleanArray, Datum, Scalar};
use arrow_buffer::BooleanBuffer;
use arrow_ord::cmp;
use arrow_schema::{ArrowError, DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType};
use num_traits::ToPrimitive;
use std::cmp::Ordering;

/// `truth` for each value, unknown for each null.
pub(super) fn constant(array: &ArrayRef, truth: bool) -> BooleanArray {
    let values = if truth {
        BooleanBuffer::new_set(array.len())
    } else {
        BooleanBuffer::new_unset(array.len())
    };
    BooleanArray::new(values, array.logical_nulls())
}

pub(super) fn is_nan(array: &ArrayRef) -> BooleanArray {
    match array.data_type() {
        DataType::Float32 => {
            BooleanArray::from_unary(array.as_primitive::<Float32Type>(), f32::is_nan)
        }
        DataType::Float64 => {
            BooleanArray::from_unary(array.as_primitive::<Float64Type>(), f64::is_nan)
        }
        _ => constant(array, false),
    }
}

pub(super) fn with_literal(
    array: &ArrayRef,
    op: Comparison,
    literal: &Position,
) -> Result<BooleanArray, ArrowError> {
    // A value is below the literal exactly if it is below the first value at or above the literal.
    let (bound, op, without_bound) = match (op, literal.matching) {
        (Comparison::Less | Comparison::GreaterOrEqual, _) => {
            (&literal.first, op, op == Comparison::Less)
        }
        (Comparison::Greater | Comparison::LessOrEqual, _) => {
            (&literal.last, op, op == Comparison::Greater)
        }
        (_, Matching::One) => (&literal.first, op, false),
        (_, Matching::None) => return Ok(constant(array, op == Comparison::NotEqual)),
        (Comparison::Equal, Matching::Many) => {
            return and(
                &with_literal(array, Comparison::GreaterOrEqual, literal)?,
                &with_literal(array, Comparison::LessOrEqual, literal)?,
            );
        }
        (Comparison::NotEqual, Matching::Many) => {
            return arrow_arith::boolean::not(&with_literal(array, Comparison::Equal, literal)?);
        }
    };
    match bound {
        Some(bound) => with_scalar(array, op, bound),
        None => Ok(constant(array, without_bound)),
    }
}

fn with_scalar(
    array: &ArrayRef,
    op: Comparison,
    scalar: &ArrayRef,
) -> Result<BooleanArray, ArrowError> {
    macro_rules! floats {
        ($type:ty) => {{
            let (array, bound) =
                (array.as_primitive::<$type>(), scalar.as_primitive::<$type>().value(0));
            #[expect(clippy::float_cmp, reason = "as IEEE 754 has it")]
            Ok(match op {
                Comparison::Equal => BooleanArray::from_unary(array, |value| value == bound),
                Comparison::NotEqual => BooleanArray::from_unary(array, |value| value != bound),
                Comparison::Less => BooleanArray::from_unary(array, |value| value < bound),
                Comparison::LessOrEqual => BooleanArray::from_unary(array, |value| value <= bound),
                Comparison::Greater => BooleanArray::from_unary(array, |value| value > bound),
                Comparison::GreaterOrEqual => {
                    BooleanArray::from_unary(array, |value| value >= bound)
                }
            })
        }};
    }
    match array.data_type() {
        DataType::Float32 => floats!(Float32Type),
        DataType::Float64 => floats!(Float64Type),
        _ => kernel(op)(array, &Scalar::new(scalar)),
    }
}

type Kernel = fn(&dyn Datum, &dyn Datum) -> Result<BooleanArray, ArrowError>;

fn kernel(op: Comparison) -> Kernel {
    match op {
        Comparison::Equal => cmp::eq,
        Comparison::NotEqual => cmp::neq,
        Comparison::Less => cmp::lt,
        Comparison::LessOrEqual => cmp::lt_eq,
        Comparison::Greater => cmp::gt,
        Comparison::GreaterOrEqual => cmp::gt_eq,
    }
}

/// The types in which two columns are compared. They differ only for a 64-bit integer and a float.
pub(super) fn common_types(left: &DataType, right: &DataType) -> Option<(DataType, DataType)> {
    use DataType::{
        Binary, BinaryView, Boolean, Date32, Date64, Duration, Float16, Float32, Float64, Int64,
        LargeBinary, LargeUtf8, Time32, Time64, Timestamp, UInt64, Utf8, Utf8View,
    };
    let (left, right) = (unwrapped(left), unwrapped(right));
    let same = |data_type: DataType| Some((data_type.clone(), data_type));
    match (left, right) {
        (Float16 | Float32 | Float64, Float16 | Float32 | Float64) => same(Float64),
        (Float16 | Float32 | Float64, other) if other.is_integer() => {
            Some((Float64, if *other == UInt64 { UInt64 } else { Int64 }))
        }
        (other, Float16 | Float32 | Float64) if other.is_integer() => {
            Some((if *other == UInt64 { UInt64 } else { Int64 }, Float64))
        }
        (UInt64, other) | (other, UInt64) if other.is_integer() => {
            same(if other.is_unsigned_integer() { UInt64 } else { DataType::Decimal128(20, 0) })
        }
        _ if left.is_integer() && right.is_integer() => same(Int64),
        (Boolean, Boolean) | (Date32, Date32) | (Date64, Date64) => same(left.clone()),
        (Utf8 | LargeUtf8 | Utf8View, Utf8 | LargeUtf8 | Utf8View) => {
            same(if left == right { left.clone() } else { LargeUtf8 })
        }
        (Binary | LargeBinary | BinaryView, Binary | LargeBinary | BinaryView) => {
            same(if left == right { left.clone() } else { LargeBinary })
        }
        (Timestamp(first, zone), Timestamp(second, other)) if zone.is_some() == other.is_some() => {
            same(Timestamp((*first).max(*second), zone.clone()))
        }
        (Time32(first) | Time64(first), Time32(second) | Time64(second)) => {
            let unit = (*first).max(*second);
            same(if unit <= arrow_schema::TimeUnit::Millisecond {
                Time32(unit)
            } else {
                Time64(unit)
            })
        }
        (Duration(first), Duration(second)) => same(Duration((*first).max(*second))),
        _ if left.is_decimal() && left == right => same(left.clone()),
        (Float16 | Float32 | Float64, other) | (other, Float16 | Float32 | Float64)
            if other.is_decimal() =>
        {
            same(Float64)
        }
        _ if is_exact(left) && is_exact(right) => {
            let ((left_digits, left_scale), (right_digits, right_scale)) =
                (digits(left), digits(right));
            let scale = left_scale.max(right_scale);
            let whole = (i16::from(left_digits) - i16::from(left_scale))
                .max(i16::from(right_digits) - i16::from(right_scale));
            match u8::try_from(whole + i16::from(scale)).ok()? {
                precision @ ..=DECIMAL128_MAX_PRECISION => {
                    same(DataType::Decimal128(precision, scale))
                }
                precision @ ..=DECIMAL256_MAX_PRECISION => {
                    same(DataType::Decimal256(precision, scale))
                }
                _ => None,
            }
        }
        _ => None,
    }
}

fn is_exact(data_type: &DataType) -> bool {
    data_type.is_integer() || data_type.is_decimal()
}

pub(crate) fn columns(
    left: &ArrayRef,
    op: Comparison,
    right: &ArrayRef,
) -> Result<BooleanArray, ArrowError> {
    let holds = |order: Option<Ordering>| match op {
        Comparison::Equal => order == Some(Ordering::Equal),
        Comparison::NotEqual => order != Some(Ordering::Equal),
        Comparison::Less => order == Some(Ordering::Less),
        Comparison::LessOrEqual => matches!(order, Some(Ordering::Less | Ordering::Equal)),
        Comparison::Greater => order == Some(Ordering::Greater),
        Comparison::GreaterOrEqual => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
    };
    macro_rules! binary {
        ($left:ty, $right:ty, $order:expr) => {
            BooleanArray::from_binary(
                left.as_primitive::<$left>(),
                right.as_primitive::<$right>(),
                |left, right| holds($order(left, right)),
            )
        };
    }
    Ok(match (left.data_type(), right.data_type()) {
        (DataType::Float64, DataType::Float64) => {
            binary!(Float64Type, Float64Type, |left: f64, right: f64| left.partial_cmp(&right))
        }
        (DataType::Int64, DataType::Float64) => {
            binary!(Int64Type, Float64Type, |left: i64, right| beside_float(left.into(), right))
        }
        (DataType::UInt64, DataType::Float64) => {
            binary!(UInt64Type, Float64Type, |left: u64, right| beside_float(left.into(), right))
        }
        (DataType::Float64, DataType::Int64) => {
            binary!(Float64Type, Int64Type, |left, right: i64| beside_float(right.into(), left)
                .map(Ordering::reverse))
        }
        (DataType::Float64, DataType::UInt64) => {
            binary!(Float64Type, UInt64Type, |left, right: u64| beside_float(right.into(), left)
                .map(Ordering::reverse))
        }
        _ => kernel(op)(left, right)?,
    })
}

/// Compares by value, without rounding the integer.
fn beside_float(integer: i128, float: f64) -> Option<Ordering> {
    if float.is_nan() {
        return None;
    }
    match float.trunc().to_i128() {
        Some(whole) => {
            Some(integer.cmp(&whole).then_with(|| 0.0_f64.total_cmp(&(float.fract() + 0.0))))
        }
        None => Some(if float > 0.0 { Ordering::Less } else { Ordering::Greater }),
    }
}
