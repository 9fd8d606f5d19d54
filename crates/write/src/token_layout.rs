//! How token files store rows: each id in a few bytes, and what an index says about them.
//!
//! The invariant: an id that does not fit is an error, never another id.

use crate::columns::missing;
use crate::token_index::TokenIndex;
use crate::{Error, Result};
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, OffsetSizeTrait, RecordBatch};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{DataType, Schema};
use shardmill_formats::table::type_name;
use shardmill_formats::token_files::{Dtype, STORED_DTYPE, llm_c_header};
use std::ops::RangeInclusive;

const TOKENS: &str = "tokens";
const LENGTHS: &str = "sequence_lengths";
const MODES: &str = "modes";
/// Megatron-LM stores ids below this one as uint16.
const MEGATRON_UINT16: u64 = 65_500;
const MOST_TOKENS: u64 = i32::MAX as u64;

/// How rows are stored.
#[derive(Debug, Clone)]
pub struct TokenLayout {
    pub kind: TokenKind,
    /// By default, it follows from `vocab_size`, or from the rows.
    pub dtype: Option<Dtype>,
    pub vocab_size: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenKind {
    /// `P.bin` and `P.idx`.
    Megatron,
    /// Without an index.
    Bin {
        /// That of llm.c.
        has_header: bool,
        /// Whether a row may begin in one file and end in another.
        cuts_documents: bool,
    },
}

/// Rows as they are stored.
#[derive(Debug, Default)]
pub(crate) struct StoredTokens {
    pub(crate) bytes: Vec<u8>,
    /// Of each row; of each token if rows may be cut.
    pub(crate) ends: Vec<usize>,
    pub(crate) index: TokenIndex,
}

/// Items of the lists of a column.
struct Lists {
    /// Of each row, counted in items.
    ends: Vec<usize>,
    items: ArrayRef,
}

impl TokenLayout {
    /// Determines the type by the first rows.
    pub(crate) fn settle(&mut self, schema: &Schema) -> Result<()> {
        let tokens = schema.field(self.tokens_column(schema)?);
        let source = tokens.metadata().get(STORED_DTYPE).and_then(|name| Dtype::parse(name));
        let item = match tokens.data_type() {
            DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
                item.data_type()
            }
            other => other,
        };
        self.dtype = Some(self.dtype_for(source.or_else(|| dtype_like(item))));
        Ok(())
    }

    /// That of files without rows if it was not determined.
    pub(crate) fn dtype(&self) -> Dtype {
        self.dtype_for(None)
    }

    fn dtype_for(&self, source: Option<Dtype>) -> Dtype {
        let is_megatron = self.kind == TokenKind::Megatron;
        let wide = if is_megatron { Dtype::I32 } else { Dtype::U32 };
        let narrow = if is_megatron { MEGATRON_UINT16 - 1 } else { 1 << 16 };
        let by_size = |ids| if ids <= narrow { Dtype::U16 } else { wide };
        let dtype = self.dtype.or_else(|| self.vocab_size.map(by_size)).or(source).unwrap_or(wide);
        match (self.kind, dtype) {
            (TokenKind::Megatron, Dtype::U32) => wide,
            (TokenKind::Bin { has_header: true, .. }, Dtype::U8) => Dtype::U16,
            (TokenKind::Bin { has_header: true, .. }, other) if other != Dtype::U16 => wide,
            (_, dtype) => dtype,
        }
    }

    /// The header of a file, with room for the number of tokens.
    pub(crate) fn header(&self, bytes: u64, path: &str) -> Result<Vec<u8>> {
        if !matches!(self.kind, TokenKind::Bin { has_header: true, .. }) {
            return Ok(Vec::new());
        }
        let room = llm_c_header(self.dtype(), 0).len() as u64;
        let tokens = bytes.saturating_sub(room) / self.dtype().width();
        match u32::try_from(tokens).ok().filter(|_| tokens <= MOST_TOKENS) {
            Some(tokens) => Ok(llm_c_header(self.dtype(), tokens)),
            None => Err(Error::ManyTokens { path: path.to_owned(), tokens }),
        }
    }

    /// The only column, or `tokens`. Others are those of an index.
    fn tokens_column(&self, schema: &Schema) -> Result<usize> {
        if schema.fields().len() == 1 {
            return Ok(0);
        }
        let known: &[&str] =
            if self.kind == TokenKind::Megatron { &[TOKENS, LENGTHS, MODES] } else { &[TOKENS] };
        let names = schema.fields().iter().map(|field| field.name().as_str());
        let others: Vec<&str> = names.filter(|name| !known.contains(name)).collect();
        if !others.is_empty() {
            let (columns, has_tokens) = (others.join(", "), schema.index_of(TOKENS).is_ok());
            return Err(Error::NoTokenColumn { columns, has_tokens });
        }
        schema.index_of(TOKENS).map_err(|_absent| missing(TOKENS, schema))
    }

    pub(crate) fn encode(&self, rows: &RecordBatch, first_row: u64) -> Result<StoredTokens> {
        let schema = rows.schema();
        let place = self.tokens_column(&schema)?;
        let name = schema.field(place).name();
        let tokens = lists(rows.column(place), name, first_row)?;
        let (dtype, width) = (self.dtype(), usize::try_from(self.dtype().width()).unwrap_or(1));
        let mut bytes = vec![0; tokens.items.len() * width];
        let outside = if *tokens.items.data_type() == DataType::Int32 && dtype != Dtype::I64 {
            let ids = tokens.items.as_primitive::<Int32Type>().values();
            stored_ids(ids, i32::to_le_bytes, &self.range(), width, &mut bytes)
        } else {
            let items = integers(&tokens.items, name)?;
            let ids = items.as_primitive::<Int64Type>().values();
            stored_ids(ids, i64::to_le_bytes, &self.range(), width, &mut bytes)
        };
        if let Some((place, id)) = outside {
            let row = tokens.ends.partition_point(|end| *end <= place);
            let start = row.checked_sub(1).and_then(|before| tokens.ends.get(before));
            return Err(Error::OutsideId {
                row: first_row + row as u64,
                place: (place - start.copied().unwrap_or_default()) as u64,
                id,
                range: self.range(),
                of: if self.range() == dtype.range() { dtype.name() } else { "the vocabulary" },
            });
        }
        let index = match self.kind {
            TokenKind::Megatron => index_of(rows, &tokens.ends, first_row)?,
            TokenKind::Bin { .. } => TokenIndex::default(),
        };
        let ends = match self.kind {
            TokenKind::Bin { cuts_documents: true, .. } => (1..=tokens.items.len()).collect(),
            _ => tokens.ends,
        };
        let ends = ends.into_iter().map(|end: usize| end * width).collect();
        Ok(StoredTokens { bytes, ends, index })
    }

    /// The ids that may be stored.
    fn range(&self) -> RangeInclusive<i64> {
        let held = self.dtype().range();
        match self.vocab_size.and_then(|size| i64::try_from(size).ok()) {
            Some(size) => 0..=(size - 1).min(*held.end()),
            None => held,
        }
    }
}

/// The type that holds the values of a column of this type, unless it is one of 64 bits: that of
/// any integer of Python.
fn dtype_like(item: &DataType) -> Option<Dtype> {
    match item {
        DataType::UInt8 => Some(Dtype::U8),
        DataType::Int8 => Some(Dtype::I8),
        DataType::UInt16 => Some(Dtype::U16),
        DataType::Int16 => Some(Dtype::I16),
        DataType::UInt32 => Some(Dtype::U32),
        DataType::Int32 => Some(Dtype::I32),
        _ => None,
    }
}

fn lists(column: &ArrayRef, name: &str, first_row: u64) -> Result<Lists> {
    let null =
        |row: usize| Error::NullTokens { column: name.to_owned(), row: first_row + row as u64 };
    if let Some(nulls) = column.nulls().filter(|nulls| nulls.null_count() > 0) {
        let row = nulls.iter().position(|is_valid| !is_valid).unwrap_or_default();
        return Err(null(row));
    }
    let found = match column.data_type() {
        DataType::List(_) => {
            let column = column.as_list::<i32>();
            within(column.value_offsets(), column.values())
        }
        DataType::LargeList(_) => {
            let column = column.as_list::<i64>();
            within(column.value_offsets(), column.values())
        }
        DataType::FixedSizeList(_, len) => {
            let len = usize::try_from(*len).unwrap_or_default();
            let ends = (1..=column.len()).map(|row| row * len).collect();
            Lists { ends, items: ArrayRef::clone(column.as_fixed_size_list().values()) }
        }
        other => {
            return Err(Error::NoTokens { column: name.to_owned(), data_type: type_name(other) });
        }
    };
    if let Some(nulls) = found.items.nulls().filter(|nulls| nulls.null_count() > 0) {
        let place = nulls.iter().position(|is_valid| !is_valid).unwrap_or_default();
        return Err(null(found.ends.partition_point(|end| *end <= place)));
    }
    Ok(found)
}

fn within<O: OffsetSizeTrait>(offsets: &[O], items: &ArrayRef) -> Lists {
    let (start, ends) =
        offsets.split_first().map_or((0, offsets), |(first, rest)| (first.as_usize(), rest));
    let ends: Vec<usize> = ends.iter().map(|end| end.as_usize() - start).collect();
    let items = items.slice(start, ends.last().copied().unwrap_or_default());
    Lists { ends, items }
}

fn integers(items: &ArrayRef, column: &str) -> Result<ArrayRef> {
    let data_type = items.data_type();
    if !data_type.is_integer() && *data_type != DataType::Null {
        let (column, data_type) =
            (column.to_owned(), format!("a list of {}", type_name(data_type)));
        return Err(Error::NoTokens { column, data_type });
    }
    let exact = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(items, &DataType::Int64, &exact).map_err(|source| Error::Columns { source })
}

/// Stores the first `width` of the bytes of each id. The place of the first id that is not in
/// `range`, and the id.
fn stored_ids<T: Copy + Ord + Into<i64>, const BYTES: usize>(
    ids: &[T],
    bytes_of: impl Fn(T) -> [u8; BYTES],
    range: &RangeInclusive<i64>,
    width: usize,
    stored: &mut [u8],
) -> Option<(usize, i64)> {
    let is_outside = |id: T| !range.contains(&id.into());
    let ends = [ids.iter().copied().reduce(T::min), ids.iter().copied().reduce(T::max)];
    if ends.into_iter().flatten().any(is_outside) {
        let place = ids.iter().position(|id| is_outside(*id))?;
        return Some((place, (*ids.get(place)?).into()));
    }
    let bytes = ids.iter().map(|id| bytes_of(*id));
    match width {
        1 => store::<1, BYTES>(bytes, stored),
        2 => store::<2, BYTES>(bytes, stored),
        4 => store::<4, BYTES>(bytes, stored),
        _ => store::<8, BYTES>(bytes, stored),
    }
    None
}

fn store<const WIDTH: usize, const BYTES: usize>(
    ids: impl Iterator<Item = [u8; BYTES]>,
    stored: &mut [u8],
) {
    for (place, id) in stored.as_chunks_mut::<WIDTH>().0.iter_mut().zip(ids) {
        if let Some(low) = id.first_chunk() {
            *place = *low;
        }
    }
}

/// What an index of Megatron-LM says about rows whose tokens have these ends.
fn index_of(rows: &RecordBatch, ends: &[usize], first_row: u64) -> Result<TokenIndex> {
    let mut index = TokenIndex::default();
    let given = numbers(rows, LENGTHS, first_row)?;
    let modes = numbers(rows, MODES, first_row)?;
    let mut start = 0;
    for (number, end) in ends.iter().enumerate() {
        let (row, tokens) = (first_row + number as u64, (end - start) as u64);
        if tokens > MOST_TOKENS {
            return Err(Error::LongRow { row, tokens });
        }
        let before = index.lengths.len();
        match &given {
            Some(given) => {
                let lengths = given.of_row(number);
                let sum: i128 = lengths.iter().copied().map(i128::from).sum();
                index.lengths.extend(lengths.iter().flat_map(|length| u32::try_from(*length)));
                if index.lengths.len() - before != lengths.len() || sum != i128::from(tokens) {
                    let least = lengths.iter().min().copied().unwrap_or_default();
                    let found = format!("sequences of {sum} tokens, the shortest of {least}");
                    let expected = format!("{tokens} in all, and none below 0");
                    return Err(Error::OtherSequences { row, found, expected });
                }
            }
            None => index.lengths.extend(u32::try_from(tokens).ok().filter(|tokens| *tokens > 0)),
        }
        let sequences = index.lengths.len() - before;
        index.sequences.push(u32::try_from(sequences).unwrap_or(u32::MAX));
        if let Some(modes) = &modes {
            let found = modes.of_row(number);
            let valid = found.iter().filter_map(|mode| i8::try_from(*mode).ok());
            let valid: Vec<u8> = valid.map(i8::cast_unsigned).collect();
            if valid.len() != found.len() || found.len() != sequences {
                let found = format!("{} modes, {} of them of int8", found.len(), valid.len());
                let expected = format!("{sequences}, as many as sequences");
                return Err(Error::OtherSequences { row, found, expected });
            }
            index.modes.extend(valid);
        }
        start = *end;
    }
    Ok(index)
}

impl Lists {
    /// Those of int64 of a row.
    fn of_row(&self, row: usize) -> &[i64] {
        let start = row.checked_sub(1).and_then(|before| self.ends.get(before));
        let range = start.copied().unwrap_or_default()..self.ends.get(row).copied().unwrap_or(0);
        self.items.as_primitive::<Int64Type>().values().get(range).unwrap_or_default()
    }
}

/// The int64 of a column that rows may have.
fn numbers(rows: &RecordBatch, name: &str, first_row: u64) -> Result<Option<Lists>> {
    let Some(column) = rows.column_by_name(name).filter(|_| rows.num_columns() > 1) else {
        return Ok(None);
    };
    let Lists { ends, items } = lists(column, name, first_row)?;
    Ok(Some(Lists { ends, items: integers(&items, name)? }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_beyond_31_bits_are_refused() {
        let tokens = MOST_TOKENS + 1;
        let rows = RecordBatch::new_empty(std::sync::Arc::new(Schema::empty()));
        let ends = [1, usize::try_from(tokens).unwrap() + 1];
        let row = index_of(&rows, &ends, 5);
        assert!(matches!(row, Err(Error::LongRow { row: 6, tokens: found }) if found == tokens));
        assert!(index_of(&rows, &[1, usize::try_from(tokens).unwrap()], 5).is_ok());
        let kind = TokenKind::Bin { has_header: true, cuts_documents: false };
        let layout = TokenLayout { kind, dtype: Some(Dtype::U16), vocab_size: None };
        let file = layout.header(1024 + 2 * tokens, "x.bin");
        assert!(matches!(file, Err(Error::ManyTokens { tokens: found, .. }) if found == tokens));
        assert!(layout.header(1022 + 2 * tokens, "x.bin").is_ok());
    }
}
