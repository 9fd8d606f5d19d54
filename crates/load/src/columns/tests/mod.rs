//! Buffers are moved, policies are kept, and what cannot be is refused before a row is read.

mod memory;
mod policies;
mod refusals;

use super::{Column, Converter, Error, FillValue, Kind, Nulls, Numbers, Superbatch};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use std::collections::BTreeMap;
use std::sync::Arc;

type Fills<'a> = &'a [(&'a str, FillValue)];

fn fill_values(fills: Fills) -> BTreeMap<String, FillValue> {
    fills.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true))).unwrap()
}

fn convert(columns: Vec<(&str, ArrayRef)>, nulls: Nulls, fills: Fills) -> Result<Superbatch, Error> {
    let batch = batch(columns);
    Converter::new(&batch.schema(), Kind::Torch, nulls, &fill_values(fills))?.convert(batch)
}

fn refused(data_type: DataType, nulls: Nulls, fills: Fills) -> Error {
    let schema = Schema::new(vec![Field::new("x", data_type, true)]);
    Converter::new(&schema, Kind::Torch, nulls, &fill_values(fills)).expect_err("a refusal")
}

/// The only column.
fn only(superbatch: Superbatch) -> Numbers {
    let [numbers] = <[Numbers; 1]>::try_from(numbers(superbatch)).unwrap();
    numbers
}

fn numbers(superbatch: Superbatch) -> Vec<Numbers> {
    superbatch
        .columns
        .into_iter()
        .map(|column| match column {
            Column::Values(numbers) => numbers,
            other => panic!("{other:?} are no values"),
        })
        .collect()
}

fn item() -> Arc<Field> {
    Arc::new(Field::new("item", DataType::Int32, true))
}
