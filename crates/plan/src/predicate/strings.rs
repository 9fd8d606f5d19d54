//! Functions of strings, binary values and lists. `None` if the type has no such function.

use arrow_array::builder::{GenericStringBuilder, StringViewBuilder};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, Int64Array, OffsetSizeTrait};
use arrow_schema::{ArrowError, DataType};
use arrow_select::take::take;
use std::sync::Arc;

pub(crate) fn lower(array: &ArrayRef) -> Result<Option<ArrayRef>, ArrowError> {
    fn offsets<O: OffsetSizeTrait>(array: &ArrayRef) -> ArrayRef {
        let array = array.as_string::<O>();
        let mut lower = GenericStringBuilder::<O>::with_capacity(array.len(), array.values().len());
        array.iter().for_each(|text| lower.append_option(text.map(str::to_lowercase)));
        Arc::new(lower.finish())
    }
    if let Some(dictionary) = array.as_any_dictionary_opt() {
        return Ok(lower(dictionary.values())?.map(|values| dictionary.with_values(values)));
    }
    Ok(Some(match array.data_type() {
        DataType::Utf8 => offsets::<i32>(array),
        DataType::LargeUtf8 => offsets::<i64>(array),
        DataType::Utf8View => {
            let mut lower = StringViewBuilder::with_capacity(array.len());
            array
                .as_string_view()
                .iter()
                .for_each(|text| lower.append_option(text.map(str::to_lowercase)));
            Arc::new(lower.finish())
        }
        DataType::Null => Arc::clone(array),
        _ => return Ok(None),
    }))
}

pub(crate) fn length(array: &ArrayRef) -> Result<Option<ArrayRef>, ArrowError> {
    macro_rules! each {
        ($typed:expr, |$array:ident, $row:ident| $length:expr) => {{
            let $array = $typed;
            let lengths = (0..$array.len()).map(|$row| {
                if $array.is_null($row) { 0 } else { i64::try_from($length).unwrap_or(i64::MAX) }
            });
            Arc::new(Int64Array::new(lengths.collect(), $array.nulls().cloned()))
        }};
    }
    if let Some(dictionary) = array.as_any_dictionary_opt() {
        let Some(lengths) = length(dictionary.values())? else { return Ok(None) };
        return take(&lengths, dictionary.keys(), None).map(Some);
    }
    Ok(Some(match array.data_type() {
        DataType::Utf8 => {
            each!(array.as_string::<i32>(), |array, row| array.value(row).chars().count())
        }
        DataType::LargeUtf8 => {
            each!(array.as_string::<i64>(), |array, row| array.value(row).chars().count())
        }
        DataType::Utf8View => {
            each!(array.as_string_view(), |array, row| array.value(row).chars().count())
        }
        DataType::Binary => each!(array.as_binary::<i32>(), |array, row| array.value_length(row)),
        DataType::LargeBinary => {
            each!(array.as_binary::<i64>(), |array, row| array.value_length(row))
        }
        DataType::BinaryView => each!(array.as_binary_view(), |array, row| array.value(row).len()),
        DataType::FixedSizeBinary(size) => each!(array, |sized, _row| *size),
        DataType::List(_) => each!(array.as_list::<i32>(), |array, row| array.value_length(row)),
        DataType::LargeList(_) => {
            each!(array.as_list::<i64>(), |array, row| array.value_length(row))
        }
        DataType::ListView(_) => {
            each!(array.as_list_view::<i32>(), |array, row| array.value_size(row))
        }
        DataType::LargeListView(_) => {
            each!(array.as_list_view::<i64>(), |array, row| array.value_size(row))
        }
        DataType::FixedSizeList(_, size) => each!(array, |sized, _row| *size),
        DataType::Map(..) => each!(array.as_map(), |array, row| array.value_length(row)),
        DataType::Null => Arc::clone(array),
        _ => return Ok(None),
    }))
}
