//! Gives rows the declared types of their columns. Strings and binaries were views and get offsets,
//! which address 2 GiB with 32 bits.
//!
//! The invariant: no value is dropped or changed. If the values of a column exceed its offsets, the
//! rows are cut, or the column of a batch gets 64-bit offsets.

use crate::dictionary::with_distinct_values;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_cast::cast;
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Schema, SchemaRef};
use std::sync::Arc;

/// What offsets of 32 bits can address.
const MAX_BYTES: u64 = i32::MAX as u64;

/// How rows may be cut.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Cuts<'a> {
    /// Into batches of these sizes. A column that does not fit its offsets has 64-bit offsets in
    /// that batch.
    Batches(&'a [usize]),
    /// Anywhere. All pieces have the declared types.
    Anywhere,
}

/// `rows` with the types of `schema`, in one piece if the values fit.
pub(crate) fn declared(
    rows: &RecordBatch,
    schema: &SchemaRef,
    cuts: Cuts<'_>,
) -> Result<Vec<RecordBatch>, ArrowError> {
    cut_to(rows, schema, cuts, MAX_BYTES)
}

fn cut_to(
    rows: &RecordBatch,
    schema: &SchemaRef,
    cuts: Cuts<'_>,
    most: u64,
) -> Result<Vec<RecordBatch>, ArrowError> {
    if fits(rows, schema, most) {
        return Ok(vec![typed(rows, schema)?]);
    }
    match cuts {
        Cuts::Batches(sizes) => {
            let mut start = 0;
            let batch = |size: &usize| {
                start += size;
                let batch = rows.slice(start - size, *size);
                let wide = |(field, column): (&FieldRef, &ArrayRef)| {
                    if is_short(field, column, most) { Arc::clone(field) } else { wide(field) }
                };
                let fields =
                    schema.fields().iter().zip(batch.columns()).map(wide).collect::<Vec<_>>();
                typed(
                    &batch,
                    &Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone())),
                )
            };
            sizes.iter().map(batch).collect()
        }
        Cuts::Anywhere if rows.num_rows() > 1 => {
            let half = rows.num_rows() / 2;
            let mut pieces = cut_to(&rows.slice(0, half), schema, cuts, most)?;
            pieces.extend(cut_to(&rows.slice(half, rows.num_rows() - half), schema, cuts, most)?);
            Ok(pieces)
        }
        Cuts::Anywhere => {
            Err(ArrowError::OffsetOverflowError(usize::try_from(most).unwrap_or(usize::MAX)))
        }
    }
}

fn fits(rows: &RecordBatch, schema: &Schema, most: u64) -> bool {
    schema.fields().iter().zip(rows.columns()).all(|(field, column)| is_short(field, column, most))
}

/// Whether the values of a column fit the offsets of its type.
fn is_short(field: &Field, column: &ArrayRef, most: u64) -> bool {
    if !matches!(field.data_type(), DataType::Utf8 | DataType::Binary) {
        return true;
    }
    let bytes: u64 = match column.data_type() {
        DataType::Utf8View => column.as_string_view().lengths().map(u64::from).sum(),
        DataType::BinaryView => column.as_binary_view().lengths().map(u64::from).sum(),
        _ => 0,
    };
    bytes <= most
}

fn wide(field: &FieldRef) -> FieldRef {
    let data_type = if *field.data_type() == DataType::Utf8 {
        DataType::LargeUtf8
    } else {
        DataType::LargeBinary
    };
    Arc::new(Field::clone(field).with_data_type(data_type))
}

fn typed(rows: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let columns = rows.columns().iter().zip(schema.fields()).map(|(column, field)| {
        let column = if column.data_type() == field.data_type() {
            Arc::clone(column)
        } else {
            cast(column, field.data_type())?
        };
        with_distinct_values(column)
    });
    let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    RecordBatch::try_new_with_options(
        Arc::clone(schema),
        columns.collect::<Result<_, _>>()?,
        &options,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{Int32Array, StringViewArray};
    use arrow_select::concat::concat;
    use proptest::prelude::*;

    fn rows(texts: &[Option<String>]) -> (RecordBatch, SchemaRef) {
        let numbers =
            Int32Array::from_iter_values((0..texts.len()).map(|row| i32::try_from(row).unwrap()));
        let columns: [(&str, ArrayRef); 2] =
            [("n", Arc::new(numbers)), ("s", Arc::new(texts.iter().collect::<StringViewArray>()))];
        let schema = Schema::new(vec![
            Field::new("n", DataType::Int32, true),
            Field::new("s", DataType::Utf8, true),
        ]);
        (
            RecordBatch::try_from_iter_with_nullable(
                columns.map(|(name, column)| (name, column, true)),
            )
            .unwrap(),
            Arc::new(schema),
        )
    }

    fn texts_of(pieces: &[RecordBatch]) -> ArrayRef {
        let texts: Vec<ArrayRef> = pieces
            .iter()
            .map(|piece| cast(piece.column(1), &DataType::LargeUtf8).unwrap())
            .collect();
        concat(&texts.iter().map(AsRef::as_ref).collect::<Vec<_>>()).unwrap()
    }

    proptest! {
        #[test]
        fn pieces_have_the_rows_in_order_and_fit_their_offsets(
            texts in proptest::collection::vec(proptest::option::of("[a-z]{0,9}"), 1..30),
            most in 9_u64..60,
        ) {
            let (rows, schema) = rows(&texts);
            let expected = cast(rows.column(1), &DataType::LargeUtf8).unwrap();
            let anywhere = cut_to(&rows, &schema, Cuts::Anywhere, most).unwrap();
            prop_assert_eq!(&texts_of(&anywhere), &expected);
            prop_assert!(anywhere.iter().all(|piece| piece.schema() == schema
                && piece.column(1).as_string::<i32>().value_data().len() as u64 <= most));
            let sizes = [texts.len() / 3, texts.len() - texts.len() / 3];
            let batches = cut_to(&rows, &schema, Cuts::Batches(&sizes), most).unwrap();
            prop_assert_eq!(&texts_of(&batches), &expected);
            if batches.len() > 1 {
                for (batch, size) in batches.iter().zip(sizes) {
                    let bytes: usize = cast(batch.column(1), &DataType::LargeUtf8)
                        .unwrap()
                        .as_string::<i64>()
                        .value_data()
                        .len();
                    prop_assert_eq!(
                        (batch.num_rows(), *batch.column(1).data_type() == DataType::LargeUtf8),
                        (size, bytes as u64 > most)
                    );
                }
            }
        }
    }

    #[test]
    fn value_that_no_piece_can_hold_is_an_error() {
        let (rows, schema) = rows(&[Some("abc".to_owned())]);
        assert!(matches!(
            cut_to(&rows, &schema, Cuts::Anywhere, 2),
            Err(ArrowError::OffsetOverflowError(_))
        ));
    }
}
