//! Opens files that a table format names, under the schema that the table has: columns by id, rows that are deleted, values that no file stores.
//!
//! The table says which files there are; nothing is listed. Its schema holds for every batch, whatever a file calls its columns and whichever narrower
//! type it has them in.

use super::open::{DatasetOptions, open_all};
use super::{Dataset, Format, MdsShards, OpenFile, Origin};
use crate::{Error, Result};
use arrow_array::ArrayRef;
use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use shardmill_engine::Cancel;
use shardmill_formats::limit::DecodeLimit;
use shardmill_formats::records::BadLines;
use shardmill_formats::table::TableFile;
use shardmill_plan::DataFile;
use std::sync::Arc;

/// Where readers of Parquet keep the id of a column.
const FIELD_ID: &str = "PARQUET:field_id";

/// What to open.
#[derive(Debug, Clone)]
pub struct TableOptions {
    /// Types and names of the columns, in order.
    pub schema: SchemaRef,
    /// How to find each of them in a file.
    pub columns: Vec<TableColumn>,
    pub files: Vec<TableDataFile>,
    /// For reading footers.
    pub threads: usize,
}

/// A column is found by its id, and by its names in files that have no ids.
#[derive(Debug, Clone, Default)]
pub struct TableColumn {
    pub id: i64,
    pub names: Vec<String>,
}

/// One file of a table.
#[derive(Debug, Clone, Default)]
pub struct TableDataFile {
    pub path: String,
    /// What states know it by.
    pub relative: String,
    /// Columns that are the same in each row and need not be in the file, by number, as arrays of one.
    pub constants: Vec<(usize, ArrayRef)>,
    /// Numbers of the rows that are deleted, in any order.
    pub deleted: Vec<u64>,
}

impl Dataset {
    /// Opens the Parquet files of a table.
    ///
    /// # Errors
    /// For a file that cannot be opened, and a column whose type there does not become that of the table.
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
        Ok(Self {
            format: Some(Format::Parquet),
            files,
            schema: Arc::clone(&options.schema),
            left_out: Vec::new(),
            skipped: Vec::new(),
            bytes_read: vec![bytes_read],
        })
    }
}

fn parquet(threads: usize) -> DatasetOptions {
    DatasetOptions {
        paths: Vec::new(),
        format: Some(Format::Parquet),
        hive: false,
        filter: None,
        text_schema: None,
        bad_lines: BadLines::Error,
        skip_bad_files: false,
        has_pickle_bytes: false,
        ignores_zeros: false,
        limit: DecodeLimit::default(),
        threads: threads.max(1),
    }
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

/// Whether values inside of a nested column stand where the table expects them: a cast takes them by place, not by id.
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

/// One bit a row, set where it is not deleted; `None` when no row is.
fn live_rows(deleted: &[u64], table: &dyn TableFile) -> Option<BooleanBuffer> {
    if deleted.is_empty() {
        return None;
    }
    let rows = usize::try_from(table.blocks().iter().map(|block| block.rows).sum::<u64>()).unwrap_or(usize::MAX);
    let mut live = BooleanBufferBuilder::new(rows);
    live.append_n(rows, true);
    // A number behind the last row deletes nothing.
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
