use super::*;
use arrow_array::{Float64Array, Int8Array, Int64Array, StringArray};
use std::sync::Arc;

fn rows() -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable([
        ("n", Arc::new(Int64Array::from(vec![Some(1), None, Some(1 << 60), Some((1 << 60) + 1)])) as ArrayRef, true),
        ("small", Arc::new(Int8Array::from(vec![1, 2, 3, 4])) as ArrayRef, true),
        ("f", Arc::new(Float64Array::from(vec![0.5, f64::NAN, -0.0, 1.0])) as ArrayRef, true),
        ("s", Arc::new(StringArray::from(vec![Some("a"), Some("b"), None, Some("")])) as ArrayRef, true),
    ])
    .unwrap()
}

fn compare(column: &str, op: Comparison, value: Literal) -> Expression {
    Expression::Compare { column: column.to_owned(), op, value }
}

#[test]
fn null_is_unknown_and_stays_unknown_under_not() {
    let is_one = compare("n", Comparison::Equal, Literal::Integer(1));
    assert_eq!(is_one.keep(&rows()).unwrap(), [true, false, false, false]);
    let is_other = Expression::Not(Box::new(is_one));
    assert_eq!(is_other.keep(&rows()).unwrap(), [false, false, true, true]);
}

#[test]
fn integers_beyond_the_floats_precision_are_told_apart() {
    let big = compare("n", Comparison::Equal, Literal::Integer(1 << 60));
    assert_eq!(big.keep(&rows()).unwrap(), [false, false, true, false]);
}

#[test]
fn literal_outside_the_columns_type_compares_by_value() {
    assert_eq!(compare("small", Comparison::Less, Literal::Integer(300)).keep(&rows()).unwrap(), [true; 4]);
    assert_eq!(compare("small", Comparison::Greater, Literal::Float(2.5)).keep(&rows()).unwrap(), [false, false, true, true]);
}

#[test]
fn literal_of_the_wrong_kind_is_refused() {
    let error = compare("n", Comparison::Equal, Literal::Text("1".to_owned())).keep(&rows()).unwrap_err();
    assert!(matches!(error, Error::LiteralType { .. }));
}

#[test]
fn unknown_column_is_named_beside_the_known_ones() {
    let error = compare("m", Comparison::Equal, Literal::Integer(1)).keep(&rows()).unwrap_err();
    assert!(error.to_string().contains("`m`") && error.to_string().contains("`small`"));
}

#[test]
fn membership_and_null_tests_combine() {
    let in_list = Expression::IsIn { column: "s".to_owned(), values: vec![Literal::Text("a".to_owned()), Literal::Text(String::new())] };
    assert_eq!(in_list.keep(&rows()).unwrap(), [true, false, false, true]);
    let either = Expression::Or(Box::new(in_list), Box::new(Expression::IsNull { column: "s".to_owned() }));
    assert_eq!(either.keep(&rows()).unwrap(), [true, false, true, true]);
}
