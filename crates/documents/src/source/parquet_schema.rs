//! The schema of a job over interleaved Parquet files.
//!
//! Decided from the footers of all files before the first split is read. The invariant: it does not
//! depend on how files are divided into splits. Files that cannot be opened do not take part; the
//! run quarantines them.

use super::parquet::{ParquetOptions, column_problem};
use crate::schema::{
    RESCUED, is_json_field, is_reserved, json_field, reconciled, reconciled_but_nulls,
};
use crate::{Error, Result};
use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};
use shardmill_engine::{Cancel, run_in_order};
use shardmill_formats::limit::DecodeLimit;
use shardmill_formats::parquet::ParquetTable;
use shardmill_formats::table::TableFile;
use shardmill_plan::schema::{FileColumns, unify};
use shardmill_plan::{Error as PlanError, InputFile};
use shardmill_storage::store_of;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Maximal number of columns in a message.
const SHOWN_COLUMNS: usize = 12;

/// What decides the schema, apart from the files.
pub struct SchemaOf<'a> {
    pub options: &'a ParquetOptions,
    /// Columns that filters name.
    pub filtered: &'a [String],
}

impl SchemaOf<'_> {
    /// The union of the columns of all files. Types without a common one become JSON text.
    ///
    /// # Errors
    /// [`Error::AbsentColumn`] for a name in the options that no file has, and cancellation.
    pub fn files(&self, files: &[InputFile], threads: usize, cancel: &Cancel) -> Result<SchemaRef> {
        let limit = self.options.limit();
        let paths: Vec<String> = files.iter().map(|file| file.path.clone()).collect();
        let count = paths.len();
        let table = move |number: usize| {
            let table = paths.get(number).and_then(|path| opened(path, limit));
            ControlFlow::Continue(
                table.filter(|table| column_problem(table.declared_schema()).is_none()),
            )
        };
        let found = run_in_order(count, threads, cancel, table)?
            .collect::<std::result::Result<Vec<_>, _>>()?;
        let tables: Vec<ParquetTable> = found.into_iter().flatten().collect();
        self.check_names(&tables)?;
        let schemas: Vec<SchemaRef> = tables
            .iter()
            .map(|table| reconciled_but_nulls(&self.selected(table.declared_schema())))
            .collect();
        let common = unified(&tables, &schemas)?;
        let named = self
            .options
            .fields
            .as_deref()
            .unwrap_or(self.filtered)
            .iter()
            .filter(|name| !is_reserved(name) && *name != RESCUED);
        let absent = named
            .filter(|name| common.field_with_name(name).is_err())
            .map(|name| Arc::new(Field::new(name, DataType::Utf8, true)));
        let fields: Vec<FieldRef> = common.fields().iter().cloned().chain(absent).collect();
        Ok(reconciled(&Schema::new(fields)))
    }

    fn check_names(&self, tables: &[ParquetTable]) -> Result<()> {
        let fields = self
            .options
            .fields
            .iter()
            .flatten()
            .filter(|name| !is_reserved(name) && *name != RESCUED);
        let mut wanted = fields
            .map(|name| ("fields", name))
            .chain(self.filtered.iter().map(|name| ("expression", name)));
        let fields = || tables.iter().flat_map(|table| table.declared_schema().fields());
        match wanted.find(|(_, name)| fields().all(|field| field.name() != *name)) {
            Some((option, column)) if !tables.is_empty() => {
                let names = fields()
                    .map(|field| field.name())
                    .filter(|name| !is_reserved(name) && *name != RESCUED);
                let there: BTreeSet<String> =
                    names.map(|name| format!("`{}`", name.escape_debug())).collect();
                let shown: Vec<String> = there.into_iter().take(SHOWN_COLUMNS).collect();
                let there = if shown.is_empty() {
                    "the reserved ones".to_owned()
                } else {
                    shown.join(", ")
                };
                Err(Error::AbsentColumn { option, column: column.clone(), there })
            }
            _ => Ok(()),
        }
    }

    /// The reserved columns and the requested passthrough columns.
    fn selected(&self, schema: &Schema) -> Schema {
        let is_wanted = |field: &&Arc<Field>| {
            is_reserved(field.name())
                || self.options.fields.as_ref().is_none_or(|fields| fields.contains(field.name()))
        };
        Schema::new(schema.fields().iter().filter(is_wanted).cloned().collect::<Vec<_>>())
    }
}

fn opened(path: &str, limit: DecodeLimit) -> Option<ParquetTable> {
    let object = store_of(path).and_then(|store| store.open(path)).ok()?;
    ParquetTable::open_limited(object, limit).ok()
}

/// The files with the columns that the job reads.
fn files<'a>(
    tables: &'a [ParquetTable],
    schemas: &'a [SchemaRef],
) -> impl Iterator<Item = FileColumns<'a>> {
    tables
        .iter()
        .zip(schemas)
        .map(|(table, schema)| FileColumns { schema, ..FileColumns::of(table) })
}

/// The columns of all files. A column with JSON text in one of them, and one without a common type,
/// has JSON text in all.
fn unified(tables: &[ParquetTable], schemas: &[SchemaRef]) -> Result<SchemaRef> {
    let decides = |file: &FileColumns<'_>, field: &FieldRef| {
        file.has_rows() && !file.has_only_nulls(field.name())
    };
    let mut json = BTreeSet::new();
    for file in files(tables, schemas) {
        let marked = file
            .schema
            .fields()
            .iter()
            .filter(|field| is_json_field(field) && decides(&file, field));
        json.extend(marked.map(|field| field.name().clone()));
    }
    loop {
        let typed = |field: &FieldRef| {
            if json.contains(field.name()) {
                Arc::new(json_field(field.name()))
            } else {
                Arc::clone(field)
            }
        };
        let schemas: Vec<SchemaRef> = schemas
            .iter()
            .map(|schema| {
                Arc::new(Schema::new(schema.fields().iter().map(typed).collect::<Vec<_>>()))
            })
            .collect();
        match unify(&files(tables, &schemas).collect::<Vec<_>>()) {
            Err(PlanError::SchemaConflict { column, .. }) if !json.contains(&column) => {
                json.insert(column)
            }
            unified => return Ok(unified?),
        };
    }
}
