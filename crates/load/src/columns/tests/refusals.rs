//! Rejections happen at construction, except for a batch of another schema.

use super::{Converter, Error, FillValue, Kind, Nulls, batch, options, refused};
use arrow_array::{ArrayRef, Int32Array, Int64Array};
use arrow_schema::{DataType, Field, IntervalUnit, Schema, TimeUnit};
use std::sync::Arc;

fn converter(fields: Vec<Field>, nulls: Nulls) -> Result<Converter, Error> {
    Converter::new(&Schema::new(fields), &options(Kind::Numpy, nulls, &[]))
}

#[test]
fn interval_has_no_form_at_any_depth() {
    let interval = || DataType::Interval(IntervalUnit::MonthDayNano);
    for data_type in [interval(), DataType::List(Arc::new(Field::new("item", interval(), true)))] {
        assert!(matches!(refused(data_type, Nulls::Error, &[]), Error::Unsupported { .. }));
    }
}

#[test]
fn bottomless_nesting_is_refused() {
    let deep = (0..100_000)
        .fold(DataType::Int8, |inner, _| DataType::List(Arc::new(Field::new("item", inner, true))));
    let schema = Schema::new(vec![Field::new("x", deep, true)]);
    let error =
        Converter::new(&schema, &options(Kind::Dict, Nulls::Error, &[])).expect_err("a refusal");
    assert!(matches!(error, Error::Depth { .. }));
    // Dropping it would overflow the stack.
    std::mem::forget(schema);
}

#[test]
fn one_name_for_two_entries_of_a_batch_is_refused() {
    let field = |name: &str| Field::new(name, DataType::Int8, true);
    assert!(matches!(
        converter(vec![field("a"), field("a")], Nulls::Error),
        Err(Error::DuplicateName { .. })
    ));
    assert!(matches!(
        converter(vec![field("a"), field("a__valid")], Nulls::Mask),
        Err(Error::AddedName { .. })
    ));
    assert!(converter(vec![field("a"), field("a__valid")], Nulls::Error).is_ok());
    let twice = Field::new("s", DataType::Struct(vec![field("a"), field("a")].into()), true);
    assert!(matches!(converter(vec![twice], Nulls::Error), Err(Error::DuplicateField { .. })));
}

#[test]
fn fill_value_needs_its_column_and_its_policy() {
    let one = || [("x", FillValue::Integer(1))];
    assert!(matches!(
        refused(DataType::Int8, Nulls::Fill, &[("y", FillValue::Integer(1))]),
        Error::UnknownName { .. }
    ));
    assert!(matches!(
        refused(DataType::Int8, Nulls::Error, &one()),
        Error::FillWithoutPolicy { .. }
    ));
    assert!(matches!(
        refused(DataType::Float32, Nulls::Mask, &one()),
        Error::FillWithoutPolicy { .. }
    ));
    assert!(matches!(refused(DataType::Utf8View, Nulls::Fill, &one()), Error::FillObjects { .. }));
    let schema = Schema::new(vec![Field::new("x", DataType::Int8, true)]);
    assert!(matches!(
        Converter::new(&schema, &options(Kind::Dict, Nulls::Fill, &one())),
        Err(Error::FillObjects { .. })
    ));
}

#[test]
fn fill_value_that_does_not_fit_is_refused() {
    let seconds = || DataType::Timestamp(TimeUnit::Second, None);
    let text = |text: &str| FillValue::Text(text.to_owned());
    let cases = [
        (DataType::Int8, FillValue::Integer(128)),
        (DataType::UInt64, FillValue::Integer(-1)),
        (DataType::Int64, FillValue::Integer(i128::from(i64::MAX) + 1)),
        (DataType::Int64, FillValue::Integer(i128::MAX)),
        (DataType::Int32, FillValue::Float(1.0)),
        (DataType::Int32, FillValue::Boolean(true)),
        (DataType::Int32, text("1")),
        (DataType::Boolean, FillValue::Integer(1)),
        (DataType::Float32, FillValue::Float(1e300)),
        (DataType::Float16, FillValue::Integer(70_000)),
        (DataType::Float32, text("1")),
        (DataType::Date32, FillValue::Integer(i128::from(i32::MAX) + 1)),
        (DataType::Date32, text("someday")),
        (seconds(), FillValue::Float(1.0)),
        (DataType::Duration(TimeUnit::Second), text("1s")),
    ];
    for (data_type, value) in cases {
        let error = refused(data_type.clone(), Nulls::Fill, &[("x", value.clone())]);
        assert!(matches!(error, Error::FillType { .. }), "{data_type} {value}: {error}");
    }
}

#[test]
fn fill_value_at_the_edge_fits() {
    let cases = [
        (DataType::UInt64, FillValue::Integer(i128::from(u64::MAX))),
        (DataType::Int8, FillValue::Integer(-128)),
        (DataType::Float32, FillValue::Float(f64::INFINITY)),
        (DataType::Float16, FillValue::Integer(65_504)),
        (DataType::Time32(TimeUnit::Second), FillValue::Integer(86_399)),
        (DataType::Time64(TimeUnit::Nanosecond), FillValue::Text("12:30:00.5".to_owned())),
        (
            DataType::Timestamp(TimeUnit::Microsecond, Some("Europe/Berlin".into())),
            FillValue::Text("2024-01-01T00:00:00+00:00".to_owned()),
        ),
        (DataType::Timestamp(TimeUnit::Nanosecond, None), FillValue::Integer(-1)),
        (DataType::Duration(TimeUnit::Millisecond), FillValue::Integer(7)),
        (DataType::Date64, FillValue::Text("2024-02-29".to_owned())),
    ];
    for (data_type, value) in cases {
        let schema = Schema::new(vec![Field::new("x", data_type.clone(), true)]);
        let made =
            Converter::new(&schema, &options(Kind::Torch, Nulls::Fill, &[("x", value.clone())]));
        assert!(made.is_ok(), "{data_type} {value}: {made:?}");
    }
}

#[test]
fn wide_unsigned_column_is_named() {
    let field = |name: &str, data_type| Field::new(name, data_type, true);
    let narrow =
        converter(vec![field("a", DataType::UInt8), field("b", DataType::Int64)], Nulls::Error)
            .unwrap();
    assert_eq!(narrow.wide_unsigned(), None);
    let list = DataType::List(Arc::new(field("item", DataType::UInt16)));
    let wide =
        converter(vec![field("a", DataType::UInt8), field("b", list)], Nulls::Error).unwrap();
    assert_eq!(wide.wide_unsigned(), Some("b"));
}

#[test]
fn batch_of_another_schema_is_an_error() {
    let converter = converter(vec![Field::new("x", DataType::Int32, true)], Nulls::Error).unwrap();
    let other: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    assert!(matches!(
        converter.convert(batch(vec![("x", other)]), &[1]),
        Err(Error::Changed { .. })
    ));
    let column: ArrayRef = Arc::new(Int32Array::from(vec![1]));
    let two = batch(vec![("x", Arc::clone(&column)), ("y", column)]);
    assert!(matches!(
        converter.convert(two, &[1]),
        Err(Error::ColumnCount { expected: 1, found: 2 })
    ));
}
