//! One Parquet file of interleaved rows.

use crate::Result;
use crate::chunk::Chunk;
use crate::sink::SinkOptions;
use crate::sink::output::CountingFile;
use crate::table::to_table;
use arrow_array::ArrayRef;
use arrow_schema::SchemaRef;
use shardmill_formats::parquet::Error as ParquetError;
use shardmill_write::{ParquetFile, ParquetFileOptions};
use std::sync::Arc;

pub(super) struct ParquetBatch {
    file: ParquetFile<CountingFile, CountingFile>,
}

impl ParquetBatch {
    pub(super) fn new(
        path: &str,
        file: CountingFile,
        schema: &SchemaRef,
        options: &SinkOptions,
    ) -> Result<Self> {
        let payload = schema
            .field_with_name("binary_content")
            .ok()
            .map(|field| {
                Ok::<_, ParquetError>((field.name().clone(), options.binary_compression.parse()?))
            })
            .transpose()?;
        let options = ParquetFileOptions { payload, ..options.of_file()? };
        Ok(Self {
            file: ParquetFile::new(path, file, Arc::clone(schema), options, |file, _, _| Ok(file)),
        })
    }

    /// Row groups end between documents, and at the end of a chunk, whose memory is used again.
    pub(super) fn write(
        &mut self,
        chunk: &Chunk,
        schema: &SchemaRef,
        binary: &ArrayRef,
    ) -> Result<()> {
        let chunk = Chunk { schema: Arc::clone(schema), ..chunk.clone() };
        let table = to_table(&chunk, binary)?;
        let document = |row: usize| chunk.rows.get(row).map(|row| row.document);
        let end_of_document = |end: usize| {
            (end..).find(|end| *end == 0 || document(*end) != document(end - 1)).unwrap_or(end)
        };
        self.file.write_units(&table, end_of_document)?;
        Ok(self.file.end_row_group()?)
    }

    pub(super) fn finish(self) -> Result<CountingFile> {
        Ok(self.file.finish()?)
    }
}
