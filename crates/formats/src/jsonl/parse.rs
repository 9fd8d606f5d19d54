//! Bytes of a block to columns.

use super::borders::is_blank;
use super::column::Growth;
use super::cursor::Cursor;
use super::fault::Fault;
use super::nested::Structs;
use crate::records::KeptRows;

/// A bad line of a block.
pub(super) struct Located {
    pub(super) fault: Fault,
    /// Position of the line in the block.
    pub(super) position: usize,
    /// Number of the line among the wanted ones.
    pub(super) row: usize,
}

/// Appends the kept lines to `rows` and returns how many lines there are, without the blank ones. `judge` sees each bad line once, in order; when it is
/// content, the line is a row of nulls.
///
/// # Errors
/// Those of `judge`.
pub(super) fn parse<E>(
    bytes: &[u8],
    rows: &mut Structs,
    is_lenient: bool,
    kept: &mut KeptRows<'_>,
    judge: &mut dyn FnMut(Located) -> Result<(), E>,
) -> Result<u64, E> {
    let mut growth = Growth { is_lenient, ..Growth::default() };
    let (mut lines, mut row, mut position) = (0, 0, 0);
    let ends = memchr::memchr_iter(b'\n', bytes).chain(std::iter::once(bytes.len()));
    for end in ends {
        let line = bytes.get(position..end).unwrap_or_default();
        let start = std::mem::replace(&mut position, end + 1);
        if is_blank(line) {
            continue;
        }
        lines += 1;
        if !kept.next() {
            continue;
        }
        if let Err(fault) = parse_line(line, rows, &mut growth) {
            judge(Located { fault, position: start, row })?;
            rows.truncate(row);
            rows.append_null();
        }
        row += 1;
    }
    Ok(lines)
}

fn parse_line(line: &[u8], rows: &mut Structs, growth: &mut Growth) -> Result<(), Fault> {
    let mut cursor = Cursor::new(line);
    if cursor.peek() != Some(b'{') {
        cursor.skip()?;
        cursor.end()?;
        return Err(Fault::NotAnObject);
    }
    rows.append(&mut cursor, growth)?;
    cursor.end()
}
