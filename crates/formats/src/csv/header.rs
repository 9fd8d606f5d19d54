//! The first record of a file, which names the columns.

use super::borders::CsvBorders;
use super::rows::{Reason, Rows};
use super::tokenize::Tokenizer;
use super::{CsvOptions, Error};
use crate::records::{MAX_RECORD_BYTES, Start, Unpacker, line_of};
use shardmill_storage::RangeRead;
use std::collections::HashSet;

/// Real tables have at most some thousands; a line of commas must not become a schema of gigabytes.
const MAX_COLUMNS: usize = 1 << 20;

/// The column names, and the start of the rows.
#[derive(Debug)]
pub(super) struct Header {
    pub(super) names: Vec<String>,
    pub(super) data_start: u64,
    pub(super) data_line: u64,
}

/// The header of a file, and at least `sample_bytes` bytes from its start if the file is that long.
/// `None` for a file without a record.
pub(super) fn read_header(
    object: &dyn RangeRead,
    unpacker: &Unpacker,
    options: &CsvOptions,
    sample_bytes: u64,
) -> Result<Option<(Header, Start)>, Error> {
    let mut len = sample_bytes;
    loop {
        let start = unpacker.start(object, len.min(MAX_RECORD_BYTES))?;
        match header(object.path(), &start, options)? {
            Some(header) => return Ok(Some((header, start))),
            None if start.is_whole => return Ok(None),
            None if len >= MAX_RECORD_BYTES => {
                return Err(Error::RecordTooLong { path: object.path().to_owned(), line: 1, len });
            }
            None => {
                unpacker.check_start(object, &mut CsvBorders::new(options, 0, 1), 1)?;
                len = len.saturating_mul(2);
            }
        }
    }
}

fn header(path: &str, start: &Start, options: &CsvOptions) -> Result<Option<Header>, Error> {
    let Some((width, rest)) = first_record(path, start, options)? else { return Ok(None) };
    if width > MAX_COLUMNS {
        return Err(Error::ColumnCount {
            path: path.to_owned(),
            found: width,
            expected: MAX_COLUMNS,
        });
    }
    if !options.header {
        let names = (0..width).map(|index| format!("f{index}")).collect();
        return Ok(Some(Header { names, data_start: start.mark_len, data_line: 1 }));
    }
    let mut rows = Rows::new(&start.bytes, width, options.quote);
    Tokenizer::new(&start.bytes, options, start.is_whole).fill(&mut rows, 1, &mut || true);
    let mut unquoted = Vec::new();
    let mut names = Vec::with_capacity(width);
    let mut seen = HashSet::with_capacity(width);
    for span in rows.spans.iter().copied() {
        let name = std::str::from_utf8(rows.text(span, &mut unquoted))
            .map_err(|_| Error::InvalidHeader { path: path.to_owned() })?;
        if !seen.insert(name.to_owned()) {
            return Err(Error::DuplicateColumn { path: path.to_owned(), column: name.to_owned() });
        }
        names.push(name.to_owned());
    }
    Ok(Some(Header {
        names,
        data_start: start.mark_len + rest as u64,
        data_line: line_of(&start.bytes, rest, 1),
    }))
}

/// Number of fields of the first record, and where the next one starts.
fn first_record(
    path: &str,
    start: &Start,
    options: &CsvOptions,
) -> Result<Option<(usize, usize)>, Error> {
    let mut rows = Rows::new(&start.bytes, 0, options.quote);
    let mut tokenizer = Tokenizer::new(&start.bytes, options, start.is_whole);
    tokenizer.fill(&mut rows, 1, &mut || true);
    let Some(record_start) = rows.starts.first() else { return Ok(None) };
    if rows.faults.iter().any(|fault| fault.reason == Reason::UnclosedQuote) {
        return Err(Error::UnclosedQuote {
            path: path.to_owned(),
            line: line_of(&start.bytes, *record_start as usize, 1),
        });
    }
    let found = rows.faults.iter().find_map(|fault| match fault.reason {
        Reason::FieldCount { found } => Some(found),
        _ => None,
    });
    // A table without columns has no records.
    let Some(width) = found else {
        return Err(Error::ColumnCount { path: path.to_owned(), found: 0, expected: 1 });
    };
    Ok(Some((width, tokenizer.position())))
}
