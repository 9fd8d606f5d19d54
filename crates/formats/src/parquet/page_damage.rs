//! Checks the pages of a file one by one, to find a damaged one.
//!
//! The row decoder verifies checksums, but does not report the column. This walk runs after a
//! failure, and for checks of all pages.

use super::gauge::Gauge;
use super::gauge::unsigned;
use super::object_reader::ObjectReader;
use super::read::unpanicked;
use super::{Error, ParquetFile};
use parquet::arrow::ProjectionMask;
use parquet::column::page::PageReader;
use parquet::errors::ParquetError;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::serialized_reader::SerializedPageReader;
use shardmill_storage::Error as StorageError;
use std::sync::Arc;

impl ParquetFile {
    /// The first page of a column chunk that cannot be read or whose checksum differs, or a page
    /// above the limit. `None` when all are sound.
    ///
    /// # Errors
    /// When the storage fails.
    pub fn page_damage(
        &self,
        row_group: usize,
        leaf: usize,
    ) -> Result<Option<Error>, StorageError> {
        let Some(group) = self.footer.row_groups().get(row_group) else { return Ok(None) };
        let Some(chunk) = group.columns().get(leaf) else { return Ok(None) };
        let gauge =
            match Gauge::new(self.object.path(), self.limit, std::iter::once((row_group, chunk))) {
                Ok(gauge) => Arc::new(gauge),
                Err(refusal) => return Ok(Some(refusal.into())),
            };
        let mut page = 0;
        let decoded = self.page_footer.row_group(row_group).column(leaf);
        let read = unpanicked("the decoder failed on damaged data", || {
            self.read_pages(decoded, group.num_rows(), &gauge, &mut page)
        });
        let Err(source) = read else { return Ok(None) };
        if let Some(refusal) = gauge.refused() {
            return Ok(Some(refusal.into()));
        }
        let (path, column) = (self.object.path().to_owned(), chunk.column_path().string());
        let offset = unsigned(chunk.dictionary_page_offset().unwrap_or(chunk.data_page_offset()));
        match (Error::Page { path, row_group, column, page, offset, source }).into_storage() {
            Ok(storage) => Err(storage),
            Err(Error::Page { path, column, .. }) if self.is_encrypted => {
                Ok(Some(Error::EncryptedColumn { path, column }))
            }
            Err(error) => Ok(Some(error)),
        }
    }

    fn read_pages(
        &self,
        chunk: &ColumnChunkMetaData,
        rows: i64,
        gauge: &Arc<Gauge>,
        page: &mut u64,
    ) -> Result<(), ParquetError> {
        let (start, len) = chunk.byte_range();
        let range = start..start.saturating_add(len);
        let object =
            ObjectReader::fetch(Arc::clone(&self.object), vec![range])?.gauged(Arc::clone(gauge));
        let mut pages =
            SerializedPageReader::new(Arc::new(object), chunk, usize::try_from(rows)?, None)?;
        while pages.get_next_page()?.is_some() {
            *page += 1;
            gauge.begin_batch();
        }
        Ok(())
    }

    /// The damaged page that made reading `row_group` fail, if it is in one
    /// of the leaves of `mask`.
    ///
    /// # Errors
    /// When the storage fails.
    pub(super) fn damaged_page_of(
        &self,
        row_group: usize,
        mask: &ProjectionMask,
    ) -> Result<Option<Error>, StorageError> {
        let leaves = (0..self.num_leaves()).filter(|leaf| mask.leaf_included(*leaf));
        leaves.map(|leaf| self.page_damage(row_group, leaf)).find_map(Result::transpose).transpose()
    }

    /// Number of leaf columns.
    #[must_use]
    pub fn num_leaves(&self) -> usize {
        self.footer.file_metadata().schema_descr().num_columns()
    }
}
