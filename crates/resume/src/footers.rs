//! Checks the ids of files from their footers, before a row is read.
//!
//! Returns the common [`IdSchema`] of the files. Called before a job commits anything. The invariant: a file that passes has every id column, of a
//! type that identifies rows and that all other files share; with [`FooterCheck::allows_nulls`] unset, no block has a null id according to its
//! statistics. Formats without a footer pass: their ids are checked when they are read.

use crate::index::IndexSource;
use crate::keys::IdSchema;
use crate::{Error, Result};
use arrow_array::Array;
use arrow_schema::{DataType, Schema};
use shardmill_engine::{Cancel, run_until_error};
use shardmill_formats::limit::DecodeLimit;
use shardmill_formats::table::{Statistics, TableFile};
use shardmill_load::{FileOpener, Format, TextOptions};
use shardmill_storage::store_of;
use std::sync::Arc;

/// Number of files that a thread opens together, because opening one is little work.
const FILES_AT_ONCE: usize = 16;

/// What to check.
#[derive(Debug, Clone)]
pub struct FooterCheck {
    pub source: IndexSource,
    pub allows_nulls: bool,
    /// The expected id types, and a name for their origin in messages.
    pub expected: Option<(IdSchema, String)>,
    pub threads: usize,
}

impl FooterCheck {
    /// The id types; `None` if no footer states them, because no file has rows or the format has no footer.
    ///
    /// # Errors
    /// [`Error::InFile`] around [`Error::MissingColumn`] or [`Error::UnsupportedType`]; [`Error::FileTypes`]; [`Error::NullId`]; when a footer cannot be
    /// read, and when cancelled.
    pub fn run(self, cancel: &Cancel) -> Result<Option<IdSchema>> {
        let (format, files) = self.source.files()?;
        let Some(format) = format.filter(|format| !matches!(format, Format::Csv | Format::Jsonl | Format::WebDataset)) else { return Ok(None) };
        let groups = files.len().div_ceil(FILES_AT_ONCE);
        let columns = self.source.columns.clone();
        let look = Look {
            opener: FileOpener::new(format, &TextOptions::default(), DecodeLimit::default(), &[])?,
            columns: self.source.columns,
            allows_nulls: self.allows_nulls,
        };
        let (look, files) = (Arc::new(look), Arc::new(files));
        let shared = Arc::clone(&files);
        let work = move |group: usize| -> Result<Vec<Option<IdSchema>>> {
            shared.iter().skip(group * FILES_AT_ONCE).take(FILES_AT_ONCE).map(|path| look.file(path)).collect()
        };
        let mut known = self.expected;
        let mut number = 0;
        for found in run_until_error(groups, self.threads.max(1), cancel, work)? {
            for found in found?? {
                let path = files.get(number).map(String::as_str).unwrap_or_default();
                number += 1;
                let Some(found) = found else { continue };
                if let Some((expected, place)) = &known {
                    agree(&columns, expected, place, &found, path)?;
                } else {
                    known = Some((found, format!("`{path}`")));
                }
            }
        }
        Ok(known.map(|(schema, _place)| schema))
    }
}

fn agree(columns: &[String], expected: &IdSchema, place: &str, found: &IdSchema, path: &str) -> Result<()> {
    let of = |schema: &IdSchema, name: &str| schema.columns().iter().find(|column| column.name == name).map(|column| column.id_type.clone());
    for column in columns {
        if let (Some(expected), Some(found)) = (of(expected, column), of(found, column))
            && expected != found
        {
            let (column, path, elsewhere) = (column.clone(), path.to_owned(), place.to_owned());
            return Err(Error::FileTypes { column, path, found: Box::new(found), expected: Box::new(expected), elsewhere });
        }
    }
    Ok(())
}

/// Checks that the ids of open files have one type, whatever their width.
///
/// # Errors
/// As [`FooterCheck::run`].
pub fn check_types(columns: &[String], tables: &[Arc<dyn TableFile>]) -> Result<()> {
    let mut known: Option<(IdSchema, String)> = None;
    for table in tables.iter().filter(|table| table.blocks().iter().any(|block| block.rows > 0)) {
        let Some(found) = id_schema(columns, table.schema()).map_err(|error| error.in_file(table.path()))? else { continue };
        match &known {
            Some((expected, place)) => agree(columns, expected, place, &found, table.path())?,
            None => known = Some((found, format!("`{}`", table.path()))),
        }
    }
    Ok(())
}

fn id_schema(columns: &[String], schema: &Schema) -> Result<Option<IdSchema>> {
    let is_all_null = |column: &&String| schema.field_with_name(column).is_ok_and(|field| field.data_type() == &DataType::Null);
    // An all-null column has no type; whether nulls are allowed is checked separately.
    let typed: Vec<String> = columns.iter().filter(|column| !is_all_null(column)).cloned().collect();
    if typed.is_empty() && !columns.is_empty() {
        return Ok(None);
    }
    IdSchema::of(schema, &typed).map(Some)
}

struct Look {
    opener: FileOpener,
    columns: Vec<String>,
    allows_nulls: bool,
}

impl Look {
    /// The id types of one file; `None` if it has no rows, because its types are then arbitrary.
    fn file(&self, path: &str) -> Result<Option<IdSchema>> {
        let table = self.opener.open(store_of(path)?.open(path)?)?;
        if table.blocks().iter().all(|block| block.rows == 0) {
            return Ok(None);
        }
        let schema = id_schema(&self.columns, table.schema()).map_err(|error| error.in_file(path))?;
        if !self.allows_nulls {
            self.columns.iter().try_for_each(|column| check_nulls(table.as_ref(), column))?;
        }
        Ok(schema)
    }
}

fn check_nulls(table: &dyn TableFile, name: &str) -> Result<()> {
    let Ok(column) = table.schema().index_of(name) else { return Ok(()) };
    let is_all_null = table.schema().field(column).data_type() == &DataType::Null;
    let statistics = table.statistics(column);
    let mut first_row = 0;
    for (block, about) in table.blocks().iter().enumerate().filter(|(_, about)| about.rows > 0) {
        if (is_all_null || statistics.as_ref().is_some_and(|statistics| may_have_nulls(statistics, block)))
            && let Some(row) = first_null(table, block, column)?
        {
            return Err(Error::NullId { column: name.to_owned(), path: table.path().to_owned(), row: first_row + row });
        }
        first_row += about.rows;
    }
    Ok(())
}

/// A block that is a part of a row group with nulls has bounds but no null count.
fn may_have_nulls(statistics: &Statistics, block: usize) -> bool {
    match statistics.null_counts.get(block) {
        Some(Some(nulls)) => *nulls > 0,
        Some(None) => block < statistics.min.len() && statistics.min.is_valid(block),
        None => false,
    }
}

fn first_null(table: &dyn TableFile, block: usize, column: usize) -> Result<Option<u64>> {
    let batch = table.read(block, &[column], None)?;
    let nulls = batch.columns().first().and_then(Array::logical_nulls);
    Ok(nulls.and_then(|nulls| nulls.iter().position(|is_valid| !is_valid)).map(|row| row as u64))
}
