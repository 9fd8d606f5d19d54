//! Dictionaries of rows that come from several blocks.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, make_array};
use arrow_cast::cast;
use arrow_schema::{ArrowError, DataType};
use arrow_select::take::take;

/// The same rows with a dictionary whose values are distinct, as pandas requires for categories.
/// Blocks have dictionaries of their own, and Arrow's kernels append one to the other. An array of
/// another type is returned as it is.
///
/// # Errors
/// When a kernel of Arrow fails.
pub(crate) fn with_distinct_values(array: ArrayRef) -> Result<ArrayRef, ArrowError> {
    let Some(dictionary) = array.as_any_dictionary_opt() else { return Ok(array) };
    let values = dictionary.values();
    let encoded = cast(
        values,
        &DataType::Dictionary(Box::new(DataType::Int32), Box::new(values.data_type().clone())),
    );
    // Arrow encodes no booleans and no nested values.
    let Ok(encoded) = encoded else { return Ok(array) };
    let distinct = encoded.as_any_dictionary();
    if distinct.values().len() == values.len() {
        return Ok(array);
    }
    let rows = take(distinct.keys(), dictionary.keys(), None)?;
    let keys = cast(&rows, dictionary.keys().data_type())?;
    let data = keys
        .to_data()
        .into_builder()
        .data_type(array.data_type().clone())
        .add_child_data(distinct.values().to_data());
    Ok(make_array(data.build()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::types::{Int8Type, UInt16Type};
    use arrow_array::{DictionaryArray, Int8Array, Int64Array, StringArray, UInt16Array};
    use std::sync::Arc;

    fn dictionary(keys: Vec<Option<i8>>, values: Vec<Option<&str>>) -> ArrayRef {
        Arc::new(
            DictionaryArray::<Int8Type>::try_new(
                Int8Array::from(keys),
                Arc::new(StringArray::from(values)),
            )
            .unwrap(),
        )
    }

    #[test]
    fn repeated_values_become_one_and_rows_stay() {
        let repeated = dictionary(
            vec![Some(0), Some(3), None, Some(2), Some(1), Some(4)],
            vec![Some("a"), Some("b"), Some("a"), Some("b"), None],
        );
        let distinct = with_distinct_values(Arc::clone(&repeated)).unwrap();
        assert_eq!(distinct.data_type(), repeated.data_type());
        assert_eq!(
            distinct.as_any_dictionary().values().as_string::<i32>(),
            &StringArray::from(vec!["a", "b"])
        );
        assert_eq!(
            &cast(&distinct, &DataType::Utf8).unwrap(),
            &cast(&repeated, &DataType::Utf8).unwrap()
        );
    }

    #[test]
    fn distinct_values_and_other_types_are_not_copied() {
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 1]));
        let distinct = dictionary(vec![Some(1), Some(0)], vec![Some("a"), Some("b")]);
        for array in [numbers, distinct] {
            assert!(Arc::ptr_eq(&with_distinct_values(Arc::clone(&array)).unwrap(), &array));
        }
    }

    #[test]
    fn keys_and_values_of_other_types_stay_as_they_are() {
        let values = Arc::new(Int64Array::from(vec![7, 7, 8]));
        let array: ArrayRef = Arc::new(
            DictionaryArray::<UInt16Type>::try_new(UInt16Array::from(vec![1, 0, 2]), values)
                .unwrap(),
        );
        let distinct = with_distinct_values(Arc::clone(&array)).unwrap();
        assert_eq!(distinct.data_type(), array.data_type());
        assert_eq!(
            cast(&distinct, &DataType::Int64)
                .unwrap()
                .as_primitive::<arrow_array::types::Int64Type>()
                .values(),
            &[7, 7, 8]
        );
    }
}
