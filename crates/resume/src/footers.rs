//! Checks the ids of files from their footers, before a row is read.
//!
//! Returns the common [`IdSchema`] of the files. Called before a job commits anything. The
//! invariant: a file that passes has every id column, of a type that identifies rows and that all
//! other files share; with [`FooterCheck::allows_nulls`] unset, no block has a null id according to
//! its statistics. Formats without a footer pass: their ids are checked when they are read.

use crate::index::IndexSource;
use crate::keys::IdSchema;
use crate::{Error, Result};
use arrow_array::Array;
use arrow_schema::{DataType, Schema};
use shardmill_engine::Cancel;
use shardmill_formats::table::{Statistics, TableFile};
use shardmill_load::{DatasetOptions, Format, open_files};
use std::sync::Arc;

/// What to check.
#[derive(Debug, Clone, Default)]
pub struct FooterCheck {
    /// The columns of an id.
    pub columns: Vec<String>,
    pub allows_nulls: bool,
}

/// Types of ids, and a name for their origin in messages.
pub type KnownTypes = (IdSchema, String);

impl FooterCheck {
    /// The id types of open files, which must be the expected ones; `None` if no footer states
    /// them, because no file has rows or the format has no footer.
    ///
    /// # Errors
    /// [`Error::InFile`] around [`Error::MissingColumn`] or [`Error::UnsupportedType`];
    /// [`Error::FileTypes`]; [`Error::NullId`].
    pub fn run(
        &self,
        format: Format,
        tables: &[Arc<dyn TableFile>],
        expected: Option<&KnownTypes>,
    ) -> Result<Option<KnownTypes>> {
        let mut known = expected.cloned();
        if self.columns.is_empty()
            || matches!(format, Format::Csv | Format::Jsonl | Format::WebDataset)
        {
            return Ok(None);
        }
        // The types of a file without rows are arbitrary.
        for table in tables.iter().filter(|table| table.blocks().iter().any(|block| block.rows > 0))
        {
            let found =
                self.id_schema(table.schema()).map_err(|error| error.in_file(table.path()))?;
            if !self.allows_nulls {
                self.columns.iter().try_for_each(|column| check_nulls(table.as_ref(), column))?;
            }
            let Some(found) = found.map(|found| (found, format!("`{}`", table.path()))) else {
                continue;
            };
            match &known {
                Some(expected) => self.agree(expected, &found.0, table.path())?,
                None => known = Some(found),
            }
        }
        Ok(known)
    }

    /// As [`FooterCheck::run`], for files that are not open yet.
    ///
    /// # Errors
    /// As [`FooterCheck::run`], when a footer cannot be read, and when cancelled.
    pub fn of_files(
        &self,
        source: &IndexSource,
        threads: usize,
        cancel: &Cancel,
    ) -> Result<Option<KnownTypes>> {
        let (Some(format), files) = source.files()? else { return Ok(None) };
        if matches!(format, Format::Csv | Format::Jsonl | Format::WebDataset) {
            return Ok(None);
        }
        let options =
            DatasetOptions { threads, ..DatasetOptions::new(source.paths.clone(), Some(format)) };
        self.run(format, &open_files(format, &files, &options, cancel)?, None)
    }

    /// Compares the types of a file with those of others.
    ///
    /// # Errors
    /// [`Error::FileTypes`].
    pub fn agree(&self, expected: &KnownTypes, found: &IdSchema, path: &str) -> Result<()> {
        let of = |schema: &IdSchema, name: &str| {
            schema
                .columns()
                .iter()
                .find(|column| column.name == name)
                .map(|column| column.id_type.clone())
        };
        let (expected, elsewhere) = expected;
        for column in &self.columns {
            if let (Some(expected), Some(found)) = (of(expected, column), of(found, column))
                && expected != found
            {
                let (column, path, elsewhere) =
                    (column.clone(), path.to_owned(), elsewhere.clone());
                return Err(Error::FileTypes {
                    column,
                    path,
                    found: Box::new(found),
                    expected: Box::new(expected),
                    elsewhere,
                });
            }
        }
        Ok(())
    }

    fn id_schema(&self, schema: &Schema) -> Result<Option<IdSchema>> {
        let is_all_null = |column: &&String| {
            schema.field_with_name(column).is_ok_and(|field| field.data_type() == &DataType::Null)
        };
        // An all-null column has no type; whether nulls are allowed is checked separately.
        let typed: Vec<String> =
            self.columns.iter().filter(|column| !is_all_null(column)).cloned().collect();
        if typed.is_empty() {
            return Ok(None);
        }
        IdSchema::of(schema, &typed).map(Some)
    }
}

fn check_nulls(table: &dyn TableFile, name: &str) -> Result<()> {
    let Ok(column) = table.schema().index_of(name) else { return Ok(()) };
    let is_all_null = table.schema().field(column).data_type() == &DataType::Null;
    let statistics = table.statistics(column);
    let mut first_row = 0;
    for (block, about) in table.blocks().iter().enumerate().filter(|(_, about)| about.rows > 0) {
        if (is_all_null
            || statistics.as_ref().is_some_and(|statistics| may_have_nulls(statistics, block)))
            && let Some(row) = first_null(table, block, column)?
        {
            return Err(Error::NullId {
                column: name.to_owned(),
                path: table.path().to_owned(),
                row: first_row + row,
            });
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
