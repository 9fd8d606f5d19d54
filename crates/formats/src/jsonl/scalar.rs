//! Columns of numbers and times that are built from JSON values.

use super::cursor::Cursor;
use super::fault::Fault;
use super::growth::Growth;
use crate::records::Values;
use crate::records::value::{Parse, UseParser, is_rounded, with_parser};
use arrow_array::ArrayRef;
use arrow_schema::{ArrowError, DataType};

/// A column of values of the same width.
pub(super) trait Scalars: Send {
    /// Appends the next value, which is not null.
    fn append(&mut self, cursor: &mut Cursor<'_>, growth: &mut Growth) -> Result<(), Fault>;
    fn append_null(&mut self);
    fn len(&self) -> usize;
    fn truncate(&mut self, len: usize);
    fn finish(&mut self) -> Result<ArrayRef, ArrowError>;
}

/// `None` for other types.
pub(super) fn scalars(data_type: &DataType) -> Option<Box<dyn Scalars>> {
    with_parser(data_type, Boxed(data_type))
}

struct Boxed<'a>(&'a DataType);

impl UseParser for Boxed<'_> {
    type Made = Box<dyn Scalars>;

    fn with<P: Parse + 'static>(self, parser: P) -> Box<dyn Scalars> {
        let is_decimal = self.0.is_decimal();
        let (is_number, is_text) =
            (is_decimal || self.0.is_numeric(), is_decimal || self.0.is_temporal());
        Box::new(Primitives {
            values: Values::new(parser, self.0, 0),
            is_number,
            is_text,
            is_double: *self.0 == DataType::Float64,
        })
    }
}

struct Primitives<P: Parse> {
    values: Values<P>,
    /// Whether the type is a number in JSON; a decimal may be a number or a string.
    is_number: bool,
    is_text: bool,
    is_double: bool,
}

impl<P: Parse> Scalars for Primitives<P> {
    fn append(&mut self, cursor: &mut Cursor<'_>, growth: &mut Growth) -> Result<(), Fault> {
        let text = match cursor.peek() {
            Some(b'"') if self.is_text => cursor.string(&mut growth.unescaped)?,
            Some(b'-' | b'0'..=b'9' | b'N' | b'I') if self.is_number => cursor.number()?,
            _ => return Err(cursor.misfit(self.values.data_type())),
        };
        if self.is_double && growth.is_inferred && is_rounded(text) {
            return Err(Fault::value(text, self.values.data_type()));
        }
        if self.values.push_text(text) {
            Ok(())
        } else {
            Err(Fault::value(text, self.values.data_type()))
        }
    }

    fn append_null(&mut self) {
        self.values.push_null();
    }

    fn len(&self) -> usize {
        self.values.len()
    }

    fn truncate(&mut self, len: usize) {
        self.values.truncate(len);
    }

    fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        self.values.finish()
    }
}
