//! Columns that are built from the fields of records.

use super::CsvOptions;
use super::kind::NullValues;
use super::rows::{Fault, Form, Reason, Rows, Span, is_null};
use crate::records::value::{Parse, UseParser, is_rounded, parse_bool, with_parser};
use crate::records::{Strings, Values};
use arrow_array::builder::BooleanBuilder;
use arrow_array::{Array, ArrayRef, NullArray, OffsetSizeTrait, StringArray};
use arrow_cast::{CastOptions, can_cast_types, cast_with_options};
use arrow_schema::{ArrowError, DataType, Field};
use std::sync::Arc;

/// A column of the table. A value that does not fit becomes null and a fault.
pub(super) trait Column: Send {
    fn append(
        &mut self,
        rows: &Rows<'_>,
        field: usize,
        nulls: &NullValues,
        faults: &mut Vec<Fault>,
    );

    fn finish(self: Box<Self>) -> Result<ArrayRef, ArrowError>;
}

/// A column of the type of `field`; `None` when CSV does not support the type.
pub(super) fn column(
    field: &Field,
    nulls: &NullValues,
    options: &CsvOptions,
    capacity: usize,
) -> Option<Box<dyn Column>> {
    let (data_type, strings_can_be_null) = (field.data_type(), options.strings_can_be_null);
    let is_exact = *data_type == DataType::Float64 && !options.declared.contains(field.name());
    if let Some(primitive) =
        with_parser(data_type, Primitives { data_type, nulls, is_exact, capacity })
    {
        return Some(primitive);
    }
    Some(match data_type {
        DataType::Null => Box::new(Nulls { len: 0 }),
        DataType::Boolean => Box::new(Booleans(BooleanBuilder::with_capacity(capacity))),
        DataType::Utf8 => Box::new(Texts::<i32>::new(strings_can_be_null, capacity)),
        DataType::LargeUtf8 => Box::new(Texts::<i64>::new(strings_can_be_null, capacity)),
        // A decimal without a parser has a scale that cannot be written as text.
        decimal if decimal.is_decimal() => return None,
        other if !other.is_nested() && can_cast_types(&DataType::Utf8, other) => {
            let is_text = matches!(
                other,
                DataType::Utf8View
                    | DataType::Binary
                    | DataType::LargeBinary
                    | DataType::BinaryView
            );
            Box::new(Converted {
                data_type: other.clone(),
                can_be_null: strings_can_be_null || !is_text,
                parts: Vec::new(),
            })
        }
        _ => return None,
    })
}

struct Primitives<'a> {
    data_type: &'a DataType,
    nulls: &'a NullValues,
    is_exact: bool,
    capacity: usize,
}

impl UseParser for Primitives<'_> {
    type Made = Box<dyn Column>;

    fn with<P: Parse + 'static>(self, parser: P) -> Box<dyn Column> {
        let is_null_plain = self.nulls.iter().any(|value| parser.parse_plain(value).is_some());
        Box::new(Primitive {
            values: Values::new(parser, self.data_type, self.capacity),
            is_null_plain,
            is_exact: self.is_exact,
        })
    }
}

/// Values of a fixed width.
struct Primitive<P: Parse> {
    values: Values<P>,
    /// A spelling of null is also a plain number, such as `-999`,
    /// so every value has to be compared.
    is_null_plain: bool,
    /// An integer that float64 rounds is a fault.
    is_exact: bool,
}

impl<P: Parse> Primitive<P> {
    fn is_rounded(&self, text: &[u8]) -> bool {
        self.is_exact && is_rounded(text)
    }
}

impl<P: Parse> Column for Primitive<P> {
    fn append(
        &mut self,
        rows: &Rows<'_>,
        field: usize,
        nulls: &NullValues,
        faults: &mut Vec<Fault>,
    ) {
        let mut unquoted = Vec::new();
        for (row, span) in rows.field(field).enumerate() {
            if span.form == Form::Plain && !self.is_null_plain {
                let start = span.start as usize;
                let text = rows.bytes.get(start..start + span.len as usize).unwrap_or_default();
                if let Some(value) =
                    self.values.parser().parse_plain(text).filter(|_| !self.is_rounded(text))
                {
                    self.values.push(value);
                    continue;
                }
            }
            if is_null(rows, span, nulls, &mut unquoted) {
                self.values.push_null();
                continue;
            }
            let text = rows.text(span, &mut unquoted);
            if self.is_rounded(text) || !self.values.push_text(text) {
                faults.push(Rows::value_fault(row, field, text));
                self.values.push_null();
            }
        }
    }

    fn finish(mut self: Box<Self>) -> Result<ArrayRef, ArrowError> {
        self.values.finish()
    }
}

struct Booleans(BooleanBuilder);

impl Column for Booleans {
    fn append(
        &mut self,
        rows: &Rows<'_>,
        field: usize,
        nulls: &NullValues,
        faults: &mut Vec<Fault>,
    ) {
        let mut unquoted = Vec::new();
        for (row, span) in rows.field(field).enumerate() {
            if is_null(rows, span, nulls, &mut unquoted) {
                self.0.append_null();
                continue;
            }
            let text = rows.text(span, &mut unquoted);
            let value = parse_bool(text);
            if value.is_none() {
                faults.push(Rows::value_fault(row, field, text));
            }
            self.0.append_option(value);
        }
    }

    fn finish(mut self: Box<Self>) -> Result<ArrayRef, ArrowError> {
        Ok(Arc::new(self.0.finish()))
    }
}

struct Nulls {
    len: usize,
}

impl Column for Nulls {
    fn append(
        &mut self,
        rows: &Rows<'_>,
        field: usize,
        nulls: &NullValues,
        faults: &mut Vec<Fault>,
    ) {
        let mut unquoted = Vec::new();
        for (row, span) in rows.field(field).enumerate() {
            if !is_null(rows, span, nulls, &mut unquoted) {
                faults.push(Rows::value_fault(row, field, rows.text(span, &mut unquoted)));
            }
        }
        self.len += rows.len();
    }

    fn finish(self: Box<Self>) -> Result<ArrayRef, ArrowError> {
        Ok(Arc::new(NullArray::new(self.len)))
    }
}

struct Texts<O: OffsetSizeTrait> {
    strings: Strings<O>,
    can_be_null: bool,
}

impl<O: OffsetSizeTrait> Texts<O> {
    fn new(can_be_null: bool, capacity: usize) -> Self {
        Self { strings: Strings::new(capacity), can_be_null }
    }

    fn append_checked(
        &mut self,
        rows: &Rows<'_>,
        field: usize,
        spans: impl Iterator<Item = (Span, bool)>,
        faults: &mut Vec<Fault>,
    ) {
        let mut unquoted = Vec::new();
        for (row, (span, is_null)) in spans.enumerate() {
            let text = rows.text(span, &mut unquoted);
            let is_text = std::str::from_utf8(text).is_ok();
            if !is_text && !is_null {
                faults.push(Fault { row, reason: Reason::InvalidUtf8 { field } });
            }
            self.strings.push((is_text && !is_null).then_some(text));
        }
    }
}

impl<O: OffsetSizeTrait> Column for Texts<O> {
    fn append(
        &mut self,
        rows: &Rows<'_>,
        field: usize,
        nulls: &NullValues,
        faults: &mut Vec<Fault>,
    ) {
        let first_row = self.strings.len();
        let (mut for_null, mut unquoted) = (Vec::new(), Vec::new());
        let can_be_null = self.can_be_null;
        let mut is_null = |span: Span| {
            span.form == Form::Absent || (can_be_null && is_null(rows, span, nulls, &mut for_null))
        };
        for span in rows.field(field) {
            let text = rows.text(span, &mut unquoted);
            self.strings.push((!is_null(span)).then_some(text));
        }
        if !self.strings.is_valid_from(first_row) {
            self.strings.truncate(first_row);
            self.append_checked(
                rows,
                field,
                rows.field(field).map(|span| (span, is_null(span))),
                faults,
            );
        }
    }

    fn finish(mut self: Box<Self>) -> Result<ArrayRef, ArrowError> {
        self.strings.finish()
    }
}

/// A type that Arrow casts from strings, for rare types whose speed does not matter.
struct Converted {
    data_type: DataType,
    can_be_null: bool,
    parts: Vec<ArrayRef>,
}

impl Column for Converted {
    fn append(
        &mut self,
        rows: &Rows<'_>,
        field: usize,
        nulls: &NullValues,
        faults: &mut Vec<Fault>,
    ) {
        let mut strings = Box::new(Texts::<i32>::new(self.can_be_null, rows.len()));
        strings.append(rows, field, nulls, faults);
        let Ok(strings) = strings.finish() else { return };
        let options = CastOptions { safe: true, ..CastOptions::default() };
        let Ok(converted) = cast_with_options(&strings, &self.data_type, &options) else { return };
        let texts = strings.as_any().downcast_ref::<StringArray>();
        for row in
            (0..strings.len()).filter(|row| strings.is_valid(*row) && converted.is_null(*row))
        {
            faults.push(Rows::value_fault(
                row,
                field,
                texts.map_or("", |texts| texts.value(row)).as_bytes(),
            ));
        }
        self.parts.push(converted);
    }

    fn finish(self: Box<Self>) -> Result<ArrayRef, ArrowError> {
        let parts: Vec<&dyn Array> = self.parts.iter().map(AsRef::as_ref).collect();
        if parts.is_empty() {
            Ok(arrow_array::new_empty_array(&self.data_type))
        } else {
            arrow_select::concat::concat(&parts)
        }
    }
}
