//! Memory of the numbers in a superbatch.

use super::{
    Column, ColumnOptions, Converter, Kind, Nulls, Numbers, batch, convert, numbers, numbers_in,
    only,
};
use arrow_array::builder::{Int32Builder, ListBuilder};
use arrow_array::{
    Array, ArrayRef, BooleanArray, FixedSizeListArray, Float32Array, Int32Array, Int64Array,
    TimestampMicrosecondArray,
};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use std::sync::Arc;

#[test]
fn buffer_of_one_owner_is_moved() {
    let values = vec![1.0_f32, 2.0, 3.0];
    let address = values.as_ptr();
    let superbatch =
        convert(vec![("x", Arc::new(Float32Array::from(values)) as ArrayRef)], Nulls::Error, &[])
            .unwrap();
    let Numbers::Float32(moved) = only(superbatch) else { panic!("floats expected") };
    assert_eq!((moved.as_ptr(), moved.as_slice()), (address, [1.0, 2.0, 3.0].as_slice()));
}

#[test]
fn timestamp_buffer_is_moved_as_integers() {
    let values = vec![1_i64, 2];
    let address = values.as_ptr();
    let superbatch = convert(
        vec![("t", Arc::new(TimestampMicrosecondArray::from(values)) as ArrayRef)],
        Nulls::Error,
        &[],
    )
    .unwrap();
    let Numbers::Int64(moved) = only(superbatch) else { panic!("integers expected") };
    assert_eq!(moved.as_ptr(), address);
}

#[test]
fn nan_is_written_in_place() {
    let values = vec![1.0_f32, 7.0, 3.0];
    let address = values.as_ptr();
    let array = Float32Array::new(values.into(), Some(NullBuffer::from(vec![true, false, true])));
    let superbatch = convert(vec![("x", Arc::new(array) as ArrayRef)], Nulls::Error, &[]).unwrap();
    let Numbers::Float32(moved) = only(superbatch) else { panic!("floats expected") };
    assert_eq!(moved.as_ptr(), address);
    assert!(moved[1].is_nan() && moved[0] == 1.0 && moved[2] == 3.0);
}

#[test]
fn items_of_fixed_size_lists_are_moved() {
    let values = vec![1_i32, 2, 3, 4];
    let address = values.as_ptr();
    let list = FixedSizeListArray::new(super::item(), 2, Arc::new(Int32Array::from(values)), None);
    let superbatch = convert(vec![("x", Arc::new(list) as ArrayRef)], Nulls::Error, &[]).unwrap();
    let Numbers::Int32(moved) = only(superbatch) else { panic!("integers expected") };
    assert_eq!(moved.as_ptr(), address);
}

#[test]
fn items_of_lists_are_moved() {
    let mut builder = ListBuilder::new(Int32Builder::new());
    builder.append_value([Some(1), Some(2)]);
    builder.append_value([Some(3)]);
    let list = builder.finish();
    let items = list.values().to_data();
    let address = items.buffers()[0].as_ptr();
    drop(items);
    let superbatch = convert(vec![("x", Arc::new(list) as ArrayRef)], Nulls::Error, &[]).unwrap();
    let [Column::Ragged { values, offsets, valid: None }] = superbatch.columns.as_slice() else {
        panic!("ragged expected")
    };
    let Numbers::Int32(moved) = numbers_in(values) else { panic!("integers expected") };
    assert_eq!((moved.as_ptr().cast(), offsets.as_slice()), (address, [0, 2, 3].as_slice()));
}

#[test]
fn shared_buffer_is_copied_and_its_owner_sees_no_change() {
    let array = Float32Array::new(vec![1.0, 7.0].into(), Some(NullBuffer::from(vec![true, false])));
    let kept = array.clone();
    let superbatch = convert(vec![("x", Arc::new(array) as ArrayRef)], Nulls::Error, &[]).unwrap();
    let Numbers::Float32(copied) = only(superbatch) else { panic!("floats expected") };
    assert!(copied[1].is_nan());
    assert_eq!(kept.values().as_ref(), [1.0, 7.0]);
}

#[test]
fn slice_has_its_own_rows_only() {
    let array = Int64Array::from(vec![1, 2, 3, 4]).slice(1, 2);
    let bits =
        BooleanArray::new(BooleanBuffer::collect_bool(200, |row| row % 3 == 0).slice(70, 2), None);
    let superbatch =
        convert(vec![("x", Arc::new(array) as ArrayRef), ("b", Arc::new(bits))], Nulls::Error, &[])
            .unwrap();
    assert_eq!(
        numbers(superbatch),
        [Numbers::Int64(vec![2, 3]), Numbers::Bool(vec![false, false])]
    );
}

#[test]
fn booleans_of_any_offset_and_length_equal_their_bits() {
    let bits = BooleanBuffer::collect_bool(300, |row| row % 7 < 3 && row % 5 != 0);
    for (offset, length) in [(0, 300), (1, 64), (63, 65), (8, 0), (129, 171)] {
        let slice = bits.slice(offset, length);
        assert_eq!(super::super::numbers::bools(&slice), slice.iter().collect::<Vec<_>>());
    }
}

#[test]
fn batch_without_columns_keeps_its_rows() {
    let empty = batch(vec![("x", Arc::new(Int32Array::from(vec![1, 2])) as ArrayRef)])
        .project(&[])
        .unwrap();
    let converter =
        Converter::new(&empty.schema(), &ColumnOptions::new(Kind::Torch, Nulls::Error)).unwrap();
    let superbatch = converter.convert(empty, &[2]).unwrap();
    assert_eq!((superbatch.rows, superbatch.columns.len()), (2, 0));
}
