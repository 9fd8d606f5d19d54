//! Reads interleaved Parquet files with bounded memory.
//!
//! Image bytes stay views into the decoded pages. The invariant: a document that spans two record
//! batches is assembled before it is passed on.

use crate::ledger::Quarantined;
use crate::locate::{is_of_run, may_input_open_later};
use crate::schema::{JobSchema, RESCUED, is_json_field, is_reserved};
use crate::source::conform::JobReader;
use crate::source::layout::{DocumentKeys, Layout};
use crate::source::located_rows::Located;
use crate::source::parquet_records::{FileRecords, has_parts, own_columns};
use crate::source::record_options::RecordOptions;
use crate::source::{Emit, SplitContext};
use crate::table::{batch_of, cast_checked, from_table};
use crate::{Error, Lineage, Result, counted};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, UInt64Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use arrow_select::concat::concat_batches;
use arrow_select::take::take;
use shardmill_formats::parquet::{Error as ParquetError, ParquetFile};
use shardmill_formats::table::TableError;
use shardmill_plan::Split;
use shardmill_storage::{AnyStore, Spool, Store};
use std::collections::HashSet;
use std::sync::Arc;

/// Reads one split and emits its chunks, at least one.
///
/// # Errors
/// Errors of `emit`, cancellation, a store that does not respond, [`Error::NoLayout`],
/// and [`Error::File`] for a value that does not fit its column's type. Damaged files
/// are quarantined instead.
pub fn read_parquet(
    split: &Split,
    options: &RecordOptions,
    job: JobSchema<'_>,
    context: &mut SplitContext<'_>,
    emit: Emit<'_>,
) -> Result<()> {
    let files = open_files(split, options, context)?;
    let reader = JobReader::new(job, options.fields.as_deref());
    let here: HashSet<&str> = files
        .iter()
        .flat_map(|file| file.columns.fields())
        .map(|field| field.name().as_str())
        .collect();
    let is_missing = |name: &&String| {
        !is_reserved(name) && *name != RESCUED && !here.contains(name.as_str()) && !files.is_empty()
    };
    for name in options.fields.iter().flatten().filter(is_missing) {
        context
            .ledger
            .warn(format!("column `{name}` (fields) is in no file of a split, and is null there"));
    }
    for field in
        job.agreed.fields().iter().filter(|field| is_json_field(field) && field.name() != RESCUED)
    {
        let is_typed = |file: &Opened| {
            file.columns
                .field_with_name(field.name())
                .is_ok_and(|own| !is_json_field(own) && !own.data_type().is_null())
        };
        if files.iter().any(is_typed) {
            context.ledger.warn(format!(
                "column `{}` has types without a common type; its cells became JSON text",
                field.name()
            ));
        }
    }
    let is_left_out = |field: &&Arc<Field>| {
        here.contains(field.name().as_str()) && reader.target.field_with_name(field.name()).is_err()
    };
    for field in
        job.agreed.fields().iter().filter(is_left_out).filter(|field| field.name() != RESCUED)
    {
        context.ledger.drop_key(format!("column `{}` is not in the schema", field.name()));
    }
    let located = Located::new(split, options, context);
    let mut reader = Reader { split, keys: &options.keys, reader, located };
    for file in &files {
        match &file.layout {
            None => reader.read_file(file, context, emit)?,
            Some(layout) => reader.read_records(file, layout, context, emit)?,
        }
    }
    reader.finish(context, emit)
}

/// A file of a split.
struct Opened {
    number: usize,
    file: ParquetFile,
    /// If each row is a document.
    layout: Option<Layout>,
    /// The columns of the documents.
    columns: SchemaRef,
}

fn open_files(
    split: &Split,
    options: &RecordOptions,
    context: &mut SplitContext<'_>,
) -> Result<Vec<Opened>> {
    let mut files = Vec::new();
    for (number, input) in split.files.iter().enumerate() {
        context.cancel.check()?;
        let opened = AnyStore.open(&input.path).and_then(Spool::over).map_err(TableError::from);
        // The footer may be the first thing that is asked of the store.
        match opened.and_then(|object| Ok(ParquetFile::open(object)?.with_limit(options.limit()))) {
            Ok(file) => match columns_of(file.schema(), &options.keys, &input.path)? {
                Ok((columns, layout)) => files.push(Opened { number, file, layout, columns }),
                Err(problem) => context.quarantine(Quarantined::shard(&input.path, problem))?,
            },
            Err(TableError::Storage(error)) if may_input_open_later(&error) => {
                return Err(error.into());
            }
            Err(error) => context.quarantine(Quarantined::shard(&input.path, error.to_string()))?,
        }
    }
    Ok(files)
}

/// The columns that the documents of a file have, and its layout if each row is a document; or what
/// is wrong with it.
///
/// # Errors
/// [`Error::NoLayout`].
pub(super) fn columns_of(
    schema: &SchemaRef,
    keys: &DocumentKeys,
    path: &str,
) -> Result<std::result::Result<(SchemaRef, Option<Layout>), String>> {
    let layout = if has_parts(schema) { None } else { Layout::of_schema(keys, schema) };
    Ok(match layout {
        Some(layout) => match name_problem(schema) {
            None => Ok((Arc::new(own_columns(schema, &layout, keys)), Some(layout))),
            Some(problem) => Err(problem),
        },
        None if schema.field_with_name("sample_id").is_err() => {
            let there = schema.fields().iter().map(|field| field.name());
            return Err(Error::no_layout(path, there));
        }
        None => column_problem(schema).map_or(Ok((Arc::clone(schema), None)), Err),
    })
}

/// What is wrong with an open file.
///
/// # Errors
/// A failure of the store or of a disk, which says nothing about the file.
fn damage(error: ParquetError) -> Result<String> {
    match TableError::from(error) {
        TableError::Storage(error) if is_of_run(&error) => Err(error.into()),
        error => Ok(error.to_string()),
    }
}

/// Why rows with this schema are not interleaved rows.
pub(super) fn column_problem(schema: &Schema) -> Option<String> {
    if let Some(missing) =
        ["position", "modality"].iter().find(|name| schema.field_with_name(name).is_err())
    {
        return Some(format!("column `{missing}` is missing"));
    }
    name_problem(schema)
}

fn name_problem(schema: &Schema) -> Option<String> {
    if let Some(field) = schema.fields().iter().find(|field| shardmill_plan::schema::has_nul(field))
    {
        return Some(format!("the name of column {:?} holds the character NUL", field.name()));
    }
    let mut names = HashSet::new();
    let repeated = schema.fields().iter().find(|field| !names.insert(field.name()))?;
    Some(format!("column `{}` occurs twice", repeated.name()))
}

/// Assembles documents that span several record batches, and divides them into chunks.
struct Reader<'a> {
    split: &'a Split,
    keys: &'a DocumentKeys,
    reader: JobReader<'a>,
    located: Located<'a>,
}

impl Reader<'_> {
    fn path(&self, file: usize) -> &str {
        self.split.files.get(file).map_or("", |file| file.path.as_str())
    }

    fn read_file(
        &mut self,
        Opened { number, file, .. }: &Opened,
        context: &mut SplitContext<'_>,
        emit: Emit<'_>,
    ) -> Result<()> {
        let number = *number;
        let path = self.path(number).to_owned();
        let in_file = |error: Error| Error::File { path: path.clone(), source: Box::new(error) };
        let names = self.reader.names(file.schema());
        let batches = match file.batches(&names, Some("binary_content"), self.located.limit / 4) {
            Ok(batches) => batches,
            Err(error) => return context.quarantine(Quarantined::shard(&path, damage(error)?)),
        };
        let mut pending: Vec<RecordBatch> = Vec::new();
        let (mut pending_bytes, mut enough) = (0, self.located.limit);
        for batch in batches {
            context.cancel.check()?;
            let batch = match batch {
                Ok(batch) => batch,
                Err(error) => {
                    context.quarantine(Quarantined::shard(&path, damage(error)?))?;
                    // The last document may continue in the lost rows.
                    let (complete, cut) = split_last_document(&pending)?;
                    if let Some(cut) = cut {
                        let (cut, left_out) =
                            from_table(&cut, &path, Lineage::default()).map_err(in_file)?;
                        context.ledger.input.add(&cut);
                        context.ledger.input.add_counts(&left_out.counts);
                        context.ledger.drop_rows(
                            "document cut by a damaged file",
                            (cut.rows.len() + left_out.rows.len()) as u64,
                        );
                    }
                    pending = complete.into_iter().collect();
                    break;
                }
            };
            pending_bytes += batch_bytes(&batch);
            pending.push(self.reader.conform(&batch, context.ledger).map_err(in_file)?);
            if pending_bytes >= enough {
                let (complete, rest) = split_last_document(&pending)?;
                if let Some(complete) = complete {
                    self.emit_rows(&complete, number, context, emit)?;
                }
                pending = rest.into_iter().collect();
                pending_bytes = pending.iter().map(batch_bytes).sum();
                // Avoids searching the end of a document beyond the limit again for each batch.
                enough = self.located.limit.max(pending_bytes.saturating_mul(2));
            }
        }
        if let Some(first) = pending.first() {
            let rest = concat_batches(&first.schema(), &pending)
                .map_err(Error::unfit("table", "one schema"))?;
            self.emit_rows(&rest, number, context, emit)?;
        }
        Ok(())
    }

    /// Reads a file of which each row is a document.
    fn read_records(
        &mut self,
        Opened { number, file, columns, .. }: &Opened,
        layout: &Layout,
        context: &mut SplitContext<'_>,
        emit: Emit<'_>,
    ) -> Result<()> {
        let path = self.path(*number).to_owned();
        let in_file = |error: Error| Error::File { path: path.clone(), source: Box::new(error) };
        let (keys, reader) = (self.keys, &self.reader);
        let records = FileRecords { layout, keys, path: &path, reader, columns };
        records.count_dropped(file.schema(), context);
        let names = records.names();
        let batches = match file.batches(&names, None, self.located.limit / 4) {
            Ok(batches) => batches,
            Err(error) => return context.quarantine(Quarantined::shard(&path, damage(error)?)),
        };
        let mut first = 0;
        for batch in batches {
            context.cancel.check()?;
            let batch = match batch {
                Ok(batch) => batch,
                Err(error) => {
                    return context.quarantine(Quarantined::shard(&path, damage(error)?));
                }
            };
            let chunk = records.chunk(&batch, first, context).map_err(|error| match error {
                Error::Cast { .. } => in_file(error),
                error => error,
            })?;
            first += batch.num_rows() as u64;
            if !chunk.documents.is_empty() {
                self.located.push(*number, chunk, context, emit)?;
            }
        }
        Ok(())
    }

    fn emit_rows(
        &mut self,
        rows: &RecordBatch,
        number: usize,
        context: &mut SplitContext<'_>,
        emit: Emit<'_>,
    ) -> Result<()> {
        let path = self.path(number).to_owned();
        let in_file = |error: Error| Error::File { path: path.clone(), source: Box::new(error) };
        let (mut chunk, left_out) = from_table(rows, &path, Lineage::default()).map_err(in_file)?;
        chunk.schema = Arc::clone(&self.reader.target);
        if !left_out.rows.is_empty() {
            let reason = format!(
                "{} without sample_id, position or modality",
                counted(left_out.rows.len() as u64, "row")
            );
            context.ledger.input.add_counts(&left_out.counts);
            context
                .ledger
                .drop_rows("null sample_id, position or modality", left_out.rows.len() as u64);
            context.quarantine(Quarantined::part(&path, reason))?;
        }
        self.located.push(number, chunk, context, emit)
    }

    fn finish(self, context: &mut SplitContext<'_>, emit: Emit<'_>) -> Result<()> {
        let empty = RecordBatch::new_empty(Arc::clone(&self.reader.columns));
        let (mut empty, _) = from_table(&empty, "", Lineage::default())?;
        empty.schema = Arc::clone(&self.reader.target);
        self.located.batcher.finish(empty, context, emit)
    }
}

fn batch_bytes(batch: &RecordBatch) -> u64 {
    let mut bytes = 0u64;
    for column in batch.columns() {
        bytes += match column.data_type() {
            DataType::BinaryView => column.as_binary_view().lengths().map(u64::from).sum(),
            _ => column.get_array_memory_size() as u64,
        };
    }
    bytes
}

/// Splits off the last document, which may continue in the next batch.
fn split_last_document(
    pending: &[RecordBatch],
) -> Result<(Option<RecordBatch>, Option<RecordBatch>)> {
    let Some(first) = pending.first() else { return Ok((None, None)) };
    let rows =
        concat_batches(&first.schema(), pending).map_err(Error::unfit("table", "one schema"))?;
    let column = |name: &str| {
        rows.column_by_name(name)
            .map(|column| cast_checked(name, column, &DataType::LargeUtf8))
            .transpose()
    };
    let (Some(ids), Some(modalities)) = (column("sample_id")?, column("modality")?) else {
        return Ok((Some(rows), None));
    };
    let (ids, modalities) = (ids.as_string::<i64>(), modalities.as_string::<i64>());
    let mut start = rows.num_rows().saturating_sub(1);
    while start > 0 {
        let starts_here = modalities.is_valid(start) && modalities.value(start) == "metadata";
        let differs = ids.is_valid(start) != ids.is_valid(start - 1)
            || ids.is_valid(start) && ids.value(start) != ids.value(start - 1);
        if starts_here || differs {
            break;
        }
        start -= 1;
    }
    if start == 0 {
        return Ok((None, Some(rows)));
    }
    let rest = compact(&rows.slice(start, rows.num_rows() - start))?;
    Ok((Some(rows.slice(0, start)), Some(rest)))
}

/// Views and slices keep all of their original memory alive; the carried-over rows must not.
fn compact(rows: &RecordBatch) -> Result<RecordBatch> {
    let all: UInt64Array = (0..rows.num_rows() as u64).collect();
    let columns = rows.columns().iter().map(|column| match column.data_type() {
        DataType::BinaryView => Ok(Arc::new(column.as_binary_view().gc()) as ArrayRef),
        _ => take(column, &all, None).map_err(Error::unfit("table", "one schema")),
    });
    batch_of(rows.schema(), columns.collect::<Result<_>>()?, rows.num_rows())
        .map_err(Error::unfit("table", "one schema"))
}
