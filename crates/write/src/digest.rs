//! A digest of rows, to compare the written rows with the intended ones.

use crate::{Error, Result};
use arrow_array::{ArrayRef, RecordBatch};
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
        if self.converter.is_none() {
            let fields =
                columns.iter().map(|column| SortField::new(column.data_type().clone())).collect();
            self.converter = Some(RowConverter::new(fields).map_err(failed)?);
        }
        self.rows += rows.num_rows() as u64;
        let Some(converter) = &mut self.converter else { return Ok(()) };
        for row in &converter.convert_columns(&columns).map_err(failed)? {
            let bytes = row.data();
            self.hash.update(&(bytes.len() as u64).to_le_bytes());
            self.hash.update(bytes);
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

/// Fixed-size binaries are converted to ordinary ones, other types to those of Parquet. A value
/// that Parquet cannot store is in no file that is read back from it.
fn comparable(column: &ArrayRef) -> std::result::Result<ArrayRef, ArrowError> {
    match column.data_type() {
        DataType::FixedSizeBinary(_) => cast(column, &DataType::Binary),
        _ => Ok(as_stored(column).unwrap_or_else(|_not_stored| Arc::clone(column))),
    }
}
