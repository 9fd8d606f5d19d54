//! Values of Arrow columns as JSON, for templates.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use serde_json::{Map, Number, Value as Json};

/// Whether [`json`] supports this type.
pub(super) fn is_json(data_type: &DataType) -> bool {
    match data_type {
        DataType::Null
        | DataType::Boolean
        | DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Utf8View => true,
        DataType::Float32 | DataType::Float64 => true,
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            is_json(item.data_type())
        }
        DataType::Struct(fields) => fields.iter().all(|field| is_json(field.data_type())),
        other => other.is_integer(),
    }
}

/// The value of a row. Null for a type that [`is_json`] does not accept, and for a number that JSON
/// cannot represent.
pub(super) fn json(array: &ArrayRef, row: usize) -> Json {
    if array.is_null(row) {
        return Json::Null;
    }
    match array.data_type() {
        DataType::Boolean => Json::Bool(array.as_boolean().value(row)),
        DataType::Utf8 => Json::from(array.as_string::<i32>().value(row)),
        DataType::LargeUtf8 => Json::from(array.as_string::<i64>().value(row)),
        DataType::Utf8View => Json::from(array.as_string_view().value(row)),
        DataType::Int8 => number::<Int8Type>(array, row),
        DataType::Int16 => number::<Int16Type>(array, row),
        DataType::Int32 => number::<Int32Type>(array, row),
        DataType::Int64 => number::<Int64Type>(array, row),
        DataType::UInt8 => number::<UInt8Type>(array, row),
        DataType::UInt16 => number::<UInt16Type>(array, row),
        DataType::UInt32 => number::<UInt32Type>(array, row),
        DataType::UInt64 => number::<UInt64Type>(array, row),
        DataType::Float32 => float(f64::from(array.as_primitive::<Float32Type>().value(row))),
        DataType::Float64 => float(array.as_primitive::<Float64Type>().value(row)),
        DataType::List(_) => list(&array.as_list::<i32>().value(row)),
        DataType::LargeList(_) => list(&array.as_list::<i64>().value(row)),
        DataType::FixedSizeList(_, _) => list(&array.as_fixed_size_list().value(row)),
        DataType::Struct(fields) => {
            let columns = array.as_struct().columns();
            let entries = fields
                .iter()
                .zip(columns)
                .map(|(field, column)| (field.name().clone(), json(column, row)));
            // Every struct of a column has every key, so a null means that the key is absent.
            Json::Object(entries.filter(|(_, value)| !value.is_null()).collect::<Map<_, _>>())
        }
        _ => Json::Null,
    }
}

fn list(items: &ArrayRef) -> Json {
    Json::Array((0..items.len()).map(|item| json(items, item)).collect())
}

fn number<T: ArrowPrimitiveType<Native: Into<Number>>>(array: &ArrayRef, row: usize) -> Json {
    Json::Number(array.as_primitive::<T>().value(row).into())
}

fn float(value: f64) -> Json {
    Number::from_f64(value).map_or(Json::Null, Json::Number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{Float64Array, Int64Array, StructArray};
    use arrow_schema::Field;
    use std::sync::Arc;

    #[test]
    fn structs_become_objects_in_the_order_of_their_fields_without_nulls() {
        let whole: ArrayRef = Arc::new(Int64Array::from(vec![Some(i64::MAX), None]));
        let fraction: ArrayRef = Arc::new(Float64Array::from(vec![2.0, f64::NAN]));
        let field = |name, data_type| Arc::new(Field::new(name, data_type, true));
        let rows = StructArray::from(vec![
            (field("z", DataType::Int64), whole),
            (field("a", DataType::Float64), fraction),
        ]);
        let rows: ArrayRef = Arc::new(rows);
        assert_eq!(json(&rows, 0).to_string(), r#"{"z":9223372036854775807,"a":2.0}"#);
        assert_eq!(json(&rows, 1).to_string(), "{}");
    }
}
