//! Opens the files of a table format, with the schema of the table: columns by id, deleted rows, and values that are not stored in files.
//!
//! The table names its files; directories are not listed. All batches have the table's schema, even if a file uses other column names or narrower
//! types.

use super::open::{DatasetOptions, open_all};
use super::{Dataset, Format, MdsShards, OpenFile, Origin};
use crate::{Error, Result};
use arrow_array::ArrayRef;
use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use shardmill_engine::Cancel;
use shardmill_formats::table::TableFile;
use shardmill_plan::DataFile;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Field metadata key of Parquet readers for the id of a column.
const FIELD_ID: &str = "PARQUET:field_id";

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

/// A column is found by its id, and by its names in files without ids.
#[derive(Debug, Clone, Default)]
pub struct TableColumn {
    pub id: i64,
    pub names: Vec<String>,
}

/// One file of a table.
#[derive(Debug, Clone, Default)]
pub struct TableDataFile {
    pub path: String,
    /// Identifies the file in states.
    pub relative: String,
    /// Columns with the same value in each row, which may be missing in the file, by index, as arrays of length one.
    pub constants: Vec<(usize, ArrayRef)>,
    /// Indices of the deleted rows, in any order.
    pub deleted: Vec<u64>,
}

impl Dataset {
    /// Opens the Parquet files of a table.
    ///
    /// # Errors
    /// For a file that cannot be opened, and a column whose type there cannot be converted to that of the table.
    pub fn open_table(options: &TableOptions, cancel: &Cancel) -> Result<Self> {
        let bytes_read = Arc::default();
        let listed: Vec<(usize, DataFile)> =
            options.files.iter().map(|file| DataFile { path: file.path.clone(), relative: file.relative.clone() }).enumerate().collect();
        let tables = open_all(Format::Parquet, &listed, &parquet(options.threads), MdsShards::default(), &bytes_read, cancel)?;
        let mut files = Vec::with_capacity(tables.len());
        for (file, opened) in options.files.iter().zip(tables) {
            let (table, size) = opened?;
            let mut columns = Vec::with_capacity(options.columns.len());
            for (number, (column, field)) in options.columns.iter().zip(options.schema.fields()).enumerate() {
                columns.push(origin(file, table.declared_schema(), number, column, field)?);
            }
            let live = live_rows(&file.deleted, table.as_ref());
            files.push(OpenFile { path: file.path.clone(), relative: file.relative.clone(), size, table, columns, live });
        }
        let dataset = Self {
            format: Some(Format::Parquet),
            files,
            schema: Arc::clone(&options.schema),
            top_level: options.schema.fields().len(),
            image_columns: BTreeSet::new(),
            left_out: Vec::new(),
            skipped: Vec::new(),
            bytes_read: vec![bytes_read],
        };
        Ok(dataset.with_nested())
    }
}

fn parquet(threads: usize) -> DatasetOptions {
    DatasetOptions { threads: threads.max(1), ..DatasetOptions::new(Vec::new(), Some(Format::Parquet)) }
}

fn origin(file: &TableDataFile, schema: &Schema, number: usize, column: &TableColumn, field: &Field) -> Result<Origin> {
    let id_of = |own: &Field| own.metadata().get(FIELD_ID).and_then(|id| id.parse::<i64>().ok());
    let has_ids = schema.fields().iter().any(|own| id_of(own).is_some());
    let found = schema.fields().iter().position(|own| match id_of(own) {
        Some(id) => id == column.id,
        None => !has_ids && column.names.contains(own.name()),
    });
    if let Some(own) = found {
        let known = schema.fields().get(own).map_or(&DataType::Null, |own| own.data_type());
        if !has_same_parts(known, field.data_type()) {
            return Err(Error::SchemaConflict {
                column: field.name().clone(),
                first: "the table".to_owned(),
                first_type: field.data_type().clone(),
                second: file.path.clone(),
                second_type: known.clone(),
            });
        }
        return Ok(Origin::File(own));
    }
    match file.constants.iter().find(|(constant, _)| *constant == number) {
        Some((_, value)) => Ok(Origin::Constant(Arc::clone(value))),
        None if field.is_nullable() => Ok(Origin::Absent),
        None => Err(Error::MissingRequired { column: field.name().clone(), path: file.path.clone() }),
    }
}

/// Whether nested values are in the expected positions: a cast matches them by position, not by id.
fn has_same_parts(own: &DataType, wanted: &DataType) -> bool {
    use DataType::{FixedSizeList, LargeList, List, Map, Struct};
    match (own, wanted) {
        (Struct(own), Struct(wanted)) => {
            own.len() == wanted.len()
                && own.iter().zip(wanted).all(|(own, wanted)| own.name() == wanted.name() && has_same_parts(own.data_type(), wanted.data_type()))
        }
        (List(own) | LargeList(own) | FixedSizeList(own, _), List(wanted) | LargeList(wanted) | FixedSizeList(wanted, _)) => {
            has_same_parts(own.data_type(), wanted.data_type())
        }
        (Map(own, _), Map(wanted, _)) => {
            let parts = |entries: &Field| match entries.data_type() {
                Struct(parts) => parts.iter().map(|part| part.data_type().clone()).collect(),
                _ => Vec::new(),
            };
            let (own, wanted) = (parts(own), parts(wanted));
            own.len() == wanted.len() && own.iter().zip(&wanted).all(|(own, wanted)| has_same_parts(own, wanted))
        }
        (own, wanted) => own.is_nested() == wanted.is_nested(),
    }
}

/// One bit per row, set if it is not deleted; `None` if no row is.
fn live_rows(deleted: &[u64], table: &dyn TableFile) -> Option<BooleanBuffer> {
    if deleted.is_empty() {
        return None;
    }
    let rows = usize::try_from(table.blocks().iter().map(|block| block.rows).sum::<u64>()).unwrap_or(usize::MAX);
    let mut live = BooleanBufferBuilder::new(rows);
    live.append_n(rows, true);
    // A number past the last row is ignored.
    for row in deleted.iter().filter_map(|row| usize::try_from(*row).ok()).filter(|row| *row < rows) {
        live.set_bit(row, false);
    }
    Some(live.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_parts_are_compared_by_name_and_place() {
        let parts = |names: &[&str]| DataType::Struct(names.iter().map(|name| Field::new(*name, DataType::Int32, true)).collect());
        assert!(has_same_parts(&parts(&["a", "b"]), &parts(&["a", "b"])));
        assert!(!has_same_parts(&parts(&["a", "b"]), &parts(&["b", "a"])));
        assert!(!has_same_parts(&parts(&["a"]), &DataType::Int32));
        assert!(has_same_parts(&DataType::Int32, &DataType::Int64));
    }
}
