//! One Parquet file of interleaved rows.

use crate::{ParquetFile, ParquetFileOptions, Result};
use arrow_array::ArrayRef;
use arrow_schema::SchemaRef;
use shardmill_documents::Chunk;
use shardmill_documents::table::to_table;
use std::io::Write;
use std::sync::Arc;

pub struct ParquetDocuments<W: Write + Send + 'static> {
    file: ParquetFile<W, W>,
}

impl<W: Write + Send + 'static> ParquetDocuments<W> {
    #[must_use]
    pub fn new(path: &str, file: W, schema: &SchemaRef, options: ParquetFileOptions) -> Self {
        let file = ParquetFile::new(path, file, Arc::clone(schema), options, |file, _, _| Ok(file));
        Self { file }
    }

    /// Row groups end between documents, and at the end of a chunk, whose memory is used again.
    ///
    /// # Errors
    /// As [`ParquetFile::write_units`], and for values that `schema` cannot hold.
    pub fn write(&mut self, chunk: &Chunk, schema: &SchemaRef, binary: &ArrayRef) -> Result<()> {
        let chunk = Chunk { schema: Arc::clone(schema), ..chunk.clone() };
        let table = to_table(&chunk, binary)?;
        let document = |row: usize| chunk.rows.get(row).map(|row| row.document);
        let end_of_document = |end: usize| {
            (end..).find(|end| *end == 0 || document(*end) != document(end - 1)).unwrap_or(end)
        };
        self.file.write_units(&table, end_of_document)?;
        self.file.end_row_group()
    }

    /// # Errors
    /// As [`ParquetFile::finish`].
    pub fn finish(self) -> Result<W> {
        self.file.finish()
    }
}
