//! The types of the values of JSON documents, by key.
//!
//! A type is promoted as values arrive: null → anything, int + float → double while every int is
//! exact in a double, any other mix → JSON text (interleaved specification §1.4). The invariant:
//! the type of a column holds each value that was observed, without a change.

use crate::json::json_text;
use crate::schema::{is_json_field, json_field};
use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, StringArray};
use arrow_schema::{DataType, Field, FieldRef};
use serde_json::Value;
use shardmill_formats::json::as_float;
use std::collections::HashMap;
use std::sync::Arc;

/// The narrowest type that holds all values of a column so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Null,
    Boolean,
    /// All integers; the flag states whether each is exact in a double.
    Integer {
        is_exact_float: bool,
    },
    Float,
    Text,
    Json,
}

/// A double holds this many significant bits.
const MAX_SIGNIFICANT: u64 = 1 << 53;

/// Whether the value is exact in a double.
fn is_exact_in_double(magnitude: u64) -> bool {
    magnitude == 0 || magnitude >> magnitude.trailing_zeros() <= MAX_SIGNIFICANT
}

impl Kind {
    pub(crate) fn of(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(_) => Self::Boolean,
            Value::String(_) => Self::Text,
            Value::Array(_) | Value::Object(_) => Self::Json,
            Value::Number(number) => match number.as_i64() {
                Some(integer) => {
                    Self::Integer { is_exact_float: is_exact_in_double(integer.unsigned_abs()) }
                }
                // An integer beyond 64 bits can only be text.
                None if number
                    .as_str()
                    .bytes()
                    .all(|byte| byte.is_ascii_digit() || byte == b'-') =>
                {
                    Self::Json
                }
                // 1e400 is infinite as a double.
                None if as_float(number).is_none() => Self::Json,
                None => Self::Float,
            },
        }
    }

    fn join(self, other: Self) -> Self {
        match (self, other) {
            (same, other) if same == other => same,
            (Self::Null, other) | (other, Self::Null) => other,
            (Self::Integer { is_exact_float: a }, Self::Integer { is_exact_float: b }) => {
                Self::Integer { is_exact_float: a && b }
            }
            (Self::Integer { is_exact_float: true }, Self::Float)
            | (Self::Float, Self::Integer { is_exact_float: true }) => Self::Float,
            _ => Self::Json,
        }
    }

    /// The kind that a column of a planned schema has.
    pub(crate) fn of_field(field: &Field) -> Self {
        match field.data_type() {
            _ if is_json_field(field) => Self::Json,
            DataType::Boolean => Self::Boolean,
            DataType::Int64 => Self::Integer { is_exact_float: false },
            DataType::Float64 => Self::Float,
            _ => Self::Text,
        }
    }

    /// Whether a column of this kind takes the value without a change.
    pub(crate) fn holds(self, value: &Value) -> bool {
        match (self, Self::of(value)) {
            (Self::Integer { .. }, Self::Integer { .. }) => true,
            (_, own) => self.join(own) == self,
        }
    }

    fn field(self, name: &str) -> Field {
        match self {
            Self::Null | Self::Text => Field::new(name, DataType::Utf8, true),
            Self::Boolean => Field::new(name, DataType::Boolean, true),
            Self::Integer { .. } => Field::new(name, DataType::Int64, true),
            Self::Float => Field::new(name, DataType::Float64, true),
            Self::Json => json_field(name),
        }
    }
}

/// The columns of a number of documents.
#[derive(Debug, Clone, Default)]
pub struct Columns {
    names: Vec<String>,
    kinds: Vec<Kind>,
    by_name: HashMap<String, usize>,
}

impl Columns {
    /// The index of the column, which is added if it is new.
    pub fn number(&mut self, name: &str) -> usize {
        if let Some(number) = self.by_name.get(name) {
            return *number;
        }
        self.names.push(name.to_owned());
        self.kinds.push(Kind::Null);
        self.by_name.insert(name.to_owned(), self.names.len() - 1);
        self.names.len() - 1
    }

    /// Widens the column's type so that it holds `value`.
    pub fn observe(&mut self, column: usize, value: &Value) {
        self.widen(column, Kind::of(value));
    }

    fn widen(&mut self, column: usize, other: Kind) {
        if let Some(kind) = self.kinds.get_mut(column) {
            *kind = kind.join(other);
        }
    }

    /// Adds the columns of other documents.
    pub(crate) fn absorb(&mut self, other: &Self) {
        for (name, kind) in other.names.iter().zip(&other.kinds) {
            let column = self.number(name);
            self.widen(column, *kind);
        }
    }

    /// Whether a value decided the type of the column.
    pub(crate) fn is_typed(&self, name: &str) -> bool {
        let kind = self.by_name.get(name).and_then(|column| self.kinds.get(*column));
        kind.is_some_and(|kind| *kind != Kind::Null)
    }

    #[must_use]
    pub fn fields(&self) -> Vec<FieldRef> {
        self.names.iter().zip(&self.kinds).map(|(name, kind)| Arc::new(kind.field(name))).collect()
    }
}

/// The cells of a column; those that its kind does not hold are null.
pub(crate) fn array(cells: &[Option<&Value>], kind: Kind) -> ArrayRef {
    match kind {
        Kind::Boolean => Arc::new(
            cells.iter().map(|cell| cell.and_then(Value::as_bool)).collect::<BooleanArray>(),
        ),
        Kind::Integer { .. } => {
            Arc::new(cells.iter().map(|cell| cell.and_then(Value::as_i64)).collect::<Int64Array>())
        }
        Kind::Float => Arc::new(
            cells
                .iter()
                .map(|cell| cell.and_then(Value::as_number).and_then(as_float))
                .collect::<Float64Array>(),
        ),
        Kind::Null | Kind::Text => {
            Arc::new(cells.iter().map(|cell| cell.and_then(Value::as_str)).collect::<StringArray>())
        }
        Kind::Json => {
            Arc::new(cells.iter().map(|cell| cell.map(json_text)).collect::<StringArray>())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::Array;
    use arrow_array::cast::AsArray;
    use arrow_array::types::Float64Type;
    use serde_json::json;

    fn column(values: &[Value]) -> (FieldRef, ArrayRef) {
        let mut columns = Columns::default();
        let number = columns.number("c");
        values.iter().for_each(|value| columns.observe(number, value));
        let field = Arc::clone(&columns.fields()[0]);
        let kind = Kind::of_field(&field);
        assert!(values.iter().all(|value| kind.holds(value)), "{kind:?} of {values:?}");
        (
            field,
            array(
                &values
                    .iter()
                    .map(|value| Some(value).filter(|value| !value.is_null()))
                    .collect::<Vec<_>>(),
                kind,
            ),
        )
    }

    #[test]
    fn int_and_float_become_double_while_that_is_exact() {
        let (_, values) = column(&[json!(1), json!(2.5)]);
        assert_eq!(values.as_primitive::<Float64Type>().values(), &[1.0, 2.5]);
        let (field, values) = column(&[json!(9_007_199_254_740_993_i64), json!(2.5)]);
        assert!(is_json_field(&field));
        assert_eq!(values.as_string::<i32>().value(0), "9007199254740993");
    }

    #[test]
    fn int_then_string_becomes_json_text_in_every_cell() {
        let (field, values) = column(&[json!(7), json!("x"), Value::Null]);
        assert!(is_json_field(&field));
        assert_eq!(values.as_string::<i32>().value(0), "7");
        assert_eq!(values.as_string::<i32>().value(1), "\"x\"");
        assert!(values.is_null(2));
    }

    #[test]
    fn integers_beyond_64_bits_keep_their_digits() {
        let value: Value = serde_json::from_str("18446744073709551616").unwrap();
        let (_, values) = column(&[value]);
        assert_eq!(values.as_string::<i32>().value(0), "18446744073709551616");
    }

    #[test]
    fn powers_of_two_beyond_53_bits_are_exact_and_their_neighbours_are_not() {
        assert!([0, 1, 1 << 53, 1 << 60, 3 << 61].into_iter().all(is_exact_in_double));
        assert!(![(1 << 53) + 1, (1 << 60) + 1, u64::MAX].into_iter().any(is_exact_in_double));
    }

    #[test]
    fn numbers_that_are_not_finite_are_doubles_among_numbers_and_have_their_names_in_json_text() {
        let [nan, negative] = ["NaN", "-Infinity"]
            .map(|text| shardmill_formats::json::json_loads(text.as_bytes()).unwrap());
        let (_, values) = column(&[nan.clone(), json!(1), negative, Value::Null]);
        let values = values.as_primitive::<Float64Type>();
        assert!(values.value(0).is_nan() && values.is_null(3));
        assert_eq!(values.values()[1..3], [1.0, f64::NEG_INFINITY]);
        let (field, values) = column(&[nan, json!("x")]);
        assert!(is_json_field(&field));
        assert_eq!(values.as_string::<i32>().value(0), "NaN");
    }

    #[test]
    fn number_beyond_the_largest_double_keeps_its_digits() {
        let (field, values) = column(&[serde_json::from_str("1e400").unwrap()]);
        assert!(is_json_field(&field));
        assert_eq!(values.as_string::<i32>().value(0), "1e+400");
    }

    #[test]
    fn all_null_column_is_nullable_text() {
        let (field, values) = column(&[Value::Null, Value::Null]);
        assert_eq!(field.data_type(), &DataType::Utf8);
        assert_eq!(values.null_count(), 2);
    }

    #[test]
    fn kind_of_a_planned_column_holds_only_what_it_does_not_change() {
        let of = |data_type: DataType| Kind::of_field(&Field::new("c", data_type, true));
        let (integer, float, text) =
            (of(DataType::Int64), of(DataType::Float64), of(DataType::Utf8));
        assert!(
            integer.holds(&json!(i64::MAX))
                && !integer.holds(&json!(2.0))
                && !integer.holds(&json!("1"))
        );
        assert!(!integer.holds(&json!(u64::MAX)));
        assert!(
            float.holds(&json!(2))
                && !float.holds(&json!((1_i64 << 53) + 1))
                && !float.holds(&json!(true))
        );
        assert!(
            text.holds(&json!("x"))
                && text.holds(&Value::Null)
                && !text.holds(&json!(1))
                && !text.holds(&json!([]))
        );
        assert!(Kind::of_field(&json_field("c")).holds(&json!({"a": 1})));
    }

    #[test]
    fn columns_of_two_shards_hold_the_values_of_both() {
        let of = |pairs: &[(&str, Value)]| {
            let mut columns = Columns::default();
            for (name, value) in pairs {
                let number = columns.number(name);
                columns.observe(number, value);
            }
            columns
        };
        let mut columns = of(&[("a", json!(1)), ("b", Value::Null)]);
        columns.absorb(&of(&[("c", json!("x")), ("b", json!(true)), ("a", json!(0.5))]));
        let types: Vec<_> = columns
            .fields()
            .iter()
            .map(|field| (field.name().clone(), field.data_type().clone()))
            .collect();
        let expected = [("a", DataType::Float64), ("b", DataType::Boolean), ("c", DataType::Utf8)];
        assert_eq!(types, expected.map(|(name, data_type)| (name.to_owned(), data_type)));
    }
}
