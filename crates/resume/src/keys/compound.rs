//! Compound ids as bytes: the concatenated values, with a length before those of variable length.

use super::IdSchema;
use super::columns::{Bytes, Narrow, Visit, visit};
use crate::Result;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::NullBuffer;

/// A window over several columns.
pub(super) struct RowBytes {
    columns: Vec<ArrayRef>,
    nulls: Option<NullBuffer>,
}

impl RowBytes {
    pub(super) fn new(schema: &IdSchema, ids: &[ArrayRef]) -> Result<Self> {
        schema.check(ids.iter().map(Array::data_type))?;
        let nulls = ids.iter().fold(None, |nulls: Option<NullBuffer>, array| {
            NullBuffer::union(nulls.as_ref(), array.nulls())
        });
        Ok(Self { columns: ids.to_vec(), nulls })
    }

    /// Returns false, with undefined content of `bytes`, if a part of the id is null
    /// or cannot be read.
    pub(super) fn append(&self, row: usize, bytes: &mut Vec<u8>) -> bool {
        if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            return false;
        }
        self.columns.iter().all(|column| {
            let mut value = Append { row, bytes, is_read: false };
            visit(column, &mut value).is_some() && value.is_read
        })
    }
}

struct Append<'a> {
    row: usize,
    bytes: &'a mut Vec<u8>,
    is_read: bool,
}

impl Visit for Append<'_> {
    fn narrow<N: Narrow>(&mut self, values: &N) {
        if let Some(key) = values.at(self.row) {
            self.bytes.extend_from_slice(&key.to_le_bytes());
            self.is_read = true;
        }
    }

    fn wide(&mut self, value: &dyn Fn(usize) -> Option<i128>) {
        if let Some(key) = value(self.row) {
            self.bytes.extend_from_slice(&key.to_le_bytes());
            self.is_read = true;
        }
    }

    fn bytes<B: Bytes>(&mut self, values: &B) {
        if let Some(value) = values.at(self.row) {
            let mut len = value.len;
            // LEB128, so that short values stay short.
            while len >= 0x80 {
                self.bytes.push(u8::try_from(len & 0x7f).unwrap_or_default() | 0x80);
                len >>= 7;
            }
            self.bytes.push(u8::try_from(len).unwrap_or_default());
            match value.bytes.get(..value.len) {
                Some(bytes) => self.bytes.extend_from_slice(bytes),
                None => self.bytes.extend(value.head.to_le_bytes().into_iter().take(value.len)),
            }
            self.is_read = true;
        }
    }
}
