use super::*;
use crate::Error;
use arrow_array::{
    ArrayRef, Decimal128Array, Float64Array, Int8Array, Int64Array, StringArray,
    TimestampMicrosecondArray,
};
use std::sync::Arc;

fn rows() -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable([
        (
            "n",
            Arc::new(Int64Array::from(vec![Some(1), None, Some(1 << 60), Some((1 << 60) + 1)]))
                as ArrayRef,
            true,
        ),
        ("small", Arc::new(Int8Array::from(vec![1, 2, 3, 4])) as ArrayRef, true),
        ("f", Arc::new(Float64Array::from(vec![0.5, f64::NAN, -0.0, 1.0])) as ArrayRef, true),
        (
            "s",
            Arc::new(StringArray::from(vec![Some("a"), Some("b"), None, Some("")])) as ArrayRef,
            true,
        ),
    ])
    .unwrap()
}

fn compare(column: &str, op: Comparison, value: Literal) -> Expression {
    Expression::Compare { operand: column.into(), op, value }
}

#[test]
fn null_is_unknown_and_stays_unknown_under_not() {
    let is_one = compare("n", Comparison::Equal, Literal::Integer(1));
    assert_eq!(is_one.keep(&rows()).unwrap(), [true, false, false, false]);
    let is_other = Expression::Not(Box::new(is_one));
    assert_eq!(is_other.keep(&rows()).unwrap(), [false, false, true, true]);
}

#[test]
fn integers_beyond_the_floats_precision_are_distinguished() {
    let big = compare("n", Comparison::Equal, Literal::Integer(1 << 60));
    assert_eq!(big.keep(&rows()).unwrap(), [false, false, true, false]);
}

#[test]
fn literal_outside_the_columns_type_compares_by_value() {
    assert_eq!(
        compare("small", Comparison::Less, Literal::Integer(300)).keep(&rows()).unwrap(),
        [true; 4]
    );
    assert_eq!(
        compare("small", Comparison::Greater, Literal::Float(2.5)).keep(&rows()).unwrap(),
        [false, false, true, true]
    );
}

#[test]
fn literal_of_the_wrong_kind_is_refused() {
    let error =
        compare("n", Comparison::Equal, Literal::Text("1".to_owned())).keep(&rows()).unwrap_err();
    assert!(matches!(error, Error::LiteralType { .. }));
}

#[test]
fn unknown_column_is_named_beside_the_known_ones() {
    let error = compare("m", Comparison::Equal, Literal::Integer(1)).keep(&rows()).unwrap_err();
    assert!(error.to_string().contains("`m`") && error.to_string().contains("`small`"));
}

#[test]
fn membership_and_null_tests_combine() {
    let in_list = Expression::IsIn {
        operand: "s".into(),
        values: vec![Literal::Text("a".to_owned()), Literal::Text(String::new())],
        matches_null: false,
        null_is_unknown: false,
    };
    assert_eq!(in_list.keep(&rows()).unwrap(), [true, false, false, true]);
    let either = Expression::Or(vec![
        in_list,
        Expression::IsNull { operand: "s".into(), nan_is_null: false },
    ]);
    assert_eq!(either.keep(&rows()).unwrap(), [true, false, true, true]);
}

#[test]
fn floats_compare_as_ieee_754_and_are_found_bit_by_bit() {
    let is_zero = compare("f", Comparison::Equal, Literal::Float(0.0));
    assert_eq!(is_zero.keep(&rows()).unwrap(), [false, false, true, false]);
    let is_nan = compare("f", Comparison::Equal, Literal::Float(f64::NAN));
    assert_eq!(is_nan.keep(&rows()).unwrap(), [false; 4]);
    assert_eq!(
        compare("f", Comparison::Less, Literal::Float(9.0)).keep(&rows()).unwrap(),
        [true, false, true, true]
    );
    let found = |value| {
        Expression::IsIn {
            operand: "f".into(),
            values: vec![Literal::Float(value)],
            matches_null: false,
            null_is_unknown: false,
        }
        .keep(&rows())
        .unwrap()
    };
    assert_eq!(found(f64::NAN), [false, true, false, false]);
    assert_eq!(found(0.0), [false; 4]);
}

#[test]
fn decimals_are_found_by_the_floats_that_they_equal() {
    let tenths = [
        99_999_999_999_999_999,
        100_000_000_000_000_000,
        100_000_000_000_000_012,
        100_000_000_000_000_100,
        500_000_000_000_000_000,
    ];
    let tenths =
        Decimal128Array::from_iter_values(tenths).with_precision_and_scale(38, 18).unwrap();
    let rows = RecordBatch::try_from_iter([("d", Arc::new(tenths) as ArrayRef)]).unwrap();
    let is_tenth = compare("d", Comparison::Equal, Literal::Float(0.1));
    assert_eq!(is_tenth.keep(&rows).unwrap(), [true, true, true, false, false]);
    let values = vec![Literal::Float(0.1), Literal::Float(0.5)];
    let found = Expression::IsIn {
        operand: "d".into(),
        values,
        matches_null: false,
        null_is_unknown: false,
    };
    let is_half = compare("d", Comparison::Equal, Literal::Float(0.5));
    assert_eq!(
        found.keep(&rows).unwrap(),
        Expression::Or(vec![is_tenth, is_half]).keep(&rows).unwrap()
    );
}

#[test]
fn text_with_a_zone_is_not_compared_with_a_time_without_one() {
    let times = RecordBatch::try_from_iter([(
        "t",
        Arc::new(TimestampMicrosecondArray::from(vec![0])) as ArrayRef,
    )])
    .unwrap();
    let is_at =
        |text: &str| compare("t", Comparison::Equal, Literal::Text(text.to_owned())).keep(&times);
    for zone in ["Z", "+00:00", " UTC", "UTC", " Europe/London", " GMT"] {
        for time in ["1970-01-01 00:00", "1970-01-01T00:00:00.000"] {
            assert!(
                matches!(is_at(&format!("{time}{zone}")), Err(Error::LiteralType { .. })),
                "{time}{zone}"
            );
        }
    }
    assert_eq!(is_at("1970-01-01 00:00").unwrap(), [true]);
}

#[test]
fn check_tells_a_wrong_literal_before_any_row_is_read() {
    let schema = rows().schema();
    assert!(matches!(
        compare("s", Comparison::Less, Literal::Integer(1)).check(&schema),
        Err(Error::LiteralType { .. })
    ));
    assert!(matches!(
        compare("x", Comparison::Less, Literal::Integer(1)).check(&schema),
        Err(Error::UnknownColumn { .. })
    ));
    let columns =
        Expression::CompareColumns { left: "s".into(), op: Comparison::Less, right: "n".into() };
    assert!(matches!(columns.check(&schema), Err(Error::ColumnTypes { .. })));
    assert!(compare("n", Comparison::Less, Literal::Integer(1)).check(&schema).is_ok());
}

#[test]
fn trees_of_two_boxed_sides_are_read_as_before() {
    let text = concat!(
        r#"{"or":[{"and":[{"compare":{"column":"n","op":"==","value":1}},"#,
        r#"{"is_in":{"column":"s","values":["a"]}}]},"#,
        r#"{"not":{"is_null":{"column":"f"}}}]}"#,
    );
    let tree: Expression = serde_json::from_str(text).unwrap();
    assert_eq!(serde_json::to_string(&tree).unwrap(), text);
}

/// Prints timings on this machine:
/// `cargo test --release -p shardmill-plan -- --ignored --nocapture milliseconds`
#[test]
#[ignore = "a measurement"]
fn milliseconds_over_a_million_rows() {
    let batch = RecordBatch::try_from_iter([
        (
            "i",
            Arc::new(
                (0..1 << 20)
                    .map(|row: i32| row.wrapping_mul(7919) % 100_003)
                    .collect::<arrow_array::Int32Array>(),
            ) as ArrayRef,
        ),
        ("f", Arc::new((0..1 << 20).map(|row| f64::from(row % 1000)).collect::<Float64Array>())),
        (
            "s",
            Arc::new(
                (0..1 << 20)
                    .map(|row| Some(format!("value {}", row % 1000)))
                    .collect::<StringArray>(),
            ),
        ),
    ])
    .unwrap();
    let is_in = |values: Vec<Literal>, column: &str| Expression::IsIn {
        operand: column.into(),
        values,
        matches_null: false,
        null_is_unknown: false,
    };
    let cases = [
        ("int32 == 5", compare("i", Comparison::Equal, Literal::Integer(5))),
        ("5 <= int32 < 70000", {
            let bounds = [(Comparison::GreaterOrEqual, 5), (Comparison::Less, 70_000)];
            Expression::And(
                bounds
                    .into_iter()
                    .map(|(op, value)| compare("i", op, Literal::Integer(value)))
                    .collect(),
            )
        }),
        ("float64 < 5.5", compare("f", Comparison::Less, Literal::Float(5.5))),
        (
            "string == 'value 7'",
            compare("s", Comparison::Equal, Literal::Text("value 7".to_owned())),
        ),
        ("int32 in 10,000 dense", is_in((0..10_000).map(Literal::Integer).collect(), "i")),
        (
            "int32 in 10,000 sparse",
            is_in((0..10_000).map(|value| Literal::Integer(value * 7919)).collect(), "i"),
        ),
        (
            "string in 10,000",
            is_in((0..10_000).map(|value| Literal::Text(format!("value {value}"))).collect(), "s"),
        ),
    ];
    for (name, expression) in cases {
        let start = std::time::Instant::now();
        let predicate = expression.bind(batch.schema_ref()).unwrap();
        let bound = start.elapsed();
        let best = (0..5).map(|_| {
            let start = std::time::Instant::now();
            predicate.selection(&batch).unwrap();
            start.elapsed()
        });
        println!("{name}: {:?}, made ready in {bound:?}", best.min().unwrap());
    }
}
