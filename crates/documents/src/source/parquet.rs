//! Reads interleaved Parquet files with bounded memory.
//!
//! Image bytes stay views into the decoded pages. The invariant: a document that spans two record
//! batches is assembled before it is passed on.

use crate::ledger::Quarantined;
use crate::locate::{LocateError, Locator, is_of_run, may_input_open_later};
use crate::payload::Payload;
use crate::schema::{JobSchema, RESCUED, is_json_field, is_reserved, refuse_reserved};
use crate::source::batches::{Batcher, documents};
use crate::source::conform::JobReader;
use crate::source::{Emit, SplitContext};
use crate::source_ref::SourceRef;
use crate::table::{batch_of, cast_checked, from_table};
use crate::{Error, Lineage, Result, Row, counted};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, UInt64Array};
use arrow_schema::{DataType, Field, Schema};
use arrow_select::concat::concat_batches;
use arrow_select::take::take;
use serde::{Deserialize, Serialize};
use shardmill_formats::limit::{DecodeLimit, TooLarge};
use shardmill_formats::parquet::{Error as ParquetError, ParquetFile};
use shardmill_formats::table::TableError;
use shardmill_plan::Split;
use shardmill_storage::{Spool, store_of};
use std::collections::HashSet;
use std::sync::Arc;

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ParquetOptions {
    /// Passthrough columns; `None` takes all.
    pub fields: Option<Vec<String>>,
    pub max_batch_bytes: Option<u64>,
    /// Memory limit for one page, document or image; the default of the process if `None`.
    #[serde(default)]
    pub max_decoded_bytes: Option<u64>,
}

impl ParquetOptions {
    pub fn limit(&self) -> DecodeLimit {
        self.max_decoded_bytes.map(DecodeLimit::new).unwrap_or_default()
    }

    /// # Errors
    /// [`Error::ReservedFields`], and [`Error::Option`] for a limit of zero.
    pub fn check(&self) -> Result<()> {
        // Reserved columns are always read; naming them is not an error.
        let extras: Vec<String> = self
            .fields
            .iter()
            .flatten()
            .filter(|name| !is_reserved(name) && *name != RESCUED)
            .cloned()
            .collect();
        refuse_reserved(&extras, &[])?;
        match self.max_batch_bytes {
            Some(0) => Err(Error::Option {
                option: "max_batch_bytes",
                problem: "must be positive".to_owned(),
            }),
            _ => Ok(()),
        }
    }
}

/// Reads one split and emits its chunks, at least one.
///
/// # Errors
/// Errors of `emit`, cancellation, a store that does not respond, [`Error::NoSampleId`],
/// and [`Error::File`] for a value that does not fit its column's type. Damaged files
/// are quarantined instead.
pub fn read_parquet(
    split: &Split,
    options: &ParquetOptions,
    job: JobSchema<'_>,
    context: &mut SplitContext<'_>,
    emit: Emit<'_>,
) -> Result<()> {
    let files = open_files(split, options.limit(), context)?;
    let reader = JobReader::new(job, options.fields.as_deref());
    let here: HashSet<&str> = files
        .iter()
        .flat_map(|(_, file)| file.schema().fields())
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
        let is_typed = |(_, file): &(usize, ParquetFile)| {
            file.schema()
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
    let limit =
        options.max_batch_bytes.map_or(context.chunk_bytes, |limit| limit.min(context.chunk_bytes));
    let batcher = Batcher::new(split, options.max_batch_bytes);
    let mut reader =
        Reader { split, reader, limit, batcher, locator: context.locator(options.limit()) };
    for (number, file) in &files {
        reader.read_file(*number, file, context, emit)?;
    }
    reader.finish(context, emit)
}

fn open_files(
    split: &Split,
    limit: DecodeLimit,
    context: &mut SplitContext<'_>,
) -> Result<Vec<(usize, ParquetFile)>> {
    let mut files = Vec::new();
    for (number, input) in split.files.iter().enumerate() {
        context.cancel.check()?;
        let opened = store_of(&input.path)
            .and_then(|store| Spool::over(store.open(&input.path)?))
            .map_err(TableError::from);
        // The footer may be the first thing that is asked of the store.
        match opened.and_then(|object| Ok(ParquetFile::open(object)?.with_limit(limit))) {
            Ok(file) if file.schema().field_with_name("sample_id").is_err() => {
                return Err(Error::NoSampleId { path: input.path.clone() });
            }
            Ok(file) => match column_problem(file.schema()) {
                None => files.push((number, file)),
                Some(problem) => context.quarantine(Quarantined::shard(&input.path, problem))?,
            },
            Err(TableError::Storage(error)) if may_input_open_later(&error) => {
                return Err(error.into());
            }
            Err(error) => context.quarantine(Quarantined::shard(&input.path, error.to_string()))?,
        }
    }
    Ok(files)
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
    reader: JobReader<'a>,
    /// Approximate size of a chunk in bytes.
    limit: u64,
    batcher: Batcher<'a>,
    locator: Locator,
}

impl Reader<'_> {
    fn path(&self, file: usize) -> &str {
        self.split.files.get(file).map_or("", |file| file.path.as_str())
    }

    fn read_file(
        &mut self,
        number: usize,
        file: &ParquetFile,
        context: &mut SplitContext<'_>,
        emit: Emit<'_>,
    ) -> Result<()> {
        let path = self.path(number).to_owned();
        let in_file = |error: Error| Error::File { path: path.clone(), source: Box::new(error) };
        let names = self.reader.names(file.schema());
        let batches = match file.batches(&names, Some("binary_content"), self.limit / 4) {
            Ok(batches) => batches,
            Err(error) => return context.quarantine(Quarantined::shard(&path, damage(error)?)),
        };
        let mut pending: Vec<RecordBatch> = Vec::new();
        let (mut pending_bytes, mut enough) = (0, self.limit);
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
                enough = self.limit.max(pending_bytes.saturating_mul(2));
            }
        }
        if let Some(first) = pending.first() {
            let rest = concat_batches(&first.schema(), &pending)
                .map_err(Error::unfit("table", "one schema"))?;
            self.emit_rows(&rest, number, context, emit)?;
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
        if !context.is_located {
            return self.batcher.push(number, chunk, context, emit);
        }
        // Rows that reference their images are small, but the images may be large: a chunk also
        // ends when they fill it.
        let (mut start, mut bytes) = (0, 0);
        for (document, range) in chunk.document_ranges().into_iter().enumerate() {
            let rows = chunk.rows.get_mut(range).unwrap_or_default();
            locate_missing(rows, &mut self.locator)?;
            bytes += rows.iter().map(Row::byte_size).sum::<u64>();
            if bytes >= self.limit && document + 1 < chunk.documents.len() {
                self.batcher.push(number, documents(&chunk, start..document + 1), context, emit)?;
                (start, bytes) = (document + 1, 0);
            }
        }
        let rest = if start == 0 { chunk } else { documents(&chunk, start..chunk.documents.len()) };
        self.batcher.push(number, rest, context, emit)
    }

    fn finish(self, context: &mut SplitContext<'_>, emit: Emit<'_>) -> Result<()> {
        let empty = RecordBatch::new_empty(Arc::clone(&self.reader.columns));
        let (mut empty, _) = from_table(&empty, "", Lineage::default())?;
        empty.schema = Arc::clone(&self.reader.target);
        self.batcher.finish(empty, context, emit)
    }
}

/// Gives image rows without bytes and error a copy plan from their locator.
///
/// # Errors
/// [`Error::Storage`] when the store or the disk fails, which is not the fault of a row.
pub fn locate_missing(rows: &mut [Row], locator: &mut Locator) -> Result<()> {
    for row in rows {
        let is_missing = row.modality == crate::chunk::Modality::Image
            && row.payload.is_absent()
            && row.error.is_none();
        if !is_missing {
            continue;
        }
        let source = SourceRef::parse(row.source_ref.as_deref())
            .map_err(|error| LocateError::Row(error.to_string()));
        let located = source.and_then(|source| locator.locate(&source));
        match located {
            Ok(located) => match locator.limit.check(
                located.object.path(),
                located.len(),
                "an image has",
                || "where it is located".to_owned(),
            ) {
                Ok(()) => row.payload = Payload::Located(located),
                Err(refusal) => row.error = Some(format!("{refusal}; {}", TooLarge::HINT)),
            },
            Err(LocateError::Row(text)) => row.error = Some(text),
            Err(LocateError::Storage(error)) => return Err(error.into()),
        }
    }
    Ok(())
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
