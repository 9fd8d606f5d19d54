//! Bytes of a block to columns.

use super::column::Growth;
use super::cursor::Cursor;
use super::fault::Fault;
use super::nested::Structs;
use super::records::{Records, Shape};
use crate::records::KeptRows;

/// A bad record of a block.
pub(super) struct Located {
    pub(super) fault: Fault,
    /// Position of the record in the block.
    pub(super) position: usize,
    /// Number of the record among the wanted ones.
    pub(super) row: usize,
}

/// Appends the kept records to `rows` and returns how many records there are. `judge` sees each bad record once, in order; when it is content, the record is
/// a row of nulls.
///
/// # Errors
/// Those of `judge`.
pub(super) fn parse<E>(
    bytes: &[u8],
    shape: Shape,
    rows: &mut Structs,
    is_lenient: bool,
    kept: &mut KeptRows<'_>,
    judge: &mut dyn FnMut(Located) -> Result<(), E>,
) -> Result<u64, E> {
    let mut growth = Growth { is_lenient, ..Growth::default() };
    let (mut records, mut row) = (0, 0);
    for record in Records::of_run(bytes, shape) {
        records += 1;
        if !kept.next() {
            continue;
        }
        if let Err(fault) = parse_record(record.text, rows, &mut growth) {
            judge(Located { fault, position: record.position, row })?;
            rows.truncate(row);
            rows.append_null();
        }
        row += 1;
    }
    Ok(records)
}

fn parse_record(text: &[u8], rows: &mut Structs, growth: &mut Growth) -> Result<(), Fault> {
    let mut cursor = Cursor::new(text);
    if cursor.peek() != Some(b'{') {
        cursor.skip()?;
        cursor.end()?;
        return Err(Fault::NotAnObject);
    }
    rows.append(&mut cursor, growth)?;
    cursor.end()
}
