//! Columns of numbers, times and booleans that grow by JSON values.

use super::cursor::Cursor;
use super::fault::Fault;
use crate::records::value::{Date, Decimal, Float, Integer, Parse, TimeOfDay, Timestamp};
use arrow_array::builder::NullBufferBuilder;
use arrow_array::types::{
    ArrowPrimitiveType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, Time32MillisecondType, Time32SecondType,
    Time64MicrosecondType, Time64NanosecondType, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{ArrayRef, ArrowNativeTypeOp, PrimitiveArray};
use arrow_buffer::ScalarBuffer;
use arrow_schema::{ArrowError, DataType, TimeUnit};
use std::sync::Arc;

/// How a type is written in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Number,
    Text,
    NumberOrText,
}

/// One column of values of the same width.
pub(super) trait Scalars: Send {
    /// The next value, which is not null.
    fn append(&mut self, cursor: &mut Cursor<'_>, unescaped: &mut Vec<u8>) -> Result<(), Fault>;
    fn append_null(&mut self);
    fn len(&self) -> usize;
    fn truncate(&mut self, len: usize);
    fn finish(&mut self) -> Result<ArrayRef, ArrowError>;
}

/// `None` for a type that is not among them.
pub(super) fn scalars(data_type: &DataType) -> Option<Box<dyn Scalars>> {
    fn boxed<P: Parse + 'static>(parser: P, form: Form, data_type: &DataType) -> Box<dyn Scalars> {
        let (values, valid) = (Vec::new(), NullBufferBuilder::new(0));
        Box::new(Primitives { parser, form, data_type: data_type.clone(), values, valid })
    }
    let number = Form::Number;
    let text = Form::Text;
    Some(match data_type {
        DataType::Int8 => boxed(Integer::<Int8Type>::new(), number, data_type),
        DataType::Int16 => boxed(Integer::<Int16Type>::new(), number, data_type),
        DataType::Int32 => boxed(Integer::<Int32Type>::new(), number, data_type),
        DataType::Int64 => boxed(Integer::<Int64Type>::new(), number, data_type),
        DataType::UInt8 => boxed(Integer::<UInt8Type>::new(), number, data_type),
        DataType::UInt16 => boxed(Integer::<UInt16Type>::new(), number, data_type),
        DataType::UInt32 => boxed(Integer::<UInt32Type>::new(), number, data_type),
        DataType::UInt64 => boxed(Integer::<UInt64Type>::new(), number, data_type),
        DataType::Float32 => boxed(Float::<Float32Type>::new(), number, data_type),
        DataType::Float64 => boxed(Float::<Float64Type>::new(), number, data_type),
        DataType::Decimal128(precision, scale) => boxed(Decimal::new(*precision, *scale)?, Form::NumberOrText, data_type),
        DataType::Date32 => boxed(Date, text, data_type),
        DataType::Time32(unit @ TimeUnit::Second) => boxed(TimeOfDay::<Time32SecondType>::new(*unit), text, data_type),
        DataType::Time32(unit @ TimeUnit::Millisecond) => boxed(TimeOfDay::<Time32MillisecondType>::new(*unit), text, data_type),
        DataType::Time64(unit @ TimeUnit::Microsecond) => boxed(TimeOfDay::<Time64MicrosecondType>::new(*unit), text, data_type),
        DataType::Time64(unit @ TimeUnit::Nanosecond) => boxed(TimeOfDay::<Time64NanosecondType>::new(*unit), text, data_type),
        DataType::Timestamp(unit, zone) => match unit {
            TimeUnit::Second => boxed(Timestamp::<TimestampSecondType>::new(*unit, zone.is_some()), text, data_type),
            TimeUnit::Millisecond => boxed(Timestamp::<TimestampMillisecondType>::new(*unit, zone.is_some()), text, data_type),
            TimeUnit::Microsecond => boxed(Timestamp::<TimestampMicrosecondType>::new(*unit, zone.is_some()), text, data_type),
            TimeUnit::Nanosecond => boxed(Timestamp::<TimestampNanosecondType>::new(*unit, zone.is_some()), text, data_type),
        },
        _ => return None,
    })
}

struct Primitives<P: Parse> {
    parser: P,
    form: Form,
    data_type: DataType,
    values: Vec<<P::Arrow as ArrowPrimitiveType>::Native>,
    valid: NullBufferBuilder,
}

impl<P: Parse> Scalars for Primitives<P> {
    fn append(&mut self, cursor: &mut Cursor<'_>, unescaped: &mut Vec<u8>) -> Result<(), Fault> {
        let is_text = cursor.peek() == Some(b'"');
        let is_number = matches!(cursor.peek(), Some(b'-' | b'0'..=b'9'));
        let text = match self.form {
            Form::Text | Form::NumberOrText if is_text => cursor.string(unescaped)?,
            Form::Number | Form::NumberOrText if is_number => cursor.number()?,
            _ => {
                let start = cursor.clone();
                cursor.skip()?;
                return Err(Fault::value(cursor.since(&start), &self.data_type));
            }
        };
        match self.parser.parse_plain(text).or_else(|| self.parser.parse(text)) {
            Some(value) => {
                self.values.push(value);
                self.valid.append_non_null();
                Ok(())
            }
            None => Err(Fault::value(text, &self.data_type)),
        }
    }

    fn append_null(&mut self) {
        self.values.push(<P::Arrow as ArrowPrimitiveType>::Native::ZERO);
        self.valid.append_null();
    }

    fn len(&self) -> usize {
        self.values.len()
    }

    fn truncate(&mut self, len: usize) {
        self.values.truncate(len);
        self.valid.truncate(len);
    }

    fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        let values = ScalarBuffer::from(std::mem::take(&mut self.values));
        let array = PrimitiveArray::<P::Arrow>::try_new(values, self.valid.finish())?;
        Ok(Arc::new(array.with_data_type(self.data_type.clone())))
    }
}
