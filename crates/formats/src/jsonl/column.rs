//! Columns that are built from JSON values.

use super::cursor::Cursor;
use super::fault::Fault;
use super::growth::Growth;
use super::nested::{Lists, Structs};
use super::scalar::{Scalars, scalars};
use crate::records::Strings;
use crate::table::fields_of;
use arrow_array::builder::NullBufferBuilder;
use arrow_array::{ArrayRef, BooleanArray, NullArray, OffsetSizeTrait};
use arrow_buffer::BooleanBufferBuilder;
use arrow_schema::{ArrowError, DataType};
use std::sync::Arc;

/// The values of `data_type` that JSON texts spell. `None` when JSON Lines does not support the
/// type.
///
/// # Errors
/// `misfit` of the first row that the type cannot hold exactly.
pub fn parsed_json<'a, E: From<ArrowError>>(
    texts: impl Iterator<Item = Option<&'a str>>,
    data_type: &DataType,
    misfit: impl FnOnce(usize) -> E,
) -> Option<Result<ArrayRef, E>> {
    let mut column = Column::new(data_type, data_type)?;
    // As for inferred types: nothing is rounded, skipped or written as a text.
    let mut growth = Growth { is_inferred: true, ..Growth::default() };
    for (row, text) in texts.enumerate() {
        let mut cursor = Cursor::new(text.unwrap_or("null").as_bytes());
        if column.append(&mut cursor, &mut growth).and_then(|()| cursor.end()).is_err() {
            return Some(Err(misfit(row)));
        }
    }
    Some(column.finish().map_err(E::from))
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
    /// `data_type` is `whole`, or the items of this list, without the fields that are not selected.
    /// `None` when JSON Lines does not support it.
    pub(super) fn new(data_type: &DataType, whole: &DataType) -> Option<Self> {
        Some(match data_type {
            DataType::Null => Self::Nulls { len: 0 },
            DataType::Boolean => Self::Booleans {
                values: BooleanBufferBuilder::new(0),
                valid: NullBufferBuilder::new(0),
            },
            DataType::Utf8 => Self::Strings(Strings::new(0)),
            DataType::LargeUtf8 => Self::LargeStrings(Strings::new(0)),
            DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(_, _) => {
                Self::Lists(Lists::new(data_type, whole)?)
            }
            DataType::Struct(fields) => {
                Self::Structs(Structs::new(fields, fields_of(whole).unwrap_or(fields))?)
            }
            other => Self::Scalars(scalars(other)?),
        })
    }

    /// Appends the next value. After an error the column may hold part of it; the caller truncates.
    pub(super) fn append(
        &mut self,
        cursor: &mut Cursor<'_>,
        growth: &mut Growth,
    ) -> Result<(), Fault> {
        if cursor.peek() == Some(b'n') {
            cursor.literal("null")?;
            self.append_null();
            return Ok(());
        }
        let (start, len) = (cursor.clone(), self.len());
        match self.append_value(cursor, growth) {
            Err(Fault::Value { .. } | Fault::InvalidUtf8 { .. } | Fault::Duplicate { .. })
                if growth.is_lenient =>
            {
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
        if growth.refuses_nan && cursor.is_non_finite() {
            return Err(cursor.misfit(&DataType::Float64));
        }
        match self {
            Self::Nulls { .. } => Err(cursor.misfit(&DataType::Null)),
            Self::Booleans { values, valid } => {
                let value = cursor.peek() == Some(b't');
                match cursor.peek() {
                    Some(b't') => cursor.literal("true")?,
                    Some(b'f') => cursor.literal("false")?,
                    _ => return Err(cursor.misfit(&DataType::Boolean)),
                }
                values.append(value);
                valid.append_non_null();
                Ok(())
            }
            Self::Scalars(scalars) => scalars.append(cursor, growth),
            Self::Strings(strings) => append_string(strings, cursor, growth, &DataType::Utf8),
            Self::LargeStrings(strings) => {
                append_string(strings, cursor, growth, &DataType::LargeUtf8)
            }
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
            Self::Strings(strings) => strings.len(),
            Self::LargeStrings(strings) => strings.len(),
            Self::Lists(lists) => lists.len(),
            Self::Structs(structs) => structs.len(),
        }
    }

    /// Removes all values after the first `new_len`.
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
            Self::Booleans { values, valid } => {
                Ok(Arc::new(BooleanArray::new(values.finish(), valid.finish())))
            }
            Self::Scalars(scalars) => scalars.finish(),
            Self::Strings(strings) => strings.finish(),
            Self::LargeStrings(strings) => strings.finish(),
            Self::Lists(lists) => lists.finish(),
            Self::Structs(structs) => structs.finish(),
        }
    }
}

fn append_string<O: OffsetSizeTrait>(
    strings: &mut Strings<O>,
    cursor: &mut Cursor<'_>,
    growth: &mut Growth,
    data_type: &DataType,
) -> Result<(), Fault> {
    let start = cursor.clone();
    let text = match cursor.peek() {
        Some(b'"') => cursor.string(&mut growth.unescaped)?,
        // A given schema asks for the JSON text of values that are not strings.
        _ if !growth.is_inferred => {
            cursor.skip()?;
            cursor.since(&start).trim_ascii_start()
        }
        _ => return Err(cursor.misfit(data_type)),
    };
    if std::str::from_utf8(text).is_err() {
        return Err(Fault::InvalidUtf8 { field: String::new() });
    }
    strings.push(Some(text));
    Ok(())
}
