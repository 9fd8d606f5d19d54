//! Rows of a table as records. Bytes of images are shared with the table, not copied.

use super::layout::{DocumentKeys, Layout};
use super::parts::Record;
use super::picture::Picture;
use crate::Result;
use crate::json::JsonCells;
use crate::table::{bytes_of, cast_checked, shared_bytes};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, GenericBinaryArray, OffsetSizeTrait, RecordBatch, StructArray};
use arrow_schema::DataType;
use bytes::Bytes;
use serde_json::Value;
use std::collections::HashMap;

/// The content of a table.
pub(super) struct RowRecords<'a> {
    table: &'a RecordBatch,
    cells: HashMap<&'a str, JsonCells>,
}

impl<'a> RowRecords<'a> {
    /// # Errors
    /// For a column whose values have no text.
    pub(super) fn new(
        table: &'a RecordBatch,
        layout: &'a Layout,
        keys: &'a DocumentKeys,
    ) -> Result<Self> {
        let texts: Vec<&str> = match layout {
            Layout::Lists { texts, .. } => texts.iter().map(String::as_str).collect(),
            Layout::Mmc4 => layout.content(),
            Layout::Columns(columns) => columns
                .iter()
                .filter(|(_, is_image)| !is_image)
                .map(|(name, _)| name.as_str())
                .collect(),
            Layout::Chat { messages, .. } => vec![messages.as_str()],
        };
        let others = keys.per_image_fields.iter().chain(&keys.sample_id_field);
        let mut cells = HashMap::new();
        for name in texts.into_iter().chain(others.map(String::as_str)) {
            if let Some(column) = table.column_by_name(name) {
                cells.insert(name, JsonCells::new(name, column)?);
            }
        }
        Ok(Self { table, cells })
    }

    pub(super) fn row(&self, row: usize) -> RowRecord<'_> {
        RowRecord { records: self, row }
    }
}

pub(super) struct RowRecord<'a> {
    records: &'a RowRecords<'a>,
    row: usize,
}

impl Record for RowRecord<'_> {
    fn value(&self, field: &str) -> std::result::Result<Value, String> {
        let Some(cells) = self.records.cells.get(field) else { return Ok(Value::Null) };
        cells.value(self.row).map_err(|error| error.to_string())
    }

    fn pictures(&self, field: &str) -> std::result::Result<Vec<Option<Picture>>, String> {
        let Some(column) = self.records.table.column_by_name(field) else { return Ok(Vec::new()) };
        if column.is_null(self.row) {
            return Ok(Vec::new());
        }
        let list = match column.data_type() {
            DataType::List(_) => column.as_list::<i32>().value(self.row),
            DataType::LargeList(_) => column.as_list::<i64>().value(self.row),
            DataType::FixedSizeList(..) => column.as_fixed_size_list().value(self.row),
            _ => column.slice(self.row, 1),
        };
        (0..list.len()).map(|row| picture(&list, row).map_err(|error| error.to_string())).collect()
    }
}

fn picture(column: &ArrayRef, row: usize) -> Result<Option<Picture>> {
    if column.is_null(row) {
        return Ok(None);
    }
    if let Some(bytes) = binary(column, row) {
        return Ok(Some(Picture::Bytes(bytes, None)));
    }
    let of_struct = match column.data_type() {
        DataType::Struct(_) => of_struct(column.as_struct(), row)?,
        _ => None,
    };
    match of_struct {
        Some(picture) => Ok(Some(picture)),
        None => Ok(Picture::of(JsonCells::new("images", column)?.value(row)?)),
    }
}

/// An image of Hugging Face `datasets`: its bytes, or where they are.
fn of_struct(column: &StructArray, row: usize) -> Result<Option<Picture>> {
    let Some(bytes) = column.column_by_name("bytes") else { return Ok(None) };
    let path = match column.column_by_name("path").filter(|path| path.is_valid(row)) {
        Some(path) => {
            let path = cast_checked("path", &path.slice(row, 1), &DataType::LargeUtf8)?;
            Some(path.as_string::<i64>().value(0).to_owned())
        }
        None => None,
    };
    Ok(match (binary(bytes, row), path) {
        (Some(bytes), path) => Some(Picture::Bytes(bytes, path)),
        (None, Some(path)) => Some(Picture::Named(path)),
        (None, None) => None,
    })
}

fn binary(column: &ArrayRef, row: usize) -> Option<Bytes> {
    if column.is_null(row) {
        return None;
    }
    match column.data_type() {
        DataType::Binary => Some(shared(column.as_binary::<i32>(), row)),
        DataType::LargeBinary => Some(shared(column.as_binary::<i64>(), row)),
        DataType::BinaryView => shared_bytes(column.as_binary_view(), row),
        _ => None,
    }
}

fn shared<O: OffsetSizeTrait>(column: &GenericBinaryArray<O>, row: usize) -> Bytes {
    let value = column.value(row);
    let start = column.value_offsets().get(row).map_or(0, |start| start.as_usize());
    bytes_of(column.values().slice_with_length(start, value.len()))
}
