//! One Parquet file: rows are gathered to row groups of bounded bytes.

use crate::staged::{Finished, StagedFile};
use crate::{Error, Result};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use shardmill_formats::parquet::{ParquetCompression, ParquetWriter as FileWriter, ParquetWriterOptions};
use std::io::BufWriter;
use std::sync::Arc;

const BUFFER_BYTES: usize = 1 << 20;
/// In memory, about. A reader decodes a row group at once: small enough that threads share a file of some megabytes, and a window mixes many of them.
pub(crate) const ROW_GROUP_BYTES: u64 = 8 << 20;

/// A file in the making.
pub(crate) struct ParquetWriter {
    path: String,
    schema: SchemaRef,
    file: FileWriter<BufWriter<StagedFile>>,
    group_bytes: u64,
}

impl std::fmt::Debug for ParquetWriter {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ParquetWriter").field("path", &self.path).finish_non_exhaustive()
    }
}

impl ParquetWriter {
    /// # Errors
    /// When the folder cannot be written, or Parquet has no such type.
    pub(crate) fn create(path: &str, schema: SchemaRef, compression: ParquetCompression) -> Result<Self> {
        let staged = BufWriter::with_capacity(BUFFER_BYTES, StagedFile::create(path)?);
        let options = ParquetWriterOptions { compression, ..ParquetWriterOptions::default() };
        let file = FileWriter::new(path, staged, Arc::clone(&schema), &options)?;
        Ok(Self { path: path.to_owned(), schema, file, group_bytes: 0 })
    }

    /// Adds rows, of about `bytes` in memory, whose columns are those of the file.
    ///
    /// # Errors
    /// When the columns are others, or the disk fails.
    pub(crate) fn write(&mut self, rows: &RecordBatch, bytes: u64) -> Result<()> {
        // Metadata of another origin does no harm; types and nulls would.
        let rows = RecordBatch::try_new(Arc::clone(&self.schema), rows.columns().to_vec())
            .map_err(|source| Error::Rows { path: self.path.clone(), source })?;
        self.file.write(&rows)?;
        self.group_bytes += bytes;
        if self.group_bytes >= ROW_GROUP_BYTES {
            self.file.end_row_group()?;
            self.group_bytes = 0;
        }
        Ok(())
    }

    /// Writes what is missing. The file has no name yet.
    ///
    /// # Errors
    /// When the disk fails.
    pub(crate) fn finish(self) -> Result<Finished> {
        Finished::of(self.file.finish()?, &self.path)
    }
}
