//! Buffers are moved, policies are followed, and unsupported columns are
//! rejected before a row is read.

mod memory;
mod policies;
mod refusals;

use super::{Column, ColumnOptions, Converter, Error, FillValue, Kind, Nulls, Numbers, Superbatch};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use std::sync::Arc;

type Fills<'a> = &'a [(&'a str, FillValue)];

fn options(kind: Kind, nulls: Nulls, fills: Fills) -> ColumnOptions {
    let fill_values =
        fills.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    ColumnOptions { fill_values, ..ColumnOptions::new(kind, nulls) }
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, array)| (name, array, true)),
    )
    .unwrap()
}

fn convert(
    columns: Vec<(&str, ArrayRef)>,
    nulls: Nulls,
    fills: Fills,
) -> Result<Superbatch, Error> {
    let batch = batch(columns);
    let sizes = [batch.num_rows()];
    Converter::new(&batch.schema(), &options(Kind::Torch, nulls, fills))?.convert(batch, &sizes)
}

fn refused(data_type: DataType, nulls: Nulls, fills: Fills) -> Error {
    let schema = Schema::new(vec![Field::new("x", data_type, true)]);
    Converter::new(&schema, &options(Kind::Torch, nulls, fills)).expect_err("a refusal")
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

fn numbers_in(column: &Column) -> &Numbers {
    match column {
        Column::Values(numbers) => numbers,
        other => panic!("{other:?} are no values"),
    }
}

fn item() -> Arc<Field> {
    Arc::new(Field::new("item", DataType::Int32, true))
}
