//! The fields of records, as positions in the bytes of a block.

use super::kind::NullValues;
use crate::records::shown;

/// Position of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start: u32,
    pub(super) len: u32,
    pub(super) form: Form,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// The bytes are the value.
    Plain,
    /// Quotes have to be removed; the span begins with the opening quote.
    Quoted,
    /// The record ends before this field.
    Absent,
}

/// Why a record is bad. `row` counts in the [`Rows`] where it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) row: usize,
    pub(super) reason: Reason,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    FieldCount { found: usize },
    UnclosedQuote,
    Value { field: usize, text: String },
    InvalidUtf8 { field: usize },
}

/// Records in the order of the file, with `width` fields each.
#[derive(Debug)]
pub(super) struct Rows<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) width: usize,
    pub(super) quote: Option<u8>,
    pub(super) spans: Vec<Span>,
    /// Start of each record.
    pub(super) starts: Vec<u32>,
    pub(super) faults: Vec<Fault>,
}

impl<'a> Rows<'a> {
    pub(super) fn new(bytes: &'a [u8], width: usize, quote: Option<u8>) -> Self {
        Self { bytes, width, quote, spans: Vec::new(), starts: Vec::new(), faults: Vec::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.starts.len()
    }

    pub(super) fn clear(&mut self) {
        self.spans.clear();
        self.starts.clear();
        self.faults.clear();
    }

    /// One field of each record.
    pub(super) fn field(&self, index: usize) -> impl Iterator<Item = Span> + '_ {
        self.spans.get(index..).unwrap_or_default().iter().step_by(self.width.max(1)).copied()
    }

    /// The value at `span`. `unquoted` is a buffer for values whose quotes have to be removed.
    pub(super) fn text<'b>(&'b self, span: Span, unquoted: &'b mut Vec<u8>) -> &'b [u8] {
        let start = span.start as usize;
        let raw = self.bytes.get(start..start + span.len as usize).unwrap_or_default();
        match (span.form, self.quote) {
            (Form::Quoted, Some(quote)) => {
                unquote(raw, quote, unquoted);
                unquoted
            }
            _ => raw,
        }
    }

    /// A fault for a value that its column cannot hold.
    pub(super) fn value_fault(row: usize, field: usize, text: &[u8]) -> Fault {
        Fault { row, reason: Reason::Value { field, text: shown(text) } }
    }
}

/// As in pyarrow: a doubled quote is one quote, and text after the closing quote is kept as it is.
fn unquote(raw: &[u8], quote: u8, value: &mut Vec<u8>) {
    value.clear();
    let mut rest = raw.get(1..).unwrap_or_default();
    while let Some(end) = memchr::memchr(quote, rest) {
        let (text, from_quote) = rest.split_at_checked(end).unwrap_or((rest, &[]));
        value.extend_from_slice(text);
        match from_quote {
            [_, next, ..] if *next == quote => {
                value.push(quote);
                rest = from_quote.get(2..).unwrap_or_default();
            }
            _ => {
                value.extend_from_slice(from_quote.get(1..).unwrap_or_default());
                return;
            }
        }
    }
    value.extend_from_slice(rest);
}

/// Whether the field is null.
pub(super) fn is_null(
    rows: &Rows<'_>,
    span: Span,
    nulls: &NullValues,
    unquoted: &mut Vec<u8>,
) -> bool {
    span.form == Form::Absent || nulls.contains(rows.text(span, unquoted))
}
