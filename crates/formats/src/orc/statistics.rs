//! Bounds of the values of a column in each stripe.
//!
//! Decoded from the messages directly, because orc-rust reports a missing bound as zero.
//! Timestamps and decimals have no bounds here: writers disagree about time zones,
//! and truncate to milliseconds.

use super::types::{CHAR, Type};
use super::wire::{self, Value, signed};
use crate::table::Statistics;
use arrow_array::{
    ArrayRef, BooleanArray, Date32Array, Float32Array, Float64Array, Int64Array, StringArray,
};
use arrow_cast::cast;
use arrow_schema::DataType;
use bytes::Bytes;
use std::sync::Arc;

/// The statistics of one column in one stripe.
#[derive(Debug, Default, PartialEq)]
struct Stated {
    values: Option<u64>,
    has_null: Option<bool>,
    integers: Option<(i64, i64)>,
    reals: Option<(f64, f64)>,
    texts: Option<(String, String)>,
    days: Option<(i64, i64)>,
    true_count: Option<u64>,
}

/// `column` is the number of the type, `rows` the numbers of rows of the stripes. `None` when no
/// stripe has statistics.
pub(super) fn statistics(
    messages: &[Bytes],
    column: usize,
    found: &Type,
    data_type: &DataType,
    is_within_struct: bool,
    rows: &[u64],
) -> Option<Statistics> {
    if messages.is_empty() || messages.len() != rows.len() {
        return None;
    }
    let stated: Vec<Stated> =
        messages.iter().map(|message| of_column(message, column).unwrap_or_default()).collect();
    let (min, max) = bounds(&stated, found, data_type)?;
    let null_counts = stated
        .iter()
        .zip(rows)
        .map(|(stated, rows)| null_count(stated, is_within_struct, *rows))
        .collect();
    Some(Statistics { min, max, null_counts, row_counts: rows.to_vec() })
}

/// `None` if the two statements about nulls contradict each other. A field has no value where the
/// struct around it is null, which `has_null` does not count.
fn null_count(stated: &Stated, is_within_struct: bool, rows: u64) -> Option<u64> {
    let nulls = rows.checked_sub(stated.values?)?;
    if is_within_struct && nulls > 0 {
        return Some(nulls);
    }
    if stated.has_null.is_none_or(|has_null| has_null == (nulls > 0)) { Some(nulls) } else { None }
}

fn bounds(stated: &[Stated], found: &Type, data_type: &DataType) -> Option<(ArrayRef, ArrayRef)> {
    let ordered = |pair: &(i64, i64)| pair.0 <= pair.1;
    Some(match data_type {
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 => {
            let pairs: Vec<_> =
                stated.iter().map(|stated| stated.integers.filter(ordered)).collect();
            // Bounds outside of the type become null.
            let array = |pick: fn((i64, i64)) -> i64| {
                cast(
                    &(Arc::new(pairs.iter().map(|pair| pair.map(pick)).collect::<Int64Array>())
                        as ArrayRef),
                    data_type,
                )
                .ok()
            };
            (array(|pair| pair.0)?, array(|pair| pair.1)?)
        }
        DataType::Date32 => {
            let days = |day: i64| i32::try_from(day).ok();
            let pairs: Vec<_> = stated.iter().map(|stated| stated.days.filter(ordered)).collect();
            let min = pairs
                .iter()
                .map(|pair| pair.and_then(|pair| days(pair.0)))
                .collect::<Date32Array>();
            let max = pairs
                .iter()
                .map(|pair| pair.and_then(|pair| days(pair.1)))
                .collect::<Date32Array>();
            (Arc::new(min), Arc::new(max))
        }
        DataType::Float32 | DataType::Float64 => {
            let pairs: Vec<_> =
                stated.iter().map(|stated| stated.reals.and_then(real_bounds)).collect();
            let min = Arc::new(
                pairs.iter().map(|pair| pair.map(|pair| pair.0)).collect::<Float64Array>(),
            );
            let max = Arc::new(
                pairs.iter().map(|pair| pair.map(|pair| pair.1)).collect::<Float64Array>(),
            );
            if *data_type == DataType::Float64 { (min, max) } else { (narrow(min)?, narrow(max)?) }
        }
        // Writers pad values of fixed length in different ways.
        DataType::Utf8 if found.kind != CHAR => {
            let pairs = || {
                stated.iter().map(|stated| stated.texts.as_ref().filter(|texts| texts.0 <= texts.1))
            };
            let min =
                pairs().map(|texts| texts.map(|texts| texts.0.as_str())).collect::<StringArray>();
            let max =
                pairs().map(|texts| texts.map(|texts| texts.1.as_str())).collect::<StringArray>();
            (Arc::new(min), Arc::new(max))
        }
        DataType::Boolean => {
            let counts = || {
                stated.iter().map(|stated| {
                    stated
                        .values
                        .zip(stated.true_count)
                        .filter(|(values, true_count)| *values > 0 && true_count <= values)
                })
            };
            let min = counts()
                .map(|counts| counts.map(|(values, true_count)| true_count == values))
                .collect::<BooleanArray>();
            let max = counts()
                .map(|counts| counts.map(|(_, true_count)| true_count > 0))
                .collect::<BooleanArray>();
            (Arc::new(min), Arc::new(max))
        }
        _ => return None,
    })
}

/// A writer that saw NaN first has it as both bounds. A bound of zero may have been the zero of the
/// other sign.
fn real_bounds((min, max): (f64, f64)) -> Option<(f64, f64)> {
    if min.is_nan() || max.is_nan() || min > max {
        return None;
    }
    Some((if min == 0.0 { -0.0 } else { min }, if max == 0.0 { 0.0 } else { max }))
}

/// As 32-bit floats, if that loses nothing.
fn narrow(wide: Arc<Float64Array>) -> Option<ArrayRef> {
    let wide: ArrayRef = wide;
    let narrow = cast(&wide, &DataType::Float32).ok()?;
    let back = cast(&narrow, &DataType::Float64).ok()?;
    let (narrow, wide) = (
        narrow.as_any().downcast_ref::<Float32Array>()?,
        wide.as_any().downcast_ref::<Float64Array>()?,
    );
    let back = back.as_any().downcast_ref::<Float64Array>()?;
    let exact = narrow
        .iter()
        .zip(wide.iter().zip(back.iter()))
        .map(|(narrow, (wide, back))| narrow.filter(|_| wide == back));
    Some(Arc::new(exact.collect::<Float32Array>()))
}

fn of_column(message: &[u8], column: usize) -> Option<Stated> {
    let stated =
        wire::fields(message).ok()?.filter(|field| field.number == 1).nth(column)?.value.bytes()?;
    let mut found = Stated::default();
    for field in wire::fields(stated).ok()? {
        match (field.number, field.value) {
            (1, Value::Varint(values)) => found.values = Some(values),
            (10, Value::Varint(has_null)) => found.has_null = Some(has_null != 0),
            (2, Value::Bytes(bounds)) => found.integers = integers(bounds),
            (3, Value::Bytes(bounds)) => found.reals = reals(bounds),
            (4, Value::Bytes(bounds)) => found.texts = texts(bounds),
            (5, Value::Bytes(bucket)) => found.true_count = true_count(bucket),
            (7, Value::Bytes(bounds)) => found.days = integers(bounds),
            _ => {}
        }
    }
    Some(found)
}

fn integers(message: &[u8]) -> Option<(i64, i64)> {
    let fields = wire::fields(message).ok()?;
    let bound = |number| {
        fields
            .clone()
            .find(|field| field.number == number)
            .and_then(|field| field.value.number())
            .map(signed)
    };
    bound(1).zip(bound(2))
}

fn reals(message: &[u8]) -> Option<(f64, f64)> {
    let fields = wire::fields(message).ok()?;
    let bound = |number| {
        fields.clone().find_map(|field| match field.value {
            Value::Double(value) if field.number == number => Some(value),
            _ => None,
        })
    };
    bound(1).zip(bound(2))
}

/// Long texts have a lower and an upper bound instead of exact ones.
fn texts(message: &[u8]) -> Option<(String, String)> {
    let fields = wire::fields(message).ok()?;
    let text = |number| {
        fields.clone().find(|field| field.number == number).and_then(|field| field.value.bytes())
    };
    let owned = |bytes: &[u8]| std::str::from_utf8(bytes).ok().map(str::to_owned);
    text(1).or_else(|| text(4)).and_then(owned).zip(text(2).or_else(|| text(5)).and_then(owned))
}

fn true_count(message: &[u8]) -> Option<u64> {
    let fields = wire::fields(message).ok()?;
    fields.clone().find(|field| field.number == 1)?.value.numbers().ok()?.first().copied()
}
