//! A chunk as an Arrow table and back, for Parquet files and for stages written in Python.

use crate::chunk::{Chunk, Lineage, Modality, Row};
use crate::payload::Payload;
use crate::report::Counts;
use crate::schema::{is_json_field, is_reserved, reconciled};
use crate::{Error, Result};
use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, BinaryViewArray, Int32Array, LargeStringArray, RecordBatch, RecordBatchOptions, StringArray, UInt32Array, new_null_array,
};
use arrow_buffer::Buffer;
use arrow_cast::{CastOptions, cast_with_options, display::FormatOptions};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use arrow_select::take::take;
use bytes::Bytes;
use std::sync::Arc;

const CHECKED: CastOptions<'static> = CastOptions { safe: false, format_options: FormatOptions::new() };

/// Casts a column, refusing what does not fit.
///
/// # Errors
/// [`Error::Cast`].
pub fn cast_checked(name: &str, array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    if array.data_type() == to {
        return Ok(Arc::clone(array));
    }
    let failed = |source| Error::Cast { column: name.to_owned(), data_type: to.to_string(), source };
    let cast = cast_with_options(array, to, &CHECKED).map_err(failed)?;
    if may_round(array.data_type(), to) {
        let back = cast_with_options(&cast, array.data_type(), &CHECKED).map_err(failed)?;
        if back.to_data() != array.to_data() {
            return Err(failed(ArrowError::CastError(format!("values of type {} would be rounded", array.data_type()))));
        }
    }
    Ok(cast)
}

/// Casts between these may change a value without an error of their own.
fn may_round(from: &DataType, to: &DataType) -> bool {
    let is_number = |data_type: &DataType| data_type.is_numeric();
    match (from, to) {
        _ if from.is_integer() && to.is_integer() => false,
        _ if from.is_floating() && to.is_floating() => false,
        _ if is_number(from) && is_number(to) => true,
        _ => from.is_temporal() && to.is_temporal(),
    }
}

/// `chunk` as a table of its schema; `binary` is the image column.
///
/// # Errors
/// [`Error::Cast`] when a value does not fit the type that the schema asks for.
pub fn to_table(chunk: &Chunk, binary: &ArrayRef) -> Result<RecordBatch> {
    let takes: UInt32Array = chunk.rows.iter().map(|row| row.extra).collect();
    let columns = chunk.schema.fields().iter().map(|field| {
        let column = match field.name().as_str() {
            "position" => Arc::new(chunk.rows.iter().map(|row| Some(row.position)).collect::<Int32Array>()),
            "binary_content" => Arc::clone(binary),
            name if is_reserved(name) => reserved_text(chunk, name),
            name => match chunk.extras.column_by_name(name) {
                Some(values) => take(values, &takes, None).map_err(|source| cast_error(field, source))?,
                None => new_null_array(field.data_type(), chunk.rows.len()),
            },
        };
        cast_checked(field.name(), &column, field.data_type())
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(chunk.rows.len()));
    RecordBatch::try_new_with_options(Arc::clone(&chunk.schema), columns, &options).map_err(|source| Error::Cast {
        column: "table".to_owned(),
        data_type: "its schema".to_owned(),
        source,
    })
}

fn cast_error(field: &Field, source: ArrowError) -> Error {
    Error::Cast { column: field.name().clone(), data_type: field.data_type().to_string(), source }
}

fn reserved_text(chunk: &Chunk, name: &str) -> ArrayRef {
    Arc::new(match name {
        "sample_id" => chunk.rows.iter().map(|row| Some(chunk.id_of(row))).collect::<StringArray>(),
        "modality" => chunk.rows.iter().map(|row| Some(row.modality.name())).collect(),
        "content_type" => chunk.rows.iter().map(|row| row.content_type.as_deref()).collect(),
        "text_content" => chunk.rows.iter().map(|row| row.text.as_deref()).collect(),
        "source_ref" => chunk.rows.iter().map(|row| row.source_ref.as_deref()).collect(),
        _ => chunk.rows.iter().map(|row| row.error.as_deref()).collect(),
    })
}

/// Rows that were left out because they have no id, no position or no modality.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    pub rows: Vec<usize>,
    pub counts: Counts,
}

/// A table of interleaved rows as a chunk. Image bytes are shared with the table, not copied.
///
/// A document is a run of rows of equal `sample_id`; a metadata row after the first row starts a new one.
///
/// # Errors
/// [`Error::NoSampleId`] and [`Error::Cast`], e.g. for a position beyond 32 bits.
pub fn from_table(table: &RecordBatch, path: &str, lineage: Lineage) -> Result<(Chunk, LeftOut)> {
    let strings = |name: &str| -> Result<Option<LargeStringArray>> {
        let Some(column) = table.column_by_name(name) else { return Ok(None) };
        Ok(Some(cast_checked(name, column, &DataType::LargeUtf8)?.as_string::<i64>().clone()))
    };
    let missing = || Error::NoSampleId { path: path.to_owned() };
    let ids = strings("sample_id")?.ok_or_else(missing)?;
    let modalities = strings("modality")?;
    let positions = table.column_by_name("position").map(|column| cast_checked("position", column, &DataType::Int32)).transpose()?;
    let [content_types, texts, refs, errors] = ["content_type", "text_content", "source_ref", "materialize_error"].map(strings);
    let (content_types, texts, refs, errors) = (content_types?, texts?, refs?, errors?);
    let binaries = table.column_by_name("binary_content").map(views).transpose()?;

    let cell = |column: &Option<LargeStringArray>, row: usize| {
        column.as_ref().filter(|column| column.is_valid(row)).map(|column| column.value(row).to_owned())
    };
    let mut documents: Vec<String> = Vec::new();
    let mut rows: Vec<Row> = Vec::with_capacity(table.num_rows());
    let mut left_out = LeftOut::default();
    // The id of the row above; a document ends where it changes, also for rows that are left out.
    let mut above = None;
    for index in 0..table.num_rows() {
        let modality = modalities.as_ref().filter(|column| column.is_valid(index)).map(|column| Modality::new(column.value(index)));
        let id = ids.is_valid(index).then(|| ids.value(index));
        let continues = above == id && modality != Some(Modality::Metadata);
        above = id;
        if let (Some(id), false) = (id, continues) {
            documents.push(id.to_owned());
        }
        let position = positions.as_ref().and_then(|column| {
            let column = column.as_primitive::<arrow_array::types::Int32Type>();
            column.is_valid(index).then(|| column.value(index))
        });
        let (Some(_), Some(modality), Some(position)) = (id, &modality, position) else {
            left_out.rows.push(index);
            left_out.counts.add_row(modality.as_ref().unwrap_or(&Modality::Other(Box::default())));
            continue;
        };
        rows.push(Row {
            document: documents.len() - 1,
            position,
            modality: modality.clone(),
            content_type: cell(&content_types, index),
            text: cell(&texts, index),
            payload: binaries.as_ref().map_or(Payload::Absent, |column| shared_bytes(column, index)),
            source_ref: cell(&refs, index),
            error: cell(&errors, index),
            extra: u32::try_from(index).ok(),
        });
    }
    let schema = reconciled(&table.schema());
    let extras = passthrough(table, &schema)?;
    let mut chunk = Chunk { documents, rows, extras, schema, lineage };
    let all = vec![true; chunk.rows.len()];
    chunk.retain(&all);
    Ok((chunk, left_out))
}

fn passthrough(table: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let fields: Vec<_> = schema.fields().iter().filter(|field| !is_reserved(field.name())).cloned().collect();
    let columns = fields.iter().map(|field| match table.column_by_name(field.name()) {
        Some(column) => cast_checked(field.name(), column, field.data_type()),
        None => Ok(new_null_array(field.data_type(), table.num_rows())),
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(table.num_rows()));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options).map_err(|source| Error::Cast {
        column: "passthrough columns".to_owned(),
        data_type: "their schema".to_owned(),
        source,
    })
}

fn views(column: &ArrayRef) -> Result<BinaryViewArray> {
    Ok(cast_checked("binary_content", column, &DataType::BinaryView)?.as_binary_view().clone())
}

/// Lets [`Bytes`] hold on to Arrow memory.
struct Shared(Buffer);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        self.0.as_slice()
    }
}

fn shared_bytes(column: &BinaryViewArray, row: usize) -> Payload {
    /// Values up to this length live inside the view itself (Arrow columnar format, variable-size binary view layout).
    const INLINE_LEN: usize = 12;
    if column.is_null(row) {
        return Payload::Absent;
    }
    let value = column.value(row);
    if value.len() > INLINE_LEN {
        let view = column.views().get(row).copied().map(arrow_data::ByteView::from);
        let buffer = view.and_then(|view| Some((column.data_buffers().get(view.buffer_index as usize)?, view.offset as usize)));
        if let Some((buffer, offset)) = buffer {
            return Payload::Memory(Bytes::from_owner(Shared(buffer.slice_with_length(offset, value.len()))));
        }
    }
    Payload::Memory(Bytes::copy_from_slice(value))
}

/// The passthrough fields of `schema` whose cells are JSON text.
pub fn json_columns(schema: &Schema) -> impl Iterator<Item = &str> {
    schema.fields().iter().filter(|field| is_json_field(field)).map(|field| field.name().as_str())
}
