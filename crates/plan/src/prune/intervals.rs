//! Statistics of computed values, from those of their columns.
//!
//! The invariant: bounds are given only where the computation is monotone, so that rounding cannot
//! move a value past them.

use super::Facts;
use super::bounds::{only_value, only_where, sound};
use crate::predicate::{Values, cast_checked, computing_types, is_number, kernel, length, lower};
use crate::{Arithmetic, Computed, Operand};
use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{Array, ArrayRef, new_null_array};
use arrow_schema::{ArrowError, DataType};
use shardmill_formats::table::Statistics;
use std::sync::Arc;

/// One entry for each block; `None` if nothing is known.
pub(super) fn statistics_of(
    operand: &Operand,
    row_counts: &[u64],
    facts: &dyn Facts,
) -> Option<Statistics> {
    let computed = match operand {
        Operand::Column(name) => return facts.statistics(name),
        Operand::Computed(computed) => computed.as_ref(),
    };
    match computed {
        Computed::Literal(literal) => {
            Statistics::constant(&literal.to_array()?, row_counts.to_vec()).ok()
        }
        Computed::Lower(of) => of_function(statistics_of(of, row_counts, facts)?, lower),
        Computed::Length(of) => of_function(statistics_of(of, row_counts, facts)?, length),
        Computed::Arithmetic(op, left, right) => {
            let (left_statistics, right_statistics) =
                (statistics_of(left, row_counts, facts)?, statistics_of(right, row_counts, facts)?);
            let is_constant = [left, right].map(|side| side.columns().is_empty());
            of_arithmetic(*op, &left_statistics, &right_statistics, is_constant)
        }
    }
}

/// A block with a single value has a single result.
fn of_function(
    of: Statistics,
    function: fn(&ArrayRef) -> Result<Option<ArrayRef>, ArrowError>,
) -> Option<Statistics> {
    let data_type = of.min.data_type().clone();
    let (min, max) = sound(&of.min, &of.max, &data_type, &data_type)?;
    let result = function(&only_where(&min, &only_value(&min, &max)?)?).ok()??;
    Some(Statistics { min: Arc::clone(&result), max: result, ..of })
}

fn of_arithmetic(
    op: Arithmetic,
    left: &Statistics,
    right: &Statistics,
    is_constant: [bool; 2],
) -> Option<Statistics> {
    let (left_type, right_type) = (left.min.data_type(), right.min.data_type());
    if !is_number(left_type) || !is_number(right_type) || left.row_counts != right.row_counts {
        return None;
    }
    let (left_computing, right_computing) = computing_types(op, left_type, right_type);
    let empty = |data_type: &DataType| Values::Rows(new_null_array(data_type, 0));
    let result =
        kernel(op, &empty(&left_computing), &empty(&right_computing)).ok()?.data_type().clone();
    let bounds = sound(&left.min, &left.max, left_type, &left_computing)
        .zip(sound(&right.min, &right.max, right_type, &right_computing))
        .and_then(|(left, right)| of_bounds(op, &left, &right, is_constant));
    let (min, max) = bounds.unwrap_or_else(|| {
        let unknown = new_null_array(&result, left.row_counts.len());
        (Arc::clone(&unknown), unknown)
    });
    let has_zeros = matches!(op, Arithmetic::Divide | Arithmetic::Remainder)
        && !(is_constant == [false, true] && sign_of(&right.min).is_some());
    let null_counts = left.null_counts.iter().zip(&right.null_counts).zip(&left.row_counts);
    let null_count =
        |((left, right), rows): ((&Option<u64>, &Option<u64>), &u64)| match (*left, *right) {
            (Some(nulls), _) | (_, Some(nulls)) if nulls == *rows => Some(nulls),
            (Some(nulls), Some(0)) | (Some(0), Some(nulls)) if !has_zeros => Some(nulls),
            _ => None,
        };
    Some(Statistics {
        min,
        max,
        null_counts: null_counts.map(null_count).collect(),
        row_counts: left.row_counts.clone(),
    })
}

/// `None` where bounds are not certain, or their computation overflows.
fn of_bounds(
    op: Arithmetic,
    left: &(ArrayRef, ArrayRef),
    right: &(ArrayRef, ArrayRef),
    is_constant: [bool; 2],
) -> Option<(ArrayRef, ArrayRef)> {
    let computed = |left: &ArrayRef, right: &ArrayRef| {
        kernel(op, &Values::Rows(Arc::clone(left)), &Values::Rows(Arc::clone(right))).ok()
    };
    let in_order = |sign: f64, low: ArrayRef, high: ArrayRef| {
        if sign < 0.0 { (high, low) } else { (low, high) }
    };
    match (op, is_constant) {
        (Arithmetic::Add, _) => Some((computed(&left.0, &right.0)?, computed(&left.1, &right.1)?)),
        (Arithmetic::Subtract, _) => {
            Some((computed(&left.0, &right.1)?, computed(&left.1, &right.0)?))
        }
        (Arithmetic::Multiply | Arithmetic::Divide, [_, true]) => Some(in_order(
            sign_of(&right.0)?,
            computed(&left.0, &right.0)?,
            computed(&left.1, &right.0)?,
        )),
        (Arithmetic::Multiply, [true, false]) => Some(in_order(
            sign_of(&left.0)?,
            computed(&left.0, &right.0)?,
            computed(&left.0, &right.1)?,
        )),
        _ => None,
    }
}

/// The sign of a constant; `None` for zero and NaN.
fn sign_of(constant: &ArrayRef) -> Option<f64> {
    let floats = cast_checked(constant, &DataType::Float64).ok()?;
    let value = floats.as_primitive::<Float64Type>().iter().next()??;
    (value != 0.0 && !value.is_nan()).then(|| value.signum())
}
