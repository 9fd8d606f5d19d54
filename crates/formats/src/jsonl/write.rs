//! Writes rows as JSON Lines.
//!
//! Each row becomes one object, with a null for a null. Numbers are written so that they
//! round-trip: integers with all digits, floats with as many as needed. The invariant: values that
//! JSON does not support are rejected, and nothing is rounded or omitted.

use crate::json::{Dialect, Unwritable, ValueEncoder, quote};
use arrow_array::RecordBatch;

/// Appends one line per row to `lines`, and the end of each line to `ends`. `first_row` is the
/// number of the first row in errors.
///
/// # Errors
/// For types and values that JSON does not support.
pub fn encode_lines(
    rows: &RecordBatch,
    first_row: u64,
    lines: &mut Vec<u8>,
    ends: &mut Vec<usize>,
) -> Result<(), Unwritable> {
    let schema = rows.schema();
    let mut cells = Vec::with_capacity(rows.num_columns());
    for (number, (field, column)) in schema.fields().iter().zip(rows.columns()).enumerate() {
        let mut key = vec![if number == 0 { b'{' } else { b',' }];
        quote(field.name(), &mut key);
        key.push(b':');
        cells.push((key, ValueEncoder::new(field.name(), column, Dialect::Plain)?));
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
