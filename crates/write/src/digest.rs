//! A digest of rows, to compare the written rows with the intended ones.

use crate::{Error, Result};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, GenericListArray, OffsetSizeTrait, RecordBatch};
use arrow_cast::cast;
use arrow_row::{RowConverter, SortField};
use arrow_schema::{ArrowError, DataType};
use shardmill_formats::parquet::as_stored;
use std::sync::Arc;
use xxhash_rust::xxh3::Xxh3;

/// Hashes rows in order. The digest does not depend on the split into batches, nor on whether
/// strings are views, have wide offsets, or are typed as binary, nor on units of time that Parquet
/// stores as others.
#[derive(Default)]
pub struct RowDigest {
    rows: u64,
    /// Boxed, because its alignment exceeds that of Python objects.
    hash: Box<Xxh3>,
    converter: Option<RowConverter>,
}

impl std::fmt::Debug for RowDigest {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("RowDigest").field("rows", &self.rows).finish_non_exhaustive()
    }
}

impl RowDigest {
    /// # Errors
    /// When the columns differ from earlier ones, or have a type whose values cannot be compared.
    pub fn update(&mut self, rows: &RecordBatch) -> Result<()> {
        let failed = |source| Error::Columns { source };
        let columns = rows
            .columns()
            .iter()
            .map(comparable)
            .collect::<std::result::Result<Vec<ArrayRef>, _>>()
            .map_err(failed)?;
        let (numbers, others): (Vec<_>, Vec<_>) =
            columns.into_iter().partition(|column| has_numbers(column.data_type()));
        let numbers: Vec<_> = numbers.iter().map(hashed_rows).collect();
        if self.converter.is_none() {
            let fields =
                others.iter().map(|column| SortField::new(column.data_type().clone())).collect();
            self.converter = Some(RowConverter::new(fields).map_err(failed)?);
        }
        self.rows += rows.num_rows() as u64;
        let Some(converter) = &mut self.converter else { return Ok(()) };
        let encoded = converter.convert_columns(&others).map_err(failed)?;
        for row in 0..rows.num_rows() {
            if !others.is_empty() {
                let encoded = encoded.row(row);
                let bytes = encoded.data();
                self.hash.update(&(bytes.len() as u64).to_le_bytes());
                self.hash.update(bytes);
            }
            numbers.iter().for_each(|numbers| numbers(row, &mut self.hash));
        }
        Ok(())
    }

    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    #[must_use]
    pub fn value(&self) -> u128 {
        self.hash.digest128()
    }
}

type Hashed = Box<dyn Fn(usize, &mut Xxh3)>;

fn has_numbers(column: &DataType) -> bool {
    matches!(
        column,
        DataType::List(item) | DataType::LargeList(item) if item.data_type().is_primitive()
    )
}

/// Hashes a row of lists of numbers as they are: encoded like other rows, they take many times as
/// long.
fn hashed_rows(column: &ArrayRef) -> Hashed {
    match column.data_type() {
        DataType::List(_) => hashed(column.as_list::<i32>().clone()),
        _ => hashed(column.as_list::<i64>().clone()),
    }
}

fn hashed<O: OffsetSizeTrait>(lists: GenericListArray<O>) -> Hashed {
    let items = lists.values().to_data();
    let width = lists.values().data_type().primitive_width().unwrap_or_default();
    Box::new(move |row, hash| {
        if lists.is_null(row) {
            return hash.update(&[0; 8]);
        }
        let [start, end] = [row, row + 1]
            .map(|place| lists.value_offsets().get(place).map_or(0, |offset| offset.as_usize()));
        hash.update(&(end - start + 1).to_le_bytes());
        let bytes = |start: usize, end: usize| {
            let within = (items.offset() + start) * width..(items.offset() + end) * width;
            items.buffers().first().and_then(|bytes| bytes.get(within)).unwrap_or_default()
        };
        match items.nulls().map(|nulls| nulls.slice(start, end - start)) {
            Some(nulls) if nulls.null_count() > 0 => {
                for (place, is_valid) in (start..end).zip(nulls.iter()) {
                    hash.update(&[u8::from(is_valid)]);
                    hash.update(if is_valid { bytes(place, place + 1) } else { &[] });
                }
            }
            _ => hash.update(bytes(start, end)),
        }
    })
}

/// Fixed-size binaries are converted to ordinary ones, other types to those of Parquet. A value
/// that Parquet cannot store is in no file that is read back from it.
fn comparable(column: &ArrayRef) -> std::result::Result<ArrayRef, ArrowError> {
    match column.data_type() {
        DataType::FixedSizeBinary(_) => cast(column, &DataType::Binary),
        _ => Ok(as_stored(column).unwrap_or_else(|_not_stored| Arc::clone(column))),
    }
}
