//! Columns that grow by the fields of records.

use super::kind::NullValues;
use super::rows::{Fault, Form, Reason, Rows, Span, is_null};
use crate::records::value::{Date, Decimal, Float, Integer, Parse, TimeOfDay, Timestamp, parse_bool};
use arrow_array::builder::{BooleanBuilder, NullBufferBuilder};
use arrow_array::types::{
    ArrowPrimitiveType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, Time32MillisecondType, Time32SecondType,
    Time64MicrosecondType, Time64NanosecondType, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, ArrowNativeTypeOp, GenericStringArray, NullArray, OffsetSizeTrait, PrimitiveArray, StringArray};
use arrow_buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use arrow_cast::{CastOptions, can_cast_types, cast_with_options};
use arrow_schema::{ArrowError, DataType, TimeUnit};
use std::sync::Arc;

/// One column of the table. A value that does not fit becomes null and a fault.
pub(super) trait Column: Send {
    fn append(&mut self, rows: &Rows<'_>, field: usize, nulls: &NullValues, faults: &mut Vec<Fault>);

    fn finish(self: Box<Self>) -> Result<ArrayRef, ArrowError>;
}

/// A column of `data_type`; `None` when CSV cannot hold it.
pub(super) fn column(data_type: &DataType, nulls: &NullValues, strings_can_be_null: bool, capacity: usize) -> Option<Box<dyn Column>> {
    macro_rules! primitive {
        ($parser:expr) => {
            Box::new(Primitive::new($parser, data_type, nulls, capacity))
        };
    }
    macro_rules! timestamp {
        ($arrow:ty, $unit:expr, $zone:expr) => {
            primitive!(Timestamp::<$arrow>::new(*$unit, $zone.is_some()))
        };
    }
    Some(match data_type {
        DataType::Null => Box::new(Nulls { len: 0 }),
        DataType::Boolean => Box::new(Booleans(BooleanBuilder::with_capacity(capacity))),
        DataType::Int8 => primitive!(Integer::<Int8Type>::new()),
        DataType::Int16 => primitive!(Integer::<Int16Type>::new()),
        DataType::Int32 => primitive!(Integer::<Int32Type>::new()),
        DataType::Int64 => primitive!(Integer::<Int64Type>::new()),
        DataType::UInt8 => primitive!(Integer::<UInt8Type>::new()),
        DataType::UInt16 => primitive!(Integer::<UInt16Type>::new()),
        DataType::UInt32 => primitive!(Integer::<UInt32Type>::new()),
        DataType::UInt64 => primitive!(Integer::<UInt64Type>::new()),
        DataType::Float32 => primitive!(Float::<Float32Type>::new()),
        DataType::Float64 => primitive!(Float::<Float64Type>::new()),
        DataType::Date32 => primitive!(Date),
        DataType::Time32(TimeUnit::Second) => primitive!(TimeOfDay::<Time32SecondType>::new(TimeUnit::Second)),
        DataType::Time32(TimeUnit::Millisecond) => primitive!(TimeOfDay::<Time32MillisecondType>::new(TimeUnit::Millisecond)),
        DataType::Time64(TimeUnit::Microsecond) => primitive!(TimeOfDay::<Time64MicrosecondType>::new(TimeUnit::Microsecond)),
        DataType::Time64(TimeUnit::Nanosecond) => primitive!(TimeOfDay::<Time64NanosecondType>::new(TimeUnit::Nanosecond)),
        DataType::Timestamp(unit @ TimeUnit::Second, zone) => timestamp!(TimestampSecondType, unit, zone),
        DataType::Timestamp(unit @ TimeUnit::Millisecond, zone) => timestamp!(TimestampMillisecondType, unit, zone),
        DataType::Timestamp(unit @ TimeUnit::Microsecond, zone) => timestamp!(TimestampMicrosecondType, unit, zone),
        DataType::Timestamp(unit @ TimeUnit::Nanosecond, zone) => timestamp!(TimestampNanosecondType, unit, zone),
        DataType::Decimal128(precision, scale) => primitive!(Decimal::new(*precision, *scale)?),
        DataType::Utf8 => Box::new(Strings::<i32>::new(strings_can_be_null, capacity)),
        DataType::LargeUtf8 => Box::new(Strings::<i64>::new(strings_can_be_null, capacity)),
        other if !other.is_nested() && can_cast_types(&DataType::Utf8, other) => {
            let is_text = matches!(other, DataType::Utf8View | DataType::Binary | DataType::LargeBinary | DataType::BinaryView);
            Box::new(Converted { data_type: other.clone(), can_be_null: strings_can_be_null || !is_text, parts: Vec::new() })
        }
        _ => return None,
    })
}

/// All values but the null ones are of the same width.
struct Primitive<P: Parse> {
    parser: P,
    data_type: DataType,
    values: Vec<<P::Arrow as ArrowPrimitiveType>::Native>,
    valid: NullBufferBuilder,
    /// A spelling of null is a plain number, as `-999`: every value has to be compared.
    is_null_plain: bool,
}

impl<P: Parse> Primitive<P> {
    fn new(parser: P, data_type: &DataType, nulls: &NullValues, capacity: usize) -> Self {
        let is_null_plain = nulls.iter().any(|value| parser.parse_plain(value).is_some());
        Self { parser, data_type: data_type.clone(), values: Vec::with_capacity(capacity), valid: NullBufferBuilder::new(capacity), is_null_plain }
    }
}

impl<P: Parse> Column for Primitive<P> {
    fn append(&mut self, rows: &Rows<'_>, field: usize, nulls: &NullValues, faults: &mut Vec<Fault>) {
        let mut unquoted = Vec::new();
        for (row, span) in rows.field(field).enumerate() {
            if span.form == Form::Plain && !self.is_null_plain {
                let start = span.start as usize;
                let text = rows.bytes.get(start..start + span.len as usize).unwrap_or_default();
                if let Some(value) = self.parser.parse_plain(text) {
                    self.values.push(value);
                    self.valid.append_non_null();
                    continue;
                }
            }
            let value = if is_null(rows, span, nulls, &mut unquoted) {
                None
            } else {
                let text = rows.text(span, &mut unquoted);
                let value = self.parser.parse_plain(text).or_else(|| self.parser.parse(text));
                if value.is_none() {
                    faults.push(Rows::value_fault(row, field, text));
                }
                value
            };
            self.values.push(value.unwrap_or(<P::Arrow as ArrowPrimitiveType>::Native::ZERO));
            self.valid.append(value.is_some());
        }
    }

    fn finish(mut self: Box<Self>) -> Result<ArrayRef, ArrowError> {
        let values = ScalarBuffer::from(std::mem::take(&mut self.values));
        let array = PrimitiveArray::<P::Arrow>::try_new(values, self.valid.finish())?;
        Ok(Arc::new(array.with_data_type(self.data_type.clone())))
    }
}

struct Booleans(BooleanBuilder);

impl Column for Booleans {
    fn append(&mut self, rows: &Rows<'_>, field: usize, nulls: &NullValues, faults: &mut Vec<Fault>) {
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
    fn append(&mut self, rows: &Rows<'_>, field: usize, nulls: &NullValues, faults: &mut Vec<Fault>) {
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

struct Strings<O> {
    values: Vec<u8>,
    offsets: Vec<O>,
    valid: NullBufferBuilder,
    can_be_null: bool,
}

impl<O: OffsetSizeTrait> Strings<O> {
    fn new(can_be_null: bool, capacity: usize) -> Self {
        let mut offsets = Vec::with_capacity(capacity + 1);
        offsets.push(O::zero());
        Self { values: Vec::new(), offsets, valid: NullBufferBuilder::new(capacity), can_be_null }
    }

    fn push(&mut self, text: Option<&[u8]>) {
        self.values.extend_from_slice(text.unwrap_or_default());
        // A block is shorter than 2 GiB, and so are the texts in it.
        self.offsets.push(O::from_usize(self.values.len()).unwrap_or_default());
        self.valid.append(text.is_some());
    }

    /// Whether what was appended behind `first_value` is text and no character spans two values.
    fn is_valid_from(&self, first_value: usize, first_offset: usize) -> bool {
        let Some(Ok(text)) = self.values.get(first_value..).map(std::str::from_utf8) else { return false };
        let offsets = self.offsets.get(first_offset..).unwrap_or_default();
        offsets.iter().all(|offset| text.is_char_boundary(offset.as_usize().saturating_sub(first_value)))
    }

    fn append_checked(&mut self, rows: &Rows<'_>, field: usize, spans: impl Iterator<Item = (Span, bool)>, faults: &mut Vec<Fault>) {
        let mut unquoted = Vec::new();
        for (row, (span, is_null)) in spans.enumerate() {
            let text = rows.text(span, &mut unquoted);
            let is_text = std::str::from_utf8(text).is_ok();
            if !is_text && !is_null {
                faults.push(Fault { row, reason: Reason::InvalidUtf8 { field } });
            }
            self.push((is_text && !is_null).then_some(text));
        }
    }
}

impl<O: OffsetSizeTrait> Column for Strings<O> {
    fn append(&mut self, rows: &Rows<'_>, field: usize, nulls: &NullValues, faults: &mut Vec<Fault>) {
        let (first_value, first_row) = (self.values.len(), self.valid.len());
        let (mut for_null, mut unquoted) = (Vec::new(), Vec::new());
        let can_be_null = self.can_be_null;
        let mut is_null = |span: Span| span.form == Form::Absent || (can_be_null && is_null(rows, span, nulls, &mut for_null));
        for span in rows.field(field) {
            let text = rows.text(span, &mut unquoted);
            self.push((!is_null(span)).then_some(text));
        }
        if !self.is_valid_from(first_value, first_row) {
            self.values.truncate(first_value);
            self.offsets.truncate(first_row + 1);
            self.valid.truncate(first_row);
            self.append_checked(rows, field, rows.field(field).map(|span| (span, is_null(span))), faults);
        }
    }

    fn finish(mut self: Box<Self>) -> Result<ArrayRef, ArrowError> {
        let offsets = OffsetBuffer::new(ScalarBuffer::from(std::mem::take(&mut self.offsets)));
        let values = Buffer::from_vec(std::mem::take(&mut self.values));
        Ok(Arc::new(GenericStringArray::<O>::try_new(offsets, values, self.valid.finish())?))
    }
}

/// A type that Arrow can make from strings; for the rare ones, whose speed is of no concern.
struct Converted {
    data_type: DataType,
    can_be_null: bool,
    parts: Vec<ArrayRef>,
}

impl Column for Converted {
    fn append(&mut self, rows: &Rows<'_>, field: usize, nulls: &NullValues, faults: &mut Vec<Fault>) {
        let mut strings = Box::new(Strings::<i32>::new(self.can_be_null, rows.len()));
        strings.append(rows, field, nulls, faults);
        let Ok(strings) = strings.finish() else { return };
        let options = CastOptions { safe: true, ..CastOptions::default() };
        let Ok(converted) = cast_with_options(&strings, &self.data_type, &options) else { return };
        let texts = strings.as_any().downcast_ref::<StringArray>();
        for row in (0..strings.len()).filter(|row| strings.is_valid(*row) && converted.is_null(*row)) {
            faults.push(Rows::value_fault(row, field, texts.map_or("", |texts| texts.value(row)).as_bytes()));
        }
        self.parts.push(converted);
    }

    fn finish(self: Box<Self>) -> Result<ArrayRef, ArrowError> {
        let parts: Vec<&dyn Array> = self.parts.iter().map(AsRef::as_ref).collect();
        if parts.is_empty() { Ok(arrow_array::new_empty_array(&self.data_type)) } else { arrow_select::concat::concat(&parts) }
    }
}
