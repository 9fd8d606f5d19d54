//! How nulls are handled.

use super::{Column, Error, FillValue, Nulls, Numbers, convert, item, numbers, numbers_in};
use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, BooleanArray, Date32Array, DictionaryArray, FixedSizeListArray, Float64Array,
    Int32Array, Int64Array, ListArray,
};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use std::sync::Arc;

const BEYOND_F64: i64 = (1 << 53) + 1;

fn nullable() -> ArrayRef {
    Arc::new(Int64Array::new(
        vec![BEYOND_F64, 99, 3].into(),
        Some(NullBuffer::from(vec![true, false, true])),
    ))
}

/// Rows `[1, 2]`, null with the values 8 and 9 under it, `[]`, `[3, null]`.
fn lists() -> ArrayRef {
    let items = Int32Array::new(
        vec![1, 2, 8, 9, 3, 77].into(),
        Some(NullBuffer::from(vec![true, true, true, true, true, false])),
    );
    let nulls = NullBuffer::from(vec![true, false, true, true]);
    Arc::new(ListArray::new(
        item(),
        OffsetBuffer::new(vec![0, 2, 4, 4, 6].into()),
        Arc::new(items),
        Some(nulls),
    ))
}

/// Rows `[1, 2]`, null, `[5, null]`.
fn fixed_lists() -> ArrayRef {
    let items = Int32Array::new(
        vec![1, 2, 8, 9, 5, 77].into(),
        Some(NullBuffer::from(vec![true, true, true, true, true, false])),
    );
    Arc::new(FixedSizeListArray::new(
        item(),
        2,
        Arc::new(items),
        Some(NullBuffer::from(vec![true, false, true])),
    ))
}

fn null_row(array: ArrayRef) -> Option<usize> {
    convert(vec![("x", array)], Nulls::Error, &[]).expect_err("nulls").row()
}

#[test]
fn null_is_reported_with_its_row() {
    let error = convert(vec![("x", nullable())], Nulls::Error, &[]).expect_err("a null");
    assert!(matches!(&error, Error::Null { column, row: 1, .. } if column == "x"), "{error}");
    assert_eq!(null_row(lists()), Some(1));
    assert_eq!(null_row(fixed_lists()), Some(1));
}

#[test]
fn null_inside_of_a_list_is_reported_with_the_row_of_the_list() {
    assert_eq!(null_row(lists().slice(2, 2)), Some(1));
    assert_eq!(null_row(fixed_lists().slice(2, 1)), Some(0));
}

#[test]
fn mask_tells_nulls_and_integers_stay_exact() {
    let bits: ArrayRef = Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)]));
    let superbatch = convert(vec![("x", nullable()), ("b", bits)], Nulls::Mask, &[]).unwrap();
    let valid = Numbers::Bool(vec![true, false, true]);
    let expected = [
        Numbers::Int64(vec![BEYOND_F64, 0, 3]),
        valid.clone(),
        Numbers::Bool(vec![true, false, false]),
        valid,
    ];
    assert_eq!(numbers(superbatch), expected);
}

#[test]
fn mask_is_there_without_nulls() {
    let array: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
    let superbatch = convert(vec![("x", array)], Nulls::Mask, &[]).unwrap();
    assert_eq!(numbers(superbatch), [Numbers::Int32(vec![1, 2]), Numbers::Bool(vec![true, true])]);
}

#[test]
fn mask_of_lists_tells_rows_and_items() {
    let superbatch = convert(vec![("x", lists())], Nulls::Mask, &[]).unwrap();
    let [Column::Ragged { values, offsets, valid: Some(valid) }, Column::Values(rows)] =
        superbatch.columns.as_slice()
    else {
        panic!("a mask expected")
    };
    assert_eq!(
        (numbers_in(values), offsets.as_slice()),
        (&Numbers::Int32(vec![1, 2, 3, 0]), [0, 2, 2, 2, 4].as_slice())
    );
    assert_eq!(
        (valid.as_slice(), rows),
        ([true, true, true, false].as_slice(), &Numbers::Bool(vec![true, false, true, true]))
    );
}

#[test]
fn mask_of_fixed_size_lists_tells_rows_and_items() {
    let superbatch = convert(vec![("x", fixed_lists())], Nulls::Mask, &[]).unwrap();
    let expected = [
        Numbers::Int32(vec![1, 2, 0, 0, 5, 0]),
        Numbers::Bool(vec![true, false, true]),
        Numbers::Bool(vec![true, true, false, false, true, false]),
    ];
    assert_eq!(numbers(superbatch), expected);
}

#[test]
fn fill_value_replaces_nulls_of_every_depth() {
    let floats: ArrayRef = Arc::new(Float64Array::from(vec![Some(1.0), None]));
    let fills = [("f", FillValue::Float(-1.0))];
    assert_eq!(
        numbers(convert(vec![("f", floats)], Nulls::Fill, &fills).unwrap()),
        [Numbers::Float64(vec![1.0, -1.0])]
    );
    let fills = [("x", FillValue::Integer(-1))];
    assert_eq!(
        numbers(convert(vec![("x", nullable())], Nulls::Fill, &fills).unwrap()),
        [Numbers::Int64(vec![BEYOND_F64, -1, 3])]
    );
    assert_eq!(
        numbers(convert(vec![("x", fixed_lists())], Nulls::Fill, &fills).unwrap()),
        [Numbers::Int32(vec![1, 2, -1, -1, 5, -1])]
    );
    let superbatch = convert(vec![("x", lists())], Nulls::Fill, &fills).unwrap();
    let [Column::Ragged { values, offsets, valid: None }] = superbatch.columns.as_slice() else {
        panic!("ragged expected")
    };
    assert_eq!(
        (numbers_in(values), offsets.as_slice()),
        (&Numbers::Int32(vec![1, 2, 3, -1]), [0, 2, 2, 2, 4].as_slice())
    );
}

#[test]
fn column_without_fill_value_keeps_to_the_error() {
    assert_eq!(
        convert(vec![("x", nullable())], Nulls::Fill, &[]).expect_err("a null").row(),
        Some(1)
    );
}

#[test]
fn date_is_filled_by_text_and_by_days() {
    let dates: ArrayRef = Arc::new(Date32Array::from(vec![Some(5), None]));
    let by_text = [("d", FillValue::Text("1970-01-03".to_owned()))];
    assert_eq!(
        numbers(convert(vec![("d", Arc::clone(&dates))], Nulls::Fill, &by_text).unwrap()),
        [Numbers::Int64(vec![5, 2])]
    );
    let by_days = [("d", FillValue::Integer(2))];
    assert_eq!(
        numbers(convert(vec![("d", dates)], Nulls::Fill, &by_days).unwrap()),
        [Numbers::Int64(vec![5, 2])]
    );
}

#[test]
fn dictionary_of_numbers_is_decoded_with_nulls_of_keys_and_values() {
    let keys = Int32Array::from(vec![Some(0), Some(1), None, Some(0)]);
    let values: ArrayRef = Arc::new(Int64Array::from(vec![Some(BEYOND_F64), None]));
    let dictionary: ArrayRef = Arc::new(DictionaryArray::<Int32Type>::new(keys, values));
    let expected = [
        Numbers::Int64(vec![BEYOND_F64, 0, 0, BEYOND_F64]),
        Numbers::Bool(vec![true, false, false, true]),
    ];
    assert_eq!(numbers(convert(vec![("x", dictionary)], Nulls::Mask, &[]).unwrap()), expected);
}
