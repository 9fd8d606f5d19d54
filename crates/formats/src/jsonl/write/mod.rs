//! Rows as JSON Lines.
//!
//! Arrow columns enter, one object a row leaves, with a null for a null. Numbers are written so that they are read back the same: integers with all their
//! digits, floats with as many as it takes. The invariant: what JSON cannot hold is refused, and nothing is rounded or left out.

mod text;
mod value;

pub use value::ValueEncoder;

use arrow_array::RecordBatch;
use arrow_schema::DataType;

/// Why rows are not JSON.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum Unwritable {
    #[error("Column `{column}` is {data_type}, and JSON has no such values")]
    Type { column: String, data_type: String },
    #[error("Row {row} has {value} in column `{column}`, and JSON has no such number")]
    Number { column: String, row: u64, value: String },
    #[error("Row {row} has a value in column `{column}` that has no text: {reason}")]
    Value { column: String, row: u64, reason: String },
}

impl Unwritable {
    /// What a user can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Type { .. } => Some("leave the column out by columns=[…], make text of it (base64 for binaries), or write Parquet"),
            Self::Number { .. } => Some("make it a null, or write Parquet"),
            Self::Value { .. } => None,
        }
    }
}

/// Whether JSON has values of this type.
#[must_use]
pub fn holds(data_type: &DataType) -> bool {
    match data_type {
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => false,
        DataType::Duration(_) | DataType::Interval(_) | DataType::Map(..) | DataType::Union(..) | DataType::RunEndEncoded(..) => false,
        DataType::ListView(_) | DataType::LargeListView(_) => false,
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => holds(item.data_type()),
        DataType::Struct(fields) => fields.iter().all(|field| holds(field.data_type())),
        DataType::Dictionary(_, value) => holds(value),
        _ => true,
    }
}

/// Appends one line a row to `lines`, and where each ends to `ends`. `first_row` is the number that errors call the first row.
///
/// # Errors
/// For types and values that JSON does not have.
pub fn encode_lines(rows: &RecordBatch, first_row: u64, lines: &mut Vec<u8>, ends: &mut Vec<usize>) -> Result<(), Unwritable> {
    let schema = rows.schema();
    let mut cells = Vec::with_capacity(rows.num_columns());
    for (number, (field, column)) in schema.fields().iter().zip(rows.columns()).enumerate() {
        let mut key = vec![if number == 0 { b'{' } else { b',' }];
        text::quote(field.name(), &mut key);
        key.push(b':');
        cells.push((key, ValueEncoder::new(field.name(), column)?));
    }
    for row in 0..rows.num_rows() {
        if cells.is_empty() {
            lines.push(b'{');
        }
        for (key, cell) in &cells {
            lines.extend_from_slice(key);
            cell.write(row, first_row, lines)?;
        }
        lines.extend_from_slice(b"}\n");
        ends.push(lines.len());
    }
    Ok(())
}
