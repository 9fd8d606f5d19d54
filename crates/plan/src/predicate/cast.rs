//! Converts values to the type in which they are compared or computed.

use arrow_array::{Array, ArrayRef};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{ArrowError, DataType};
use std::sync::Arc;

const CHECKED: CastOptions<'static> =
    CastOptions { safe: false, format_options: arrow_cast::display::FormatOptions::new() };

/// The array in another type. A value that does not fit is an error, never a null.
pub(crate) fn cast_checked(array: &ArrayRef, data_type: &DataType) -> Result<ArrayRef, ArrowError> {
    if array.data_type() == data_type {
        Ok(Arc::clone(array))
    } else {
        cast_with_options(array, data_type, &CHECKED)
    }
}

/// The type of the values of a dictionary; any other type itself.
pub(super) fn unwrapped(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, value) => value,
        other => other,
    }
}
