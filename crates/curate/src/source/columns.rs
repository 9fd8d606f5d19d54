//! Collects passthrough values of JSON samples into typed Arrow columns.
//!
//! The columns are the union over the task; a type is promoted as values arrive: null → anything, int + float → double while every int is exact in a
//! double, any other mix → JSON text (interleaved specification §1.4). The invariant: no value is dropped or rounded.

use crate::json::json_text;
use crate::schema::json_field;
use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, RecordBatchOptions, StringArray};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Schema};
use serde_json::Value;
use shardmill_formats::json::as_float;
use std::collections::HashMap;
use std::sync::Arc;

/// The narrowest type that holds all values of a column so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
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
#[must_use]
pub(crate) fn is_exact_in_double(magnitude: u64) -> bool {
    magnitude == 0 || magnitude >> magnitude.trailing_zeros() <= MAX_SIGNIFICANT
}

impl Kind {
    fn of(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(_) => Self::Boolean,
            Value::String(_) => Self::Text,
            Value::Array(_) | Value::Object(_) => Self::Json,
            Value::Number(number) => match number.as_i64() {
                Some(integer) => Self::Integer { is_exact_float: is_exact_in_double(integer.unsigned_abs()) },
                // An integer beyond 64 bits can only be text.
                None if number.as_str().bytes().all(|byte| byte.is_ascii_digit() || byte == b'-') => Self::Json,
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
            (Self::Integer { is_exact_float: a }, Self::Integer { is_exact_float: b }) => Self::Integer { is_exact_float: a && b },
            (Self::Integer { is_exact_float: true }, Self::Float) | (Self::Float, Self::Integer { is_exact_float: true }) => Self::Float,
            _ => Self::Json,
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

/// Values of one row, by column.
pub(crate) type Values = Vec<(usize, Value)>;

/// The columns of one task.
#[derive(Debug, Default)]
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
        if let Some(kind) = self.kinds.get_mut(column) {
            *kind = kind.join(Kind::of(value));
        }
    }

    #[must_use]
    pub fn fields(&self) -> Vec<FieldRef> {
        self.names.iter().zip(&self.kinds).map(|(name, kind)| Arc::new(kind.field(name))).collect()
    }

    /// `rows` as a table of the columns seen so far.
    ///
    /// # Errors
    /// [`ArrowError`] when the table would exceed Arrow's limits.
    pub(crate) fn table(&self, rows: &[Values]) -> Result<RecordBatch, ArrowError> {
        let mut cells: Vec<Vec<Option<&Value>>> = vec![vec![None; rows.len()]; self.names.len()];
        for (index, row) in rows.iter().enumerate() {
            for (column, value) in row {
                if let Some(cell) = cells.get_mut(*column).and_then(|column| column.get_mut(index)) {
                    *cell = Some(value).filter(|value| !value.is_null());
                }
            }
        }
        let columns = cells.into_iter().zip(&self.kinds).map(|(cells, kind)| array(&cells, *kind)).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        RecordBatch::try_new_with_options(Arc::new(Schema::new(self.fields())), columns, &options)
    }
}

fn array(cells: &[Option<&Value>], kind: Kind) -> ArrayRef {
    match kind {
        Kind::Boolean => Arc::new(cells.iter().map(|cell| cell.and_then(Value::as_bool)).collect::<BooleanArray>()),
        Kind::Integer { .. } => Arc::new(cells.iter().map(|cell| cell.and_then(Value::as_i64)).collect::<Int64Array>()),
        Kind::Float => Arc::new(cells.iter().map(|cell| cell.and_then(Value::as_number).and_then(as_float)).collect::<Float64Array>()),
        Kind::Null | Kind::Text => Arc::new(cells.iter().map(|cell| cell.and_then(Value::as_str)).collect::<StringArray>()),
        Kind::Json => Arc::new(cells.iter().map(|cell| cell.map(json_text)).collect::<StringArray>()),
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
        let rows: Vec<Values> = values
            .iter()
            .map(|value| {
                let number = columns.number("c");
                columns.observe(number, value);
                vec![(number, value.clone())]
            })
            .collect();
        let table = columns.table(&rows).unwrap();
        (Arc::clone(&columns.fields()[0]), Arc::clone(table.column(0)))
    }

    #[test]
    fn int_and_float_become_double_while_that_is_exact() {
        let (_, values) = column(&[json!(1), json!(2.5)]);
        assert_eq!(values.as_primitive::<Float64Type>().values(), &[1.0, 2.5]);
        let (field, values) = column(&[json!(9_007_199_254_740_993_i64), json!(2.5)]);
        assert!(crate::schema::is_json_field(&field));
        assert_eq!(values.as_string::<i32>().value(0), "9007199254740993");
    }

    #[test]
    fn int_then_string_becomes_json_text_in_every_cell() {
        let (field, values) = column(&[json!(7), json!("x"), Value::Null]);
        assert!(crate::schema::is_json_field(&field));
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
        let [nan, negative] = ["NaN", "-Infinity"].map(|text| shardmill_formats::json::json_loads(text.as_bytes()).unwrap());
        let (_, values) = column(&[nan.clone(), json!(1), negative, Value::Null]);
        let values = values.as_primitive::<Float64Type>();
        assert!(values.value(0).is_nan() && values.is_null(3));
        assert_eq!(values.values()[1..3], [1.0, f64::NEG_INFINITY]);
        let (field, values) = column(&[nan, json!("x")]);
        assert!(crate::schema::is_json_field(&field));
        assert_eq!(values.as_string::<i32>().value(0), "NaN");
    }

    #[test]
    fn number_beyond_the_largest_double_keeps_its_digits() {
        let (field, values) = column(&[serde_json::from_str("1e400").unwrap()]);
        assert!(crate::schema::is_json_field(&field));
        assert_eq!(values.as_string::<i32>().value(0), "1e+400");
    }

    #[test]
    fn all_null_column_is_nullable_text() {
        let (field, values) = column(&[Value::Null, Value::Null]);
        assert_eq!(field.data_type(), &DataType::Utf8);
        assert_eq!(values.null_count(), 2);
    }
}
