//! Encoded images in the type in which they are read: their bytes, and where they are if they have
//! none.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, ListArray, StructArray, new_null_array};
use arrow_cast::cast;
use arrow_schema::{ArrowError, DataType, Field, Fields};
use arrow_select::nullif::nullif;
use shardmill_formats::table::type_name;
use shardmill_plan::schema::value_type;
use std::sync::Arc;

/// The struct in which encoded images are read.
pub(super) fn encoded_fields() -> Fields {
    Fields::from(vec![
        Field::new("bytes", DataType::BinaryView, true),
        Field::new("path", DataType::Utf8View, true),
    ])
}

/// The same with the width and the height that columns state.
pub(super) fn sized_fields() -> Fields {
    let sides = ["width", "height"].map(|side| Arc::new(Field::new(side, DataType::Int32, true)));
    encoded_fields().iter().cloned().chain(sides).collect()
}

/// Lists of encoded images in the type in which they are read. `sides` has the lists of their
/// widths and heights, if columns state them.
pub(super) fn encoded_lists(array: &ArrayRef, sides: &[&ArrayRef]) -> Result<ArrayRef, ArrowError> {
    let array = match array.data_type() {
        DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            &cast(array, &DataType::List(Arc::clone(item)))?
        }
        _ => array,
    };
    let Some(lists) = array.as_list_opt::<i32>() else {
        return Err(ArrowError::CastError(format!(
            "{} is not a list",
            type_name(array.data_type())
        )));
    };
    let (_, offsets, items, nulls) = lists.clone().into_parts();
    let mut images = encoded_items(&items)?;
    if !sides.is_empty() {
        let mut columns = images.columns().to_vec();
        for lists in sides {
            let lists = lists.as_list_opt::<i32>().filter(|lists| *lists.offsets() == offsets);
            let wrong = || ArrowError::CastError("sizes are not parallel to images".to_owned());
            // A number that is not a side becomes null.
            columns.push(cast(lists.ok_or_else(wrong)?.values(), &DataType::Int32)?);
        }
        let len = images.len();
        images = StructArray::try_new_with_length(sized_fields(), columns, None, len)?;
    }
    let item = Arc::new(Field::new("item", images.data_type().clone(), true));
    Ok(Arc::new(ListArray::try_new(item, offsets, Arc::new(images), nulls)?))
}

pub(super) fn encoded_items(items: &ArrayRef) -> Result<StructArray, ArrowError> {
    let (bytes, path) = match items.as_struct_opt() {
        Some(fields) => {
            let is_null = items.nulls().map(|nulls| BooleanArray::new(!nulls.inner(), None));
            let field = |name: &str, is_wanted: fn(&DataType) -> bool| match fields
                .column_by_name(name)
                .filter(|field| is_wanted(field.data_type()))
            {
                Some(field) => is_null
                    .as_ref()
                    .map_or_else(|| Ok(Arc::clone(field)), |is_null| nullif(field, is_null))
                    .map(Some),
                None => Ok(None),
            };
            (field("bytes", is_binary)?, field("path", is_string)?)
        }
        None if is_string(items.data_type()) => (None, Some(Arc::clone(items))),
        None => (Some(Arc::clone(items)), None),
    };
    let part = |array: Option<ArrayRef>, data_type: DataType| match array {
        Some(array) => {
            cast(&array, value_type(array.data_type())).and_then(|values| cast(&values, &data_type))
        }
        None => Ok(new_null_array(&data_type, items.len())),
    };
    let parts = vec![part(bytes, DataType::BinaryView)?, part(path, DataType::Utf8View)?];
    StructArray::try_new_with_length(encoded_fields(), parts, None, items.len())
}

pub(super) fn is_binary(data_type: &DataType) -> bool {
    matches!(value_type(data_type), DataType::Binary | DataType::LargeBinary | DataType::BinaryView)
}

pub(super) fn is_string(data_type: &DataType) -> bool {
    matches!(value_type(data_type), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}
