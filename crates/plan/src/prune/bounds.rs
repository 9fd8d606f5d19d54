//! Bounds of the values of each block, in the type in which they are compared.

use crate::predicate::cast_checked;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, Float32Array, Float64Array};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_ord::cmp;
use arrow_schema::DataType;
use std::sync::Arc;

/// Bounds in the type `compared`, null where they are unknown or contradictory. `None` if they
/// cannot be bounds of values of `data_type`.
pub(super) fn sound(
    min: &ArrayRef,
    max: &ArrayRef,
    data_type: &DataType,
    compared: &DataType,
) -> Option<(ArrayRef, ArrayRef)> {
    let is_of_type = |bounds: &DataType| match data_type {
        DataType::Dictionary(_, value) => bounds == data_type || bounds == value.as_ref(),
        own => bounds == own,
    };
    if !is_of_type(min.data_type()) || !is_of_type(max.data_type()) {
        return None;
    }
    let (min, max) = (
        without_nan(&cast_checked(min, compared).ok()?),
        without_nan(&cast_checked(max, compared).ok()?),
    );
    // Zeros of both signs are equal.
    let is_float = min.data_type().is_floating();
    let is_inverted = if is_float {
        cmp::gt(&with_zero(&min, false), &with_zero(&max, true))
    } else {
        cmp::gt(&min, &max)
    }
    .ok()?;
    let is_sound =
        NullBuffer::new(!&(is_inverted.values() & &valid(is_inverted.nulls(), min.len())));
    Some((only_where(&min, &is_sound)?, only_where(&max, &is_sound)?))
}

fn valid(nulls: Option<&NullBuffer>, length: usize) -> BooleanBuffer {
    nulls.map_or_else(|| BooleanBuffer::new_set(length), |nulls| nulls.inner().clone())
}

/// The blocks whose bounds admit one value only.
pub(super) fn only_value(min: &ArrayRef, max: &ArrayRef) -> Option<NullBuffer> {
    let is_same = cmp::eq(min, max).ok()?;
    Some(NullBuffer::new(is_same.values() & &valid(is_same.nulls(), min.len())))
}

pub(super) fn only_where(array: &ArrayRef, condition: &NullBuffer) -> Option<ArrayRef> {
    if condition.null_count() == 0 {
        return Some(Arc::clone(array));
    }
    let nulls = NullBuffer::union(array.nulls(), Some(condition));
    Some(arrow_array::make_array(array.to_data().into_builder().nulls(nulls).build().ok()?))
}

/// A NaN bound is unusable.
fn without_nan(array: &ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Float32 => Arc::new(Float32Array::from_iter(
            array
                .as_primitive::<Float32Type>()
                .iter()
                .map(|bound| bound.filter(|bound| !bound.is_nan())),
        )),
        DataType::Float64 => Arc::new(Float64Array::from_iter(
            array
                .as_primitive::<Float64Type>()
                .iter()
                .map(|bound| bound.filter(|bound| !bound.is_nan())),
        )),
        _ => Arc::clone(array),
    }
}

/// Zeros with the outer sign, for an order that distinguishes them.
pub(super) fn with_zero(array: &ArrayRef, is_positive: bool) -> ArrayRef {
    match array.data_type() {
        DataType::Float32 => {
            let zero = if is_positive { 0.0 } else { -0.0 };
            Arc::new(
                array
                    .as_primitive::<Float32Type>()
                    .unary::<_, Float32Type>(|bound| if bound == 0.0 { zero } else { bound }),
            )
        }
        DataType::Float64 => {
            let zero = if is_positive { 0.0 } else { -0.0 };
            Arc::new(
                array
                    .as_primitive::<Float64Type>()
                    .unary::<_, Float64Type>(|bound| if bound == 0.0 { zero } else { bound }),
            )
        }
        _ => Arc::clone(array),
    }
}
