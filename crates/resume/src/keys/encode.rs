//! Converts arrays to keys.

use super::columns::{Bytes, Narrow, Value, Visit, plain, visit};
use super::compound::RowBytes;
use super::text::{decimal, hex, long_decimal, uuid};
use super::{IdSchema, IdType, Keys, WideClass};
use crate::{Error, Result};
use arrow_array::{Array, ArrayRef};
use arrow_buffer::NullBuffer;
use highway::{HighwayHash, HighwayHasher, Key};
use std::ops::Range;

/// Number of rows that are converted together: small enough that keys stay in a near cache.
pub const WINDOW: usize = 1024;

/// Encodes ids, with the secret of one index.
#[derive(Debug, Clone)]
pub struct KeyEncoder {
    schema: IdSchema,
    hasher: HighwayHasher,
}

impl KeyEncoder {
    #[must_use]
    pub fn new(schema: IdSchema, secret: [u64; 4]) -> Self {
        Self { schema, hasher: HighwayHasher::new(Key(secret)) }
    }

    #[must_use]
    pub fn schema(&self) -> &IdSchema {
        &self.schema
    }

    /// Decodes dictionaries, and checks the types of the schema and equal lengths.
    ///
    /// # Errors
    /// As [`IdSchema::check`]; [`Error::Lengths`]; [`Error::Arrow`] for a damaged dictionary.
    pub fn prepare(&self, ids: &[ArrayRef]) -> Result<Vec<ArrayRef>> {
        self.schema.check(ids.iter().map(Array::data_type))?;
        if ids.windows(2).any(|pair| matches!(pair, [first, second] if first.len() != second.len()))
        {
            return Err(Error::Lengths);
        }
        ids.iter().map(plain).collect()
    }

    /// The keys of some rows of prepared columns; row numbers count from the start of `rows`. A row
    /// with a null in any column has no key.
    ///
    /// # Errors
    /// [`Error::TypeMismatch`] for columns that were not prepared.
    pub fn encode(&self, ids: &[ArrayRef], rows: Range<usize>, keys: &mut Keys) -> Result<()> {
        keys.clear();
        let (Some(column), [only]) = (self.schema.single(), ids) else {
            return self.encode_rows(ids, rows, keys);
        };
        let nulls = only.nulls().filter(|nulls| nulls.null_count() > 0);
        let mut window = Window { encoder: self, id_type: &column.id_type, nulls, rows, keys };
        visit(only, &mut window).ok_or_else(|| Error::UnsupportedType {
            column: column.name.clone(),
            data_type: only.data_type().clone(),
        })
    }

    fn encode_rows(&self, ids: &[ArrayRef], rows: Range<usize>, keys: &mut Keys) -> Result<()> {
        let columns = RowBytes::new(&self.schema, ids)?;
        let mut bytes = std::mem::take(&mut keys.bytes);
        for (number, row) in (0u32..).zip(rows) {
            bytes.clear();
            if !columns.append(row, &mut bytes) {
                keys.nulls += 1;
                continue;
            }
            let head =
                bytes.iter().take(16).rev().fold(0, |head, byte| head << 8 | u128::from(*byte));
            self.push_bytes(Value { head, len: bytes.len(), bytes: &bytes }, number, keys);
        }
        keys.bytes = bytes;
        Ok(())
    }

    fn push_text(&self, value: Value<'_>, row: u32, keys: &mut Keys) {
        let number = match value.len {
            0..=16 => decimal(value.head, value.len),
            17..=20 => long_decimal(value.bytes),
            _ => None,
        };
        if let Some(number) = number {
            return keys.narrow.push(row, number);
        }
        let wide = match value.len {
            0..=15 => Some((WideClass::Short, short(value))),
            32 => value.bytes.first_chunk().and_then(hex).map(|key| (WideClass::Hex, key)),
            36 => value.bytes.first_chunk().and_then(uuid).map(|key| (WideClass::Uuid, key)),
            _ => None,
        };
        let (class, key) = wide.unwrap_or_else(|| (WideClass::Hashed, self.hash(value.bytes)));
        keys.push_wide(class, row, key);
    }

    fn push_bytes(&self, value: Value<'_>, row: u32, keys: &mut Keys) {
        match value.len {
            0..=15 => keys.push_wide(WideClass::Short, row, short(value)),
            // A single length does not need to be stored.
            16 => keys.push_wide(WideClass::Fixed, row, value.head),
            _ => keys.push_wide(WideClass::Hashed, row, self.hash(value.bytes)),
        }
    }

    fn hash(&self, bytes: &[u8]) -> u128 {
        let [low, high] = self.hasher.clone().hash128(bytes);
        u128::from(high) << 64 | u128::from(low)
    }
}

fn short(value: Value<'_>) -> u128 {
    value.head | (value.len as u128) << 120
}

struct Window<'a> {
    encoder: &'a KeyEncoder,
    id_type: &'a IdType,
    nulls: Option<&'a NullBuffer>,
    rows: Range<usize>,
    keys: &'a mut Keys,
}

impl Window<'_> {
    /// Calls `push` for each row that is not null.
    fn each(&mut self, mut push: impl FnMut(&KeyEncoder, &mut Keys, u32, usize)) {
        for (number, row) in (0u32..).zip(self.rows.clone()) {
            if self.nulls.is_some_and(|nulls| nulls.is_null(row)) {
                self.keys.nulls += 1;
            } else {
                push(self.encoder, self.keys, number, row);
            }
        }
    }
}

impl Visit for Window<'_> {
    fn narrow<N: Narrow>(&mut self, values: &N) {
        self.each(|_, keys, number, row| {
            if let Some(key) = values.at(row) {
                keys.narrow.push(number, key);
            }
        });
    }

    fn wide(&mut self, value: &dyn Fn(usize) -> Option<i128>) {
        self.each(|_, keys, number, row| {
            if let Some(key) = value(row) {
                keys.push_wide(WideClass::Fixed, number, key.cast_unsigned());
            }
        });
    }

    fn bytes<B: Bytes>(&mut self, values: &B) {
        if *self.id_type == IdType::String {
            self.each(|encoder, keys, number, row| {
                if let Some(value) = values.at(row) {
                    encoder.push_text(value, number, keys);
                }
            });
        } else {
            self.each(|encoder, keys, number, row| {
                if let Some(value) = values.at(row) {
                    encoder.push_bytes(value, number, keys);
                }
            });
        }
    }
}
