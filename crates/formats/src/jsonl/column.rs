//! Columns that grow by JSON values.

use super::cursor::Cursor;
use super::fault::Fault;
use super::nested::{Lists, Structs};
use super::scalar::{Scalars, scalars};
use arrow_array::builder::NullBufferBuilder;
use arrow_array::{ArrayRef, BooleanArray, GenericStringArray, NullArray, OffsetSizeTrait};
use arrow_buffer::{BooleanBufferBuilder, Buffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType};
use std::sync::Arc;

/// What the columns of a block share while they grow.
#[derive(Debug, Default)]
pub(super) struct Growth {
    pub(super) unescaped: Vec<u8>,
    /// A value that does not fit becomes null; else it ends the line.
    pub(super) is_lenient: bool,
}

/// One column or field.
pub(super) enum Column {
    Nulls { len: usize },
    Booleans { values: BooleanBufferBuilder, valid: NullBufferBuilder },
    Scalars(Box<dyn Scalars>),
    Strings(Strings<i32>),
    LargeStrings(Strings<i64>),
    Lists(Lists),
    Structs(Structs),
}

impl Column {
    /// `None` when JSON Lines cannot hold `data_type`.
    pub(super) fn new(data_type: &DataType) -> Option<Self> {
        Some(match data_type {
            DataType::Null => Self::Nulls { len: 0 },
            DataType::Boolean => Self::Booleans { values: BooleanBufferBuilder::new(0), valid: NullBufferBuilder::new(0) },
            DataType::Utf8 => Self::Strings(Strings::new()),
            DataType::LargeUtf8 => Self::LargeStrings(Strings::new()),
            DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(_, _) => Self::Lists(Lists::new(data_type)?),
            DataType::Struct(fields) => Self::Structs(Structs::new(fields)?),
            other => Self::Scalars(scalars(other)?),
        })
    }

    /// The next value. After an error the column may hold part of it; the caller truncates.
    pub(super) fn append(&mut self, cursor: &mut Cursor<'_>, growth: &mut Growth) -> Result<(), Fault> {
        if cursor.peek() == Some(b'n') {
            cursor.literal("null")?;
            self.append_null();
            return Ok(());
        }
        let (start, len) = (cursor.clone(), self.len());
        match self.append_value(cursor, growth) {
            Err(Fault::Value { .. } | Fault::InvalidUtf8 { .. } | Fault::Duplicate { .. }) if growth.is_lenient => {
                self.truncate(len);
                *cursor = start;
                cursor.skip()?;
                self.append_null();
                Ok(())
            }
            appended => appended,
        }
    }

    fn append_value(&mut self, cursor: &mut Cursor<'_>, growth: &mut Growth) -> Result<(), Fault> {
        match self {
            Self::Nulls { .. } => Err(misfit(cursor, &DataType::Null)),
            Self::Booleans { values, valid } => {
                let value = cursor.peek() == Some(b't');
                match cursor.peek() {
                    Some(b't') => cursor.literal("true")?,
                    Some(b'f') => cursor.literal("false")?,
                    _ => return Err(misfit(cursor, &DataType::Boolean)),
                }
                values.append(value);
                valid.append_non_null();
                Ok(())
            }
            Self::Scalars(scalars) => scalars.append(cursor, &mut growth.unescaped),
            Self::Strings(strings) => strings.append(cursor, &mut growth.unescaped, &DataType::Utf8),
            Self::LargeStrings(strings) => strings.append(cursor, &mut growth.unescaped, &DataType::LargeUtf8),
            Self::Lists(lists) => lists.append(cursor, growth),
            Self::Structs(structs) => structs.append(cursor, growth),
        }
    }

    pub(super) fn append_null(&mut self) {
        match self {
            Self::Nulls { len } => *len += 1,
            Self::Booleans { values, valid } => {
                values.append(false);
                valid.append_null();
            }
            Self::Scalars(scalars) => scalars.append_null(),
            Self::Strings(strings) => strings.push(None),
            Self::LargeStrings(strings) => strings.push(None),
            Self::Lists(lists) => lists.append_null(),
            Self::Structs(structs) => structs.append_null(),
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Nulls { len } => *len,
            Self::Booleans { values, .. } => values.len(),
            Self::Scalars(scalars) => scalars.len(),
            Self::Strings(strings) => strings.valid.len(),
            Self::LargeStrings(strings) => strings.valid.len(),
            Self::Lists(lists) => lists.len(),
            Self::Structs(structs) => structs.len(),
        }
    }

    /// Forgets all values behind the first `new_len`.
    pub(super) fn truncate(&mut self, new_len: usize) {
        match self {
            Self::Nulls { len } => *len = new_len.min(*len),
            Self::Booleans { values, valid } => {
                values.truncate(new_len);
                valid.truncate(new_len);
            }
            Self::Scalars(scalars) => scalars.truncate(new_len),
            Self::Strings(strings) => strings.truncate(new_len),
            Self::LargeStrings(strings) => strings.truncate(new_len),
            Self::Lists(lists) => lists.truncate(new_len),
            Self::Structs(structs) => structs.truncate(new_len),
        }
    }

    pub(super) fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        match self {
            Self::Nulls { len } => Ok(Arc::new(NullArray::new(*len))),
            Self::Booleans { values, valid } => Ok(Arc::new(BooleanArray::new(values.finish(), valid.finish()))),
            Self::Scalars(scalars) => scalars.finish(),
            Self::Strings(strings) => strings.finish(),
            Self::LargeStrings(strings) => strings.finish(),
            Self::Lists(lists) => lists.finish(),
            Self::Structs(structs) => structs.finish(),
        }
    }
}

/// The value at the cursor is of another type.
pub(super) fn misfit(cursor: &mut Cursor<'_>, data_type: &DataType) -> Fault {
    let start = cursor.clone();
    match cursor.skip() {
        Ok(()) => Fault::value(cursor.since(&start), data_type),
        Err(syntax) => syntax,
    }
}

pub(super) struct Strings<O> {
    values: Vec<u8>,
    offsets: Vec<O>,
    valid: NullBufferBuilder,
}

impl<O: OffsetSizeTrait> Strings<O> {
    fn new() -> Self {
        Self { values: Vec::new(), offsets: vec![O::zero()], valid: NullBufferBuilder::new(0) }
    }

    fn append(&mut self, cursor: &mut Cursor<'_>, unescaped: &mut Vec<u8>, data_type: &DataType) -> Result<(), Fault> {
        if cursor.peek() != Some(b'"') {
            return Err(misfit(cursor, data_type));
        }
        let text = cursor.string(unescaped)?;
        if std::str::from_utf8(text).is_err() {
            return Err(Fault::InvalidUtf8 { field: String::new() });
        }
        self.push(Some(text));
        Ok(())
    }

    fn push(&mut self, text: Option<&[u8]>) {
        self.values.extend_from_slice(text.unwrap_or_default());
        // A block is shorter than 2 GiB, and so are the texts in it.
        self.offsets.push(O::from_usize(self.values.len()).unwrap_or_default());
        self.valid.append(text.is_some());
    }

    fn truncate(&mut self, len: usize) {
        self.offsets.truncate(len + 1);
        self.values.truncate(self.offsets.last().map_or(0, |end| end.as_usize()));
        self.valid.truncate(len);
    }

    fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        let offsets = OffsetBuffer::new(ScalarBuffer::from(std::mem::take(&mut self.offsets)));
        let values = Buffer::from_vec(std::mem::take(&mut self.values));
        Ok(Arc::new(GenericStringArray::<O>::try_new(offsets, values, self.valid.finish())?))
    }
}
