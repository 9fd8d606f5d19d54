//! Opens the files of a table format, with the schema of the table: columns by id, deleted rows,
//! and values that are not stored in files.
//!
//! The table names its files; directories are not listed. All batches have the table's schema, even
//! if a file uses other column names or narrower types.

use super::by_id::with_columns;
use super::open::{Beside, DatasetOptions, open_all};
use super::{Dataset, Format, OpenFile, Origin};
use crate::{Error, Result};
use arrow_array::ArrayRef;
use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder};
use arrow_schema::{Field, Schema, SchemaRef};
use shardmill_engine::Cancel;
use shardmill_formats::records::Declared;
use shardmill_formats::table::TableFile;
use shardmill_plan::DataFile;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Options for opening a table.
#[derive(Debug, Clone)]
pub struct TableOptions {
    /// Types and names of the columns, in order.
    pub schema: SchemaRef,
    /// How to find each of them in a file.
    pub columns: Vec<TableColumn>,
    pub files: Vec<TableDataFile>,
    /// Threads for reading footers.
    pub threads: usize,
}

/// A column, or a field inside of one. It is found by its id, and by its names
/// in files without ids.
#[derive(Debug, Clone, Default)]
pub struct TableColumn {
    /// `None` in tables whose columns have only names.
    pub id: Option<i64>,
    pub names: Vec<String>,
    /// Its value in files that lack it, as an array of length one.
    pub default: Option<ArrayRef>,
    /// The fields of a struct, the item of a list, or the key and the value of a map.
    pub parts: Vec<Self>,
}

/// One file of a table.
#[derive(Debug, Clone, Default)]
pub struct TableDataFile {
    pub path: String,
    /// Identifies the file in states.
    pub relative: String,
    /// Columns with the same value in each row, which may be missing in the file, by index, as
    /// arrays of length one.
    pub constants: Vec<(usize, ArrayRef)>,
    /// Indices of the deleted rows, in any order.
    pub deleted: Vec<u64>,
}

impl Dataset {
    /// Opens the Parquet files of a table.
    ///
    /// # Errors
    /// For a file that cannot be opened, and a column whose type there cannot be converted to that
    /// of the table.
    pub fn open_table(options: &TableOptions, cancel: &Cancel) -> Result<Self> {
        let bytes_read = Arc::default();
        let listed: Vec<(usize, DataFile)> = options
            .files
            .iter()
            .map(|file| DataFile { path: file.path.clone(), relative: file.relative.clone() })
            .enumerate()
            .collect();
        let tables = open_all(
            Format::Parquet,
            &listed,
            &parquet(options.threads),
            Beside::default(),
            &bytes_read,
            cancel,
        )?;
        let mut files = Vec::with_capacity(tables.len());
        for (file, opened) in options.files.iter().zip(tables) {
            let (table, size) = opened?;
            let table = with_columns(table, &options.schema, &options.columns)?;
            let mut columns = Vec::with_capacity(options.columns.len());
            for (number, (column, field)) in
                options.columns.iter().zip(options.schema.fields()).enumerate()
            {
                columns.push(origin(file, table.declared_schema(), number, column, field)?);
            }
            let live = live_rows(&file.deleted, table.as_ref());
            files.push(OpenFile {
                path: file.path.clone(),
                relative: file.relative.clone(),
                size,
                table,
                columns,
                declared: Declared::nothing(),
                live,
            });
        }
        let dataset = Self {
            format: Some(Format::Parquet),
            files,
            schema: Arc::clone(&options.schema),
            top_level: options.schema.fields().len(),
            hidden: BTreeSet::new(),
            image_columns: BTreeSet::new(),
            left_out: Vec::new(),
            skipped: Vec::new(),
            bytes_read: vec![bytes_read],
        };
        Ok(dataset.with_nested())
    }
}

fn parquet(threads: usize) -> DatasetOptions {
    DatasetOptions {
        threads: threads.max(1),
        ..DatasetOptions::new(Vec::new(), Some(Format::Parquet))
    }
}

fn origin(
    file: &TableDataFile,
    schema: &Schema,
    number: usize,
    column: &TableColumn,
    field: &Field,
) -> Result<Origin> {
    if let Ok(own) = schema.index_of(field.name()) {
        return Ok(Origin::File(own));
    }
    let constant =
        file.constants.iter().find(|(constant, _)| *constant == number).map(|(_, value)| value);
    match constant.or(column.default.as_ref()) {
        Some(value) => Ok(Origin::Constant(Arc::clone(value))),
        None if field.is_nullable() => Ok(Origin::Absent),
        None => {
            Err(Error::MissingRequired { column: field.name().clone(), path: file.path.clone() })
        }
    }
}

/// One bit per row, set if it is not deleted; `None` if no row is.
fn live_rows(deleted: &[u64], table: &dyn TableFile) -> Option<BooleanBuffer> {
    if deleted.is_empty() {
        return None;
    }
    let rows = usize::try_from(table.blocks().iter().map(|block| block.rows).sum::<u64>())
        .unwrap_or(usize::MAX);
    let mut live = BooleanBufferBuilder::new(rows);
    live.append_n(rows, true);
    // A number past the last row is ignored.
    for row in deleted.iter().filter_map(|row| usize::try_from(*row).ok()).filter(|row| *row < rows)
    {
        live.set_bit(row, false);
    }
    Some(live.finish())
}
