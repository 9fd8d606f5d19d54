//! A file of tokens as a table: one row per document.

use super::blocks::{Border, cut};
use super::column::Column;
use super::documents::{Documents, Spans};
use super::dtype::Ids;
use super::entries::Pages;
use super::flat::FlatRows;
use super::npy::{lengths, mask_of};
use super::{DatatroveFiles, Dtype, FlatFile, MegatronIndex, MegatronRows, Separator};
use crate::limit::DecodeLimit;
use crate::table::{Block, TableError, TableFile};
use crate::token_error::Error;
use arrow_array::{
    ArrayRef, BooleanArray, Int8Array, Int32Array, Int64Array, ListArray, RecordBatch,
    RecordBatchOptions,
};
use arrow_buffer::{
    ArrowNativeType, BooleanBuffer, BooleanBufferBuilder, OffsetBuffer, ScalarBuffer,
};
use arrow_schema::{ArrowError, DataType, Schema, SchemaRef};
use shardmill_storage::{RangeRead, whole_if_small};
use std::ops::Range;
use std::sync::Arc;
use xxhash_rust::xxh3::Xxh3Default;

/// Tokens of a local file are widened in pieces, a whole number of the widest.
const PIECE_BYTES: u64 = 128 << 10;

/// How token files are read.
#[derive(Debug, Clone, Default)]
pub struct TokenOptions {
    pub rows: MegatronRows,
    /// How files that do not say it store an id.
    pub dtype: Option<Dtype>,
    /// What separates rows of files without an index.
    pub separator: Separator,
    /// Every id must be below it.
    pub vocab_size: Option<u64>,
    pub limit: DecodeLimit,
}

/// An open file of tokens, with its index.
#[derive(Debug)]
pub struct TokenTable {
    tokens: Arc<dyn RangeRead>,
    dtype: Dtype,
    /// One byte, 0 or 1, for each token.
    mask: Option<Arc<dyn RangeRead>>,
    documents: Box<dyn Documents>,
    columns: Vec<Column>,
    schema: SchemaRef,
    /// Of the blocks, and of their end.
    borders: Vec<Border>,
    blocks: Vec<Block>,
    vocab_size: Option<u64>,
    limit: DecodeLimit,
    digest: u128,
}

impl TokenTable {
    /// Opens `tokens`, `P.bin` of Megatron-LM, with its index `P.idx`.
    ///
    /// # Errors
    /// As [`MegatronIndex::open`], and when a block cannot begin where the index says.
    pub fn megatron(
        tokens: Arc<dyn RangeRead>,
        index: Arc<dyn RangeRead>,
        options: &TokenOptions,
    ) -> Result<Self, Error> {
        let object = if index.is_remote() { whole_if_small(index)? } else { index };
        let index = MegatronIndex::open(object, tokens.size(), options.rows, options.limit)?;
        let (dtype, object) = (index.dtype, Arc::clone(index.object()));
        let mut columns = vec![Column::Tokens];
        columns.extend(index.has_modes().then_some(Column::Modes));
        columns.extend([Column::SequenceLengths, Column::NumTokens]);
        Self::new(Parts { tokens, dtype, mask: None, columns }, Box::new(index), &*object, options)
    }

    /// Opens `tokens`, `X.ds` of datatrove, with the files beside it.
    ///
    /// # Errors
    /// When the files do not agree, and when a block cannot begin where the index says.
    pub fn datatrove(
        tokens: Arc<dyn RangeRead>,
        mut files: DatatroveFiles,
        options: &TokenOptions,
    ) -> Result<Self, Error> {
        if files.index.is_remote() {
            files.index = whole_if_small(files.index)?;
        }
        let (index, dtype) = files.open(tokens.path(), tokens.size())?;
        let mut columns = vec![Column::Tokens];
        columns.extend(files.loss.is_some().then_some(Column::LossMask));
        columns.push(Column::NumTokens);
        let parts = Parts { tokens, dtype, mask: files.loss, columns };
        Self::new(parts, Box::new(index), &*files.index, options)
    }

    /// Opens a file without an index. `lengths` are those of [`FlatFile::row_lengths`].
    ///
    /// # Errors
    /// When `lengths` do not cover all tokens, or no token can be the separator.
    pub fn flat(
        file: FlatFile,
        lengths: &[u32],
        separator: Separator,
        options: &TokenOptions,
    ) -> Result<Self, Error> {
        file.check_separator(separator)?;
        Self::of_rows(file, lengths, separator, None, options)
    }

    /// Opens `X.npy` of OLMo-core or dolma with its `X.csv.gz`, and with its mask if there is one.
    ///
    /// # Errors
    /// For a line that does not go on where the previous one ends, and for a mask of another
    /// length.
    pub fn npy(
        file: FlatFile,
        csv: &dyn RangeRead,
        mask: Option<Arc<dyn RangeRead>>,
        options: &TokenOptions,
    ) -> Result<Self, Error> {
        let lengths = lengths(&file, csv)?;
        let mask = mask.map(|mask| mask_of(&file, mask)).transpose()?;
        Self::of_rows(file, &lengths, Separator::default(), mask, options)
    }

    fn of_rows(
        file: FlatFile,
        lengths: &[u32],
        separator: Separator,
        mask: Option<Arc<dyn RangeRead>>,
        options: &TokenOptions,
    ) -> Result<Self, Error> {
        let other = || Error::OtherLength { path: file.object.path().to_owned(), offset: 0 };
        let rows = FlatRows::new(&file, lengths, Some(separator)).ok_or_else(other)?;
        let mut columns = vec![Column::Tokens];
        columns.extend(mask.is_some().then_some(Column::LossMask));
        columns.push(Column::NumTokens);
        let index = Arc::clone(&file.object);
        let parts = Parts { tokens: file.object, dtype: file.dtype, mask, columns };
        Self::new(parts, Box::new(rows), &*index, options)
    }

    fn new(
        parts: Parts,
        documents: Box<dyn Documents>,
        index: &dyn RangeRead,
        options: &TokenOptions,
    ) -> Result<Self, Error> {
        let Parts { tokens, dtype, mask, columns } = parts;
        let borders = cut(&*documents, &mut Pages::new(index))?;
        let mut digest = Xxh3Default::new();
        digest.update(dtype.name().as_bytes());
        for number in [index.size(), tokens.size(), documents.count()] {
            digest.update(&number.to_le_bytes());
        }
        let blocks = borders.windows(2).filter_map(|ends| {
            let [first, next] = ends else { return None };
            digest.update(&next.start.to_le_bytes());
            let stored_bytes = next.start.saturating_sub(first.start);
            let rows = next.document - first.document;
            let decoded_bytes = decoded_size(dtype, stored_bytes, rows);
            Some(Block { rows, decoded_bytes, stored_bytes })
        });
        let blocks = blocks.collect();
        let fields = columns.iter().map(|column| column.field(dtype)).collect::<Vec<_>>();
        Ok(Self {
            tokens,
            dtype,
            mask,
            documents,
            columns,
            schema: Arc::new(Schema::new(fields)),
            borders,
            blocks,
            vocab_size: options.vocab_size,
            limit: options.limit,
            digest: digest.digest128(),
        })
    }

    fn no_such(&self, index: usize) -> Error {
        Error::NoSuchPart { path: self.tokens.path().to_owned(), index }
    }

    fn arrow(&self, source: ArrowError) -> Error {
        Error::Arrow { path: self.tokens.path().to_owned(), source }
    }

    /// The sequences of a block, and its selected documents.
    fn selected(
        &self,
        block: usize,
        selection: Option<&BooleanBuffer>,
    ) -> Result<(Spans, Vec<usize>), Error> {
        let ends = self.borders.get(block).zip(self.borders.get(block + 1));
        let (first, next) = ends.ok_or_else(|| self.no_such(block))?;
        let rows = usize::try_from(next.document - first.document).unwrap_or(usize::MAX);
        let documents: Vec<usize> = match selection {
            None => (0..rows).collect(),
            Some(selection) => selection.set_indices().filter(|row| *row < rows).collect(),
        };
        let is_empty = documents.is_empty();
        let range = first.document..if is_empty { first.document } else { next.document };
        let spans = if is_empty { Spans::default() } else { self.documents.spans(range)? };
        Ok((spans, documents))
    }

    fn read_block(
        &self,
        block: usize,
        columns: &[usize],
        selection: Option<&BooleanBuffer>,
    ) -> Result<RecordBatch, Error> {
        let wanted = columns
            .iter()
            .map(|column| self.columns.get(*column).copied().ok_or_else(|| self.no_such(*column)))
            .collect::<Result<Vec<_>, _>>()?;
        let (spans, documents) = if wanted.is_empty() {
            let all = || self.blocks.get(block).map_or(0, |block| block.rows);
            let rows = match selection {
                Some(selection) => selection.count_set_bits(),
                None => usize::try_from(all()).unwrap_or(usize::MAX),
            };
            (Spans::default(), vec![0; rows])
        } else {
            self.selected(block, selection)?
        };
        let array = |column: &Column| match column {
            Column::Tokens => self.lists_of_tokens(block, &spans, &documents),
            Column::LossMask => self.lists_of_mask(&spans, &documents),
            Column::Modes => {
                let modes = spans.modes.as_deref().unwrap_or_default();
                let modes =
                    |range: Range<usize>| modes.get(range).unwrap_or_default().iter().copied();
                let values = documents.iter().flat_map(|document| modes(spans.of(*document)));
                self.lists(
                    *column,
                    &spans,
                    &documents,
                    Arc::new(Int8Array::from_iter_values(values)),
                )
            }
            Column::SequenceLengths => {
                let lengths =
                    |range: Range<usize>| spans.tokens.get(range).unwrap_or_default().iter();
                let values = documents.iter().flat_map(|document| lengths(spans.of(*document)));
                let values = values.map(|tokens| tokens.cast_signed());
                let values = Arc::new(Int32Array::from_iter_values(values));
                self.lists(*column, &spans, &documents, values)
            }
            Column::NumTokens => {
                let lengths = documents.iter().map(|document| spans.length(*document));
                let lengths = lengths.map(u64::cast_signed);
                Ok(Arc::new(Int64Array::from_iter_values(lengths)) as ArrayRef)
            }
        };
        let arrays = wanted.iter().map(array).collect::<Result<Vec<_>, _>>()?;
        let schema = Arc::new(self.schema.project(columns).map_err(|source| self.arrow(source))?);
        let options = RecordBatchOptions::new().with_row_count(Some(documents.len()));
        RecordBatch::try_new_with_options(schema, arrays, &options)
            .map_err(|source| self.arrow(source))
    }

    /// One list of each document, with a value for each of its sequences.
    fn lists(
        &self,
        column: Column,
        spans: &Spans,
        documents: &[usize],
        values: ArrayRef,
    ) -> Result<ArrayRef, Error> {
        let lengths = documents.iter().map(|document| spans.of(*document).len());
        self.list(column, OffsetBuffer::from_lengths(lengths), values)
    }

    fn list(
        &self,
        column: Column,
        offsets: OffsetBuffer<i32>,
        values: ArrayRef,
    ) -> Result<ArrayRef, Error> {
        let field = column.field(self.dtype);
        let DataType::List(item) = field.data_type() else { return Ok(values) };
        let list = ListArray::try_new(Arc::clone(item), offsets, values, None);
        Ok(Arc::new(list.map_err(|source| self.arrow(source))?))
    }

    /// The bytes of the tokens of documents, joined where they follow one another.
    fn runs(&self, spans: &Spans, documents: &[usize]) -> Result<Runs, Error> {
        let width = self.dtype.width();
        let mut runs: Vec<Range<u64>> = Vec::new();
        let mut offsets = Vec::with_capacity(documents.len() + 1);
        offsets.push(0_i32);
        let mut total = 0_u64;
        for document in documents {
            for sequence in spans.of(*document) {
                let place = spans.starts.get(sequence).zip(spans.tokens.get(sequence));
                let Some((start, tokens)) = place.filter(|(_, tokens)| **tokens > 0) else {
                    continue;
                };
                let end = start + u64::from(*tokens) * width;
                match runs.last_mut() {
                    Some(run) if run.end == *start => run.end = end,
                    _ => runs.push(*start..end),
                }
                total += u64::from(*tokens);
            }
            // Beyond this the size is refused below.
            offsets.push(i32::try_from(total).unwrap_or(i32::MAX));
        }
        let place = || format!("byte {}", runs.first().map_or(0, |run| run.start));
        let decoded = decoded_size(self.dtype, total * width, 0);
        let limit =
            DecodeLimit::new(self.limit.bytes().min(u64::from(i32::MAX.cast_unsigned()) * 4));
        limit.check(self.tokens.path(), decoded, "the document has", place)?;
        let tokens = usize::try_from(total).unwrap_or_default();
        Ok(Runs { runs, tokens, offsets: OffsetBuffer::new(ScalarBuffer::from(offsets)) })
    }

    fn lists_of_tokens(
        &self,
        block: usize,
        spans: &Spans,
        documents: &[usize],
    ) -> Result<ArrayRef, Error> {
        let Runs { runs, tokens, offsets } = self.runs(spans, documents)?;
        let mut ids = Ids::with_capacity(self.dtype, tokens);
        if self.tokens.is_remote() {
            let read = self.tokens.read_ranges(&runs)?;
            read.iter().for_each(|bytes| ids.extend(self.dtype, bytes));
        } else {
            self.read_pieces(&runs, |bytes| ids.extend(self.dtype, bytes))?;
        }
        if let Some(limit) = self.dtype.limit(self.vocab_size)
            && let Some((place, id)) = ids.above(self.dtype, limit)
        {
            let offset = byte_of(&runs, place as u64 * self.dtype.width());
            return Err(Error::Id { path: self.tokens.path().to_owned(), offset, id, limit });
        }
        let first = self.borders.get(block).map_or(0, |border| border.document);
        for (document, ends) in documents.iter().zip(offsets.windows(2)) {
            let [start, end] = ends else { continue };
            let range = start.as_usize()..end.as_usize();
            if !self.documents.is_row(first + *document as u64, &ids, range) {
                let offset = spans.starts.get(*document).copied().unwrap_or_default();
                return Err(Error::OtherLength { path: self.tokens.path().to_owned(), offset });
            }
        }
        self.list(Column::Tokens, offsets, ids.finish())
    }

    /// Reads runs of a local file piece by piece, into memory that stays in the cache of the core.
    fn read_pieces(&self, runs: &[Range<u64>], mut each: impl FnMut(&[u8])) -> Result<(), Error> {
        let mut buffer = Vec::new();
        for run in runs {
            let mut at = run.start;
            while at < run.end {
                let len = (run.end - at).min(PIECE_BYTES);
                buffer.resize(usize::try_from(len).unwrap_or_default(), 0);
                self.tokens.read_at(at, &mut buffer)?;
                each(&buffer);
                at += len;
            }
        }
        Ok(())
    }

    fn lists_of_mask(&self, spans: &Spans, documents: &[usize]) -> Result<ArrayRef, Error> {
        let Runs { mut runs, tokens, offsets } = self.runs(spans, documents)?;
        let Some(mask) = &self.mask else { return Err(self.no_such(0)) };
        for run in &mut runs {
            *run = run.start / self.dtype.width()..run.end / self.dtype.width();
        }
        let mut bits = BooleanBufferBuilder::new(tokens);
        for (bytes, run) in mask.read_ranges(&runs)?.iter().zip(&runs) {
            if let Some(place) = bytes.iter().position(|byte| *byte > 1) {
                return Err(Error::Entry {
                    path: mask.path().to_owned(),
                    offset: run.start + place as u64,
                    field: "the mask of a token",
                    found: bytes.get(place).copied().unwrap_or_default().to_string().into(),
                    expected: "0 or 1".into(),
                });
            }
            bytes.iter().for_each(|byte| bits.append(*byte == 1));
        }
        self.list(Column::LossMask, offsets, Arc::new(BooleanArray::new(bits.finish(), None)))
    }
}

/// What a format knows about a file before its documents.
struct Parts {
    tokens: Arc<dyn RangeRead>,
    dtype: Dtype,
    mask: Option<Arc<dyn RangeRead>>,
    columns: Vec<Column>,
}

/// Where the tokens of documents are.
struct Runs {
    runs: Vec<Range<u64>>,
    tokens: usize,
    /// Of the documents.
    offsets: OffsetBuffer<i32>,
}

/// The byte of the file that is `place` bytes into the joined `runs`.
fn byte_of(runs: &[Range<u64>], mut place: u64) -> u64 {
    for run in runs {
        let len = run.end - run.start;
        if place < len {
            return run.start + place;
        }
        place -= len;
    }
    0
}

/// Size in memory of stored tokens, and of `rows` rows.
fn decoded_size(dtype: Dtype, stored: u64, rows: u64) -> u64 {
    let each = if dtype == Dtype::I64 { 8 } else { 4 };
    (stored / dtype.width()).saturating_mul(each).saturating_add(rows.saturating_mul(4))
}

impl TableFile for TokenTable {
    fn path(&self) -> &str {
        self.tokens.path()
    }

    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn is_virtual(&self, column: usize) -> bool {
        matches!(self.columns.get(column), Some(Column::SequenceLengths | Column::NumTokens))
    }

    fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    fn read(
        &self,
        block: usize,
        columns: &[usize],
        selection: Option<&BooleanBuffer>,
    ) -> Result<RecordBatch, TableError> {
        Ok(self.read_block(block, columns, selection)?)
    }

    fn row_lengths(
        &self,
        block: usize,
        column: usize,
        selection: Option<&BooleanBuffer>,
    ) -> Result<Option<Vec<u32>>, TableError> {
        if self.columns.get(column) != Some(&Column::Tokens) {
            return Ok(None);
        }
        let (spans, documents) = self.selected(block, selection)?;
        let length = |document: &usize| u32::try_from(spans.length(*document));
        // Longer ones cannot be read.
        Ok(Some(documents.iter().map(|document| length(document).unwrap_or(u32::MAX)).collect()))
    }

    fn decoded_bytes(&self, block: usize, columns: &[usize]) -> u64 {
        let Some(block) = self.blocks.get(block) else { return 0 };
        let size = |column: &usize| match self.columns.get(*column) {
            Some(Column::Tokens) => block.decoded_bytes,
            Some(Column::LossMask) => block.stored_bytes,
            Some(_) => block.rows.saturating_mul(8),
            None => 0,
        };
        columns.iter().map(size).fold(0, u64::saturating_add)
    }

    fn notes(&self) -> Result<Vec<String>, TableError> {
        let gaps = self.documents.gaps()?;
        let Some(first) = gaps.first() else { return Ok(Vec::new()) };
        let bytes: u64 = gaps.iter().map(|gap| gap.end - gap.start).sum();
        let (count, start) = (gaps.len(), first.start);
        Ok(vec![format!(
            "gaps between sequences: {count}, of {bytes} bytes; the first is at byte {start}"
        )])
    }

    fn digest(&self) -> u128 {
        self.digest
    }
}
