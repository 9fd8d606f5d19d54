//! Converts chunks to Arrow tables and back, for Parquet files and for stages written in Python.

use crate::ledger::Counts;
use crate::payload::Payload;
use crate::schema::{is_json_field, is_reserved, reconciled};
use crate::{Boundaries, Chunk, Error, Lineage, Modality, Result, Row};
use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, BinaryViewArray, Int32Array, LargeStringArray, RecordBatch,
    RecordBatchOptions, StringArray, UInt32Array, new_null_array,
};
use arrow_buffer::Buffer;
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Schema, SchemaRef};
use arrow_select::take::take;
use bytes::Bytes;
use shardmill_formats::jsonl::parsed_json;
use shardmill_formats::table::type_name;
use shardmill_plan::schema::exactly;
use std::sync::Arc;

/// Casts a column, rejecting values that do not fit.
///
/// # Errors
/// [`Error::Cast`].
pub fn cast_checked(name: &str, array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    exactly(array, to).map_err(|misfit| Error::Cast {
        column: name.to_owned(),
        data_type: type_name(to),
        source: misfit.into_arrow(array.data_type(), to),
    })
}

/// As [`cast_checked`]. A column of JSON texts also becomes one of lists and structs.
pub(crate) fn cast_field(own: &Field, array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    if !is_json_field(own) || !to.is_nested() {
        return cast_checked(own.name(), array, to);
    }
    let texts = cast_checked(own.name(), array, &DataType::Utf8)?;
    of_json(own.name(), texts.as_string(), to)
}

/// The lists and structs that JSON texts spell.
pub(crate) fn of_json(name: &str, texts: &StringArray, to: &DataType) -> Result<ArrayRef> {
    let named = type_name(to);
    let refused = |value: &str| {
        ArrowError::CastError(format!("{value} in JSON cannot be converted exactly to {named}"))
    };
    parsed_json(texts.iter(), to, |row| refused(texts.value(row)))
        .unwrap_or_else(|| Err(refused("a value")))
        .map_err(Error::unfit(name, &named))
}

/// The columns of `schema`: matched by name, null where they are missing,
/// and converted without loss.
///
/// # Errors
/// [`Error::Cast`].
pub fn in_schema(rows: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    if rows.schema_ref().fields() == schema.fields() {
        return batch_of(Arc::clone(schema), rows.columns().to_vec(), rows.num_rows())
            .map_err(Error::unfit("table", "its schema"));
    }
    let own = rows.schema_ref();
    let column = |field: &FieldRef| {
        let column = match own.column_with_name(field.name()) {
            Some((place, own)) => cast_field(own, rows.column(place), field.data_type())?,
            None => new_null_array(field.data_type(), rows.num_rows()),
        };
        if !field.is_nullable() && column.logical_null_count() > 0 {
            let source = ArrowError::CastError(
                "a value is null, and the schema says that none is".to_owned(),
            );
            return Err(Error::Cast {
                column: field.name().clone(),
                data_type: type_name(field.data_type()),
                source,
            });
        }
        Ok(column)
    };
    let columns = schema.fields().iter().map(column).collect::<Result<Vec<_>>>()?;
    batch_of(Arc::clone(schema), columns, rows.num_rows())
        .map_err(Error::unfit("table", "its schema"))
}

/// `chunk` as a table of its schema; `binary` is the image column.
///
/// # Errors
/// [`Error::Cast`] when a value does not fit the type in the schema.
pub fn to_table(chunk: &Chunk, binary: &ArrayRef) -> Result<RecordBatch> {
    let takes: UInt32Array = chunk.rows.iter().map(|row| row.extra).collect();
    let columns = chunk.schema.fields().iter().map(|field| {
        let column = match field.name().as_str() {
            "position" => {
                Arc::new(chunk.rows.iter().map(|row| Some(row.position)).collect::<Int32Array>())
            }
            "binary_content" => Arc::clone(binary),
            name if is_reserved(name) => reserved_text(chunk, name),
            name => match chunk.extras.column_by_name(name) {
                Some(values) => take(values, &takes, None)
                    .map_err(|source| Error::unfit(name, &type_name(field.data_type()))(source))?,
                None => new_null_array(field.data_type(), chunk.rows.len()),
            },
        };
        cast_checked(field.name(), &column, field.data_type())
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    batch_of(Arc::clone(&chunk.schema), columns, chunk.rows.len())
        .map_err(Error::unfit("table", "its schema"))
}

/// As [`RecordBatch::try_new`], also for a batch without columns.
pub fn batch_of(
    schema: SchemaRef,
    columns: Vec<ArrayRef>,
    rows: usize,
) -> std::result::Result<RecordBatch, ArrowError> {
    RecordBatch::try_new_with_options(
        schema,
        columns,
        &RecordBatchOptions::new().with_row_count(Some(rows)),
    )
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

/// Rows that were skipped because they have no id, no position or no modality.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    pub rows: Vec<usize>,
    pub counts: Counts,
}

/// A table of interleaved rows as a chunk. Image bytes are shared with the table, not copied.
///
/// [`Boundaries`] says where documents begin.
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
    let positions = table
        .column_by_name("position")
        .map(|column| cast_checked("position", column, &DataType::Int32))
        .transpose()?;
    let [content_types, texts, refs, errors] =
        ["content_type", "text_content", "source_ref", "materialize_error"].map(strings);
    let (content_types, texts, refs, errors) = (content_types?, texts?, refs?, errors?);
    let binaries = table.column_by_name("binary_content").map(views).transpose()?;

    let cell = |column: &Option<LargeStringArray>, row: usize| {
        column
            .as_ref()
            .filter(|column| column.is_valid(row))
            .map(|column| column.value(row).to_owned())
    };
    let mut documents: Vec<String> = Vec::new();
    let mut rows: Vec<Row> = Vec::with_capacity(table.num_rows());
    let mut left_out = LeftOut::default();
    let mut boundaries = Boundaries::default();
    for index in 0..table.num_rows() {
        let modality = modalities
            .as_ref()
            .filter(|column| column.is_valid(index))
            .map(|column| Modality::new(column.value(index)));
        let id = ids.is_valid(index).then(|| ids.value(index));
        let begins = boundaries.begins(id, modality == Some(Modality::Metadata));
        documents.extend(id.filter(|_| begins).map(str::to_owned));
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
            payload: binaries
                .as_ref()
                .and_then(|column| shared_bytes(column, index))
                .map_or(Payload::Absent, Payload::Memory),
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
    let fields: Vec<_> =
        schema.fields().iter().filter(|field| !is_reserved(field.name())).cloned().collect();
    let columns = fields.iter().map(|field| match table.column_by_name(field.name()) {
        Some(column) => cast_checked(field.name(), column, field.data_type()),
        None => Ok(new_null_array(field.data_type(), table.num_rows())),
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    batch_of(Arc::new(Schema::new(fields)), columns, table.num_rows())
        .map_err(Error::unfit("passthrough columns", "their schema"))
}

fn views(column: &ArrayRef) -> Result<BinaryViewArray> {
    Ok(cast_checked("binary_content", column, &DataType::BinaryView)?.as_binary_view().clone())
}

/// Lets [`Bytes`] own Arrow memory.
struct Shared(Buffer);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        self.0.as_slice()
    }
}

/// Arrow memory as bytes, without a copy.
pub(crate) fn bytes_of(buffer: Buffer) -> Bytes {
    Bytes::from_owner(Shared(buffer))
}

/// The bytes of a row, without a copy if they are long; `None` for a null.
pub(crate) fn shared_bytes(column: &BinaryViewArray, row: usize) -> Option<Bytes> {
    /// Values up to this length are stored in the view itself (Arrow columnar format, variable-size
    /// binary view layout).
    const INLINE_LEN: usize = 12;
    if column.is_null(row) {
        return None;
    }
    let value = column.value(row);
    if value.len() > INLINE_LEN {
        let view = column.views().get(row).copied().map(arrow_data::ByteView::from);
        let buffer = view.and_then(|view| {
            Some((column.data_buffers().get(view.buffer_index as usize)?, view.offset as usize))
        });
        if let Some((buffer, offset)) = buffer {
            return Some(bytes_of(buffer.slice_with_length(offset, value.len())));
        }
    }
    Some(Bytes::copy_from_slice(value))
}
