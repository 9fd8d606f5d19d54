//! Splits the bytes of a block into records and fields.

use super::CsvOptions;
use super::rows::{Fault, Form, Reason, Rows, Span};
use super::special::Specials;

/// State of the current field.
#[derive(Clone, Copy)]
enum Field {
    Plain,
    /// Quoted as a whole, without an inner quote; `end` is the end of the value.
    Closed {
        end: usize,
    },
    /// Quoted, with characters that have to be removed.
    Quoted,
}

/// Scans a block once. The first byte of the block is the start of a record.
pub(super) struct Tokenizer<'a> {
    bytes: &'a [u8],
    specials: Specials<'a>,
    delimiter: u8,
    quote: Option<u8>,
    /// Whether the last record may end without a line end.
    is_whole: bool,
    /// Special bytes before this position were already consumed.
    resume: usize,
    record_start: usize,
    records: u64,
}

impl<'a> Tokenizer<'a> {
    /// With `is_whole`, the last record ends with the bytes; otherwise it is incomplete unless a
    /// line end follows.
    pub(super) fn new(bytes: &'a [u8], options: &CsvOptions, is_whole: bool) -> Self {
        let specials = Specials::new(bytes, options.delimiter, options.quote);
        Self {
            bytes,
            specials,
            delimiter: options.delimiter,
            quote: options.quote,
            is_whole,
            resume: 0,
            record_start: 0,
            records: 0,
        }
    }

    /// Number of records passed, selected or not.
    pub(super) fn records(&self) -> u64 {
        self.records
    }

    /// Where the next record starts.
    pub(super) fn position(&self) -> usize {
        self.record_start
    }

    /// Appends records until `rows` holds `limit`; false at the end of the block. `is_wanted` is
    /// called once for each record.
    pub(super) fn fill(
        &mut self,
        rows: &mut Rows<'a>,
        limit: usize,
        is_wanted: &mut dyn FnMut() -> bool,
    ) -> bool {
        let mut record =
            Record { first_span: rows.spans.len(), found: 0, start: self.record_start };
        let (mut start, mut field) = (self.record_start, Field::Plain);
        while rows.len() < limit {
            let Some(position) = self.specials.next() else {
                self.finish(rows, &mut record, start, field, is_wanted);
                return false;
            };
            if position < self.resume {
                continue;
            }
            let Some(byte) = self.bytes.get(position).copied() else { return false };
            if byte == self.delimiter {
                record.push(rows, span(start, position, field));
                (start, field) = (position + 1, Field::Plain);
            } else if byte == b'\n' || byte == b'\r' {
                if position > record.start {
                    record.push(rows, span(start, position, field));
                    self.records += 1;
                    record.end(rows, is_wanted());
                }
                let is_paired = byte == b'\r' && self.bytes.get(position + 1) == Some(&b'\n');
                start = position + 1 + usize::from(is_paired);
                (self.record_start, self.resume, field) = (start, start, Field::Plain);
                record = Record { first_span: rows.spans.len(), found: 0, start };
            } else if position == start {
                match self.close_quote(position, byte) {
                    Some((end, closed)) => (self.resume, field) = (end, closed),
                    None => {
                        self.unclosed(rows, &mut record, start, is_wanted);
                        return false;
                    }
                }
            }
        }
        true
    }

    /// Where a quoted field continues after its closing quote.
    fn close_quote(&self, open: usize, quote: u8) -> Option<(usize, Field)> {
        let mut from = open + 1;
        let mut is_clean = true;
        loop {
            let close = from + memchr::memchr(quote, self.bytes.get(from..)?)?;
            match self.bytes.get(close + 1).copied() {
                Some(next) if next == quote => {
                    is_clean = false;
                    from = close + 2;
                }
                next => {
                    let is_end = next.is_none_or(|next| {
                        next == self.delimiter || next == b'\n' || next == b'\r'
                    });
                    let field = if is_clean && is_end {
                        Field::Closed { end: close }
                    } else {
                        Field::Quoted
                    };
                    return Some((close + 1, field));
                }
            }
        }
    }

    fn finish(
        &mut self,
        rows: &mut Rows<'a>,
        record: &mut Record,
        start: usize,
        field: Field,
        is_wanted: &mut dyn FnMut() -> bool,
    ) {
        let end = self.bytes.len();
        if !self.is_whole {
            rows.spans.truncate(record.first_span);
        } else if end > record.start {
            record.push(rows, span(start, end, field));
            self.record_start = end;
            self.records += 1;
            record.end(rows, is_wanted());
        }
    }

    fn unclosed(
        &mut self,
        rows: &mut Rows<'a>,
        record: &mut Record,
        start: usize,
        is_wanted: &mut dyn FnMut() -> bool,
    ) {
        if !self.is_whole {
            rows.spans.truncate(record.first_span);
            return;
        }
        let end = self.bytes.len();
        record.push(
            rows,
            span(start, end, if self.quote.is_some() { Field::Quoted } else { Field::Plain }),
        );
        self.record_start = end;
        self.records += 1;
        let (row, faults) = (rows.len(), rows.faults.len());
        if record.end(rows, is_wanted()) {
            // A wrong number of fields follows from it.
            rows.faults.truncate(faults);
            rows.faults.push(Fault { row, reason: Reason::UnclosedQuote });
        }
    }
}

/// The current record.
struct Record {
    first_span: usize,
    found: usize,
    start: usize,
}

impl Record {
    /// Fields beyond the width of the table are only counted: a line of commas must
    /// not fill the memory.
    fn push(&mut self, rows: &mut Rows<'_>, span: Span) {
        self.found += 1;
        if self.found <= rows.width {
            rows.spans.push(span);
        }
    }

    /// Keeps or discards the record. Returns whether it was kept.
    fn end(&self, rows: &mut Rows<'_>, is_wanted: bool) -> bool {
        if !is_wanted {
            rows.spans.truncate(self.first_span);
            return false;
        }
        if self.found != rows.width {
            rows.faults
                .push(Fault { row: rows.len(), reason: Reason::FieldCount { found: self.found } });
            rows.spans.resize(
                self.first_span + rows.width,
                Span { start: 0, len: 0, form: Form::Absent },
            );
        }
        rows.starts.push(offset(self.start));
        true
    }
}

fn span(start: usize, end: usize, field: Field) -> Span {
    let (start, end, form) = match field {
        Field::Plain => (start, end, Form::Plain),
        Field::Closed { end } => (start + 1, end, Form::Plain),
        Field::Quoted => (start, end, Form::Quoted),
    };
    Span { start: offset(start), len: offset(end.saturating_sub(start)), form }
}

/// Blocks are shorter than 2 GiB; larger ones were rejected before.
fn offset(position: usize) -> u32 {
    u32::try_from(position).unwrap_or(u32::MAX)
}
