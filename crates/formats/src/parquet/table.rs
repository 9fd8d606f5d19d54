//! A Parquet file as blocks of rows: its row groups, with large ones split.
//!
//! Strings and binaries are delivered as views into the decoded pages: values are
//! not copied before they reach their batch, and a column of more than 2 GiB has no offsets
//! that could overflow (arrow-rs#7973).

mod blocks;
mod decode;
#[cfg(test)]
mod tests;
mod views;

use self::blocks::{Place, blocks_of, decoded_bytes, share};
use self::views::{with_views, with_views_in_structs};
use super::gauge::unsigned;
use super::object_reader::ObjectReader;
use super::read::{footer_error, kept, rows_error};
use super::{Error, ParquetFile};
use crate::caught::caught;
use crate::limit::DecodeLimit;
use crate::table::{
    Block, BlockPages, NestedColumn, Statistics, TableError, TableFile, column_field,
    read_one_by_one, scan_one_by_one,
};
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_buffer::BooleanBuffer;
use arrow_schema::{DataType, Schema, SchemaRef};
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::errors::ParquetError;
use parquet::file::metadata::RowGroupMetaData;
use sha2::{Digest, Sha256};
use shardmill_storage::RangeRead;
use std::ops::{ControlFlow, Range};
use std::sync::{Arc, OnceLock};

/// An open Parquet file whose rows are read by block.
#[derive(Debug)]
pub struct ParquetTable {
    file: ParquetFile,
    /// The schema of `file` with views instead of strings and binaries.
    schema: SchemaRef,
    /// Created by the first read of rows.
    decoding: OnceLock<ArrowReaderMetadata>,
    /// With views inside of structs too. Created by the first read of a nested column.
    nested_decoding: OnceLock<ArrowReaderMetadata>,
    blocks: Vec<Block>,
    places: Vec<Place>,
    digest: u128,
}

impl ParquetTable {
    /// Reads the footer.
    ///
    /// # Errors
    /// [`Error::Footer`].
    pub fn open(object: Arc<dyn RangeRead>) -> Result<Self, Error> {
        Self::open_limited(object, DecodeLimit::default())
    }

    /// As [`ParquetTable::open`], with a limit other than the default.
    ///
    /// # Errors
    /// As [`ParquetTable::open`].
    #[expect(clippy::needless_pass_by_value, reason = "as the other formats")]
    pub fn open_limited(object: Arc<dyn RangeRead>, limit: DecodeLimit) -> Result<Self, Error> {
        let footer = |source| footer_error(object.path(), source);
        let reader = ObjectReader::with_footer(Arc::clone(&object), limit).map_err(footer)?;
        let (bytes, is_encrypted) = reader.footer().map_err(footer)?;
        let digest = digest_of(&bytes);
        let file =
            ParquetFile::of_footer(Arc::clone(&object), &bytes, is_encrypted)?.with_limit(limit);
        let too_many = || {
            footer(ParquetError::General(
                "the footer states more rows than a file can hold".to_owned(),
            ))
        };
        let (blocks, places) = blocks_of(file.footer.row_groups()).ok_or_else(too_many)?;
        let (schema, decoding) = if let Some(schema) = file.shape.views.get() {
            (Arc::clone(schema), OnceLock::new())
        } else {
            let decoding = decoding_of(&file, with_views(file.decoded_schema()))
                .map_err(|source| Error::Schema { path: file.object.path().to_owned(), source })?;
            (
                Arc::clone(file.shape.views.get_or_init(|| with_views(file.schema()))),
                OnceLock::from(decoding),
            )
        };
        Ok(Self {
            file,
            schema,
            decoding,
            nested_decoding: OnceLock::new(),
            blocks,
            places,
            digest,
        })
    }

    /// How `columns` are decoded. A struct that is requested as a whole has its declared type.
    fn decoding_for(&self, columns: &[usize]) -> Result<&ArrowReaderMetadata, ParquetError> {
        let is_struct = |column: &usize| {
            let field = column_field(&self.schema, self.file.nested(), *column);
            field.is_some_and(|field| matches!(field.data_type(), DataType::Struct(_)))
        };
        if !self.is_any_nested(columns) || columns.iter().any(is_struct) {
            return kept(&self.decoding, || {
                decoding_of(&self.file, with_views(self.file.decoded_schema()))
            });
        }
        kept(&self.nested_decoding, || {
            decoding_of(&self.file, with_views_in_structs(&with_views(self.file.decoded_schema())))
        })
    }

    fn is_any_nested(&self, columns: &[usize]) -> bool {
        columns.iter().any(|column| *column >= self.schema.fields().len())
    }

    /// Types as declared in the file: strings and binaries are not views here.
    #[must_use]
    pub fn file(&self) -> &ParquetFile {
        &self.file
    }

    fn row_group(&self, block: usize) -> Option<(&Place, &RowGroupMetaData)> {
        let place = self.places.get(block)?;
        Some((place, self.file.footer.row_groups().get(place.row_group)?))
    }

    /// The row groups of consecutive blocks, if each block is a whole row group.
    fn whole_groups(&self, blocks: &Range<usize>) -> Option<Range<usize>> {
        let (first, last) =
            (self.row_group(blocks.start)?, self.row_group(blocks.end.checked_sub(1)?)?);
        let groups = first.0.row_group..last.0.row_group + 1;
        // A run may begin or end inside of a row group.
        let is_whole = first.0.rows.start == 0 && last.0.rows.end == unsigned(last.1.num_rows());
        (is_whole && groups.len() == blocks.len()).then_some(groups)
    }

    fn empty(&self, columns: &[usize]) -> RecordBatch {
        let nested = if self.is_any_nested(columns) { self.file.nested() } else { &[] };
        let fields =
            columns.iter().filter_map(|column| column_field(&self.schema, nested, *column));
        RecordBatch::new_empty(Arc::new(Schema::new(fields.cloned().collect::<Vec<_>>())))
    }
}

impl TableFile for ParquetTable {
    fn path(&self) -> &str {
        self.file.object.path()
    }

    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn declared_schema(&self) -> &SchemaRef {
        self.file.schema()
    }

    fn nested(&self) -> &[NestedColumn] {
        self.file.nested()
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
        if columns.is_empty() {
            let rows = selection.map_or_else(
                || self.blocks.get(block).map_or(0, |block| block.rows),
                |selection| selection.count_set_bits() as u64,
            );
            let options = RecordBatchOptions::new()
                .with_row_count(Some(usize::try_from(rows).unwrap_or(usize::MAX)));
            let empty =
                RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &options);
            return self.guarded(block..block + 1, columns, || Ok(empty?));
        }
        self.guarded(block..block + 1, columns, || self.decode(block, columns, selection))
    }

    fn read_run(&self, blocks: Range<usize>, columns: &[usize]) -> Result<RecordBatch, TableError> {
        let rows: u64 = self
            .blocks
            .get(blocks.clone())
            .unwrap_or_default()
            .iter()
            .map(|block| block.rows)
            .sum();
        let Some(groups) =
            self.whole_groups(&blocks).filter(|_| !columns.is_empty() && blocks.len() > 1)
        else {
            return read_one_by_one(self, blocks, columns);
        };
        self.guarded(blocks, columns, || self.decode_groups(groups, columns, None, rows))
    }

    fn runs(&self) -> Vec<Range<usize>> {
        let mut start = 0;
        let lens = self
            .places
            .chunk_by(|first, second| first.row_group == second.row_group)
            .map(<[Place]>::len);
        let mut run = |len| {
            start += len;
            start - len..start
        };
        lens.map(&mut run).collect()
    }

    fn scan(
        &self,
        run: Range<usize>,
        columns: &[usize],
        each: &mut dyn FnMut(RecordBatch) -> ControlFlow<()>,
    ) -> Result<(), TableError> {
        if columns.is_empty() || !self.runs().contains(&run) {
            return scan_one_by_one(self, run, columns, each);
        }
        self.guarded(run.clone(), columns, || self.scan_group(&run, columns, each))
    }

    fn decoded_bytes(&self, block: usize, columns: &[usize]) -> u64 {
        let Some((place, group)) = self.row_group(block) else { return 0 };
        let mask = self.file.mask_of(columns);
        let leaves =
            group.columns().iter().enumerate().filter(|(leaf, _)| mask.leaf_included(*leaf));
        let bytes = leaves
            .map(|(_, chunk)| decoded_bytes(chunk, unsigned(group.num_rows())))
            .fold(0, u64::saturating_add);
        share(bytes, place.rows.end - place.rows.start, unsigned(group.num_rows()))
    }

    fn statistics(&self, column: usize) -> Option<Statistics> {
        let groups: Vec<usize> = (0..self.file.num_row_groups()).collect();
        let whole = self.file.column_statistics(&groups, column)?;
        let places: Vec<usize> = self.places.iter().map(|place| place.row_group).collect();
        whole.of_parts(&places, self.blocks.iter().map(|block| block.rows).collect())
    }

    fn list_length(&self, column: usize) -> Option<u64> {
        self.file.list_length(column)
    }

    fn page_statistics(
        &self,
        block: usize,
        column: usize,
    ) -> Result<Option<BlockPages>, TableError> {
        // A block that is only part of its row group would need part of its pages.
        match self.row_group(block) {
            Some((place, group)) if place.rows == (0..unsigned(group.num_rows())) => {
                Ok(self.file.pages(place.row_group, column)?)
            }
            _ => Ok(None),
        }
    }

    fn may_contain(
        &self,
        block: usize,
        column: usize,
        values: &ArrayRef,
    ) -> Result<bool, TableError> {
        let Some((place, _)) = self.row_group(block) else { return Ok(true) };
        Ok(self.file.bloom_may_contain(place.row_group, column, values)?)
    }

    fn digest(&self) -> u128 {
        self.digest
    }
}

impl ParquetTable {
    fn first_row(&self, block: usize) -> u64 {
        self.blocks.iter().take(block).map(|block| block.rows).sum()
    }

    /// The decoder has paths that panic on damaged pages (such as arrow-rs#9872).
    fn guarded<T>(
        &self,
        blocks: Range<usize>,
        columns: &[usize],
        decode: impl FnOnce() -> Result<T, ParquetError>,
    ) -> Result<T, TableError> {
        let (path, row) = (self.path().to_owned(), self.first_row(blocks.start));
        let error = match caught(decode) {
            Ok(Ok(decoded)) => return Ok(decoded),
            Ok(Err(ParquetError::External(inner))) => {
                match inner.downcast::<shardmill_storage::Error>() {
                    Ok(storage) => return Err(TableError::Storage(*storage)),
                    Err(inner) => rows_error(path, row, ParquetError::External(inner)),
                }
            }
            Ok(Err(source)) => rows_error(path, row, source),
            Err(_panic) => Error::Decoder { path, row },
        };
        if matches!(error, Error::TooLarge(_) | Error::Value { .. }) {
            return Err(error.into());
        }
        let mut groups: Vec<usize> = self
            .places
            .get(blocks)
            .unwrap_or_default()
            .iter()
            .map(|place| place.row_group)
            .collect();
        groups.dedup();
        let mask = self.file.mask_of(columns);
        Err(groups
            .into_iter()
            .find_map(|group| self.file.damaged_page_of(group, &mask).ok().flatten())
            .unwrap_or(error)
            .into())
    }
}

fn decoding_of(file: &ParquetFile, schema: SchemaRef) -> Result<ArrowReaderMetadata, ParquetError> {
    file.decoding_with(ArrowReaderOptions::new().with_schema(schema))
}

fn digest_of(footer: &[u8]) -> u128 {
    let hash = Sha256::digest(footer);
    hash.iter().take(16).fold(0, |digest, byte| digest << 8 | u128::from(*byte))
}
