//! The schema of a job over interleaved Parquet files.
//!
//! Decided from the footers of all files before the first split is read. The invariant: it does not
//! depend on how files are divided into splits. Files that cannot be opened do not take part; the
//! run quarantines them.

use super::layout::Layout;
use super::parquet::columns_of;
use super::record_options::RecordOptions;
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
use shardmill_storage::{AnyStore, Store};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Maximal number of columns in a message.
const SHOWN_COLUMNS: usize = 12;

/// What decides the schema, apart from the files.
pub struct SchemaOf<'a> {
    pub options: &'a RecordOptions,
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
        let (count, keys) = (paths.len(), self.options.keys.clone());
        let table = move |number: usize| {
            let table = paths.get(number).and_then(|path| opened(path, limit)).and_then(|table| {
                let found = columns_of(table.declared_schema(), &keys, table.path()).ok()?;
                found.ok().map(|(columns, layout)| (table, columns, layout))
            });
            ControlFlow::Continue(table)
        };
        let found = run_in_order(count, threads, cancel, table)?
            .collect::<std::result::Result<Vec<_>, _>>()?;
        let (mut tables, mut columns, mut of_parts) = (Vec::new(), Vec::new(), Vec::new());
        for (table, own, layout) in found.into_iter().flatten() {
            tables.push(table);
            columns.push(own);
            of_parts.extend(layout.iter().flat_map(Layout::of_parts));
        }
        self.check_names(&tables, &columns)?;
        let is_of_part = |name: &String| {
            self.options.keys.per_image_fields.contains(name)
                || of_parts.iter().any(|field| field.name() == name)
        };
        let schemas: Vec<SchemaRef> = columns
            .iter()
            .map(|columns| reconciled_but_nulls(&self.selected(columns, is_of_part)))
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

    fn check_names(&self, tables: &[ParquetTable], files: &[SchemaRef]) -> Result<()> {
        let has = |name: &&String| {
            tables.iter().any(|table| table.declared_schema().field_with_name(name).is_ok())
        };
        let fields = || files.iter().flat_map(|columns| columns.fields());
        if let Some(column) = self.options.keys.named().find(|name| !has(name))
            && !tables.is_empty()
        {
            let there = tables.iter().flat_map(|table| table.declared_schema().fields());
            return Err(absent("keys", column, there));
        }
        let own = self
            .options
            .fields
            .iter()
            .flatten()
            .filter(|name| !is_reserved(name) && *name != RESCUED);
        let mut wanted = own
            .map(|name| ("fields", name))
            .chain(self.filtered.iter().map(|name| ("expression", name)));
        match wanted.find(|(_, name)| fields().all(|field| field.name() != *name)) {
            Some((option, column)) if !files.is_empty() => Err(absent(option, column, fields())),
            _ => Ok(()),
        }
    }

    /// The reserved columns, those of parts, and the requested passthrough columns.
    fn selected(&self, schema: &Schema, is_of_part: impl Fn(&String) -> bool) -> Schema {
        let is_wanted = |field: &&Arc<Field>| {
            is_reserved(field.name())
                || is_of_part(field.name())
                || self.options.is_selected(field.name())
        };
        Schema::new(schema.fields().iter().filter(is_wanted).cloned().collect::<Vec<_>>())
    }
}

fn absent<'a>(
    option: &'static str,
    column: &str,
    there: impl Iterator<Item = &'a FieldRef>,
) -> Error {
    let names = there.map(|field| field.name());
    let names = names.filter(|name| !is_reserved(name) && *name != RESCUED);
    let there: BTreeSet<String> = names.map(|name| format!("`{}`", name.escape_debug())).collect();
    let shown: Vec<String> = there.into_iter().take(SHOWN_COLUMNS).collect();
    let there = if shown.is_empty() { "the reserved ones".to_owned() } else { shown.join(", ") };
    Error::AbsentColumn { option, column: column.to_owned(), there }
}

fn opened(path: &str, limit: DecodeLimit) -> Option<ParquetTable> {
    let object = AnyStore.open(path).ok()?;
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
