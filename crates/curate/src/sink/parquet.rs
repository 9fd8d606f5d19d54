//! One Parquet file of interleaved rows.

use crate::Result;
use crate::chunk::Chunk;
use crate::sink::SinkOptions;
use crate::sink::output::CountingFile;
use crate::table::to_table;
use arrow_array::ArrayRef;
use arrow_schema::SchemaRef;
use shardmill_formats::parquet::{Error as ParquetError, ParquetWriter, ParquetWriterOptions};
use std::sync::Arc;

pub(super) struct ParquetBatch {
    writer: ParquetWriter<CountingFile>,
}

impl ParquetBatch {
    pub(super) fn new(path: &str, file: CountingFile, schema: &SchemaRef, options: &SinkOptions) -> Result<Self> {
        let writer_options = ParquetWriterOptions {
            compression: options.compression.parse()?,
            payload: schema
                .field_with_name("binary_content")
                .ok()
                .map(|field| Ok::<_, ParquetError>((field.name().clone(), options.binary_compression.parse()?)))
                .transpose()?,
            ..ParquetWriterOptions::default()
        };
        let writer = ParquetWriter::new(path, file, Arc::clone(schema), &writer_options).map_err(disk_error)?;
        Ok(Self { writer })
    }

    pub(super) fn write(&mut self, chunk: &Chunk, schema: &SchemaRef, binary: &ArrayRef, row_group_size: usize) -> Result<()> {
        let chunk = Chunk { schema: Arc::clone(schema), ..chunk.clone() };
        let table = to_table(&chunk, binary)?;
        for start in (0..table.num_rows()).step_by(row_group_size) {
            let rows = table.slice(start, row_group_size.min(table.num_rows() - start));
            self.writer.write_row_group(&rows).map_err(disk_error)?;
        }
        Ok(())
    }

    pub(super) fn finish(self) -> Result<CountingFile> {
        self.writer.finish().map_err(disk_error)
    }
}

/// Reports a full disk as an error of the disk instead of Parquet.
pub(crate) fn disk_error(error: ParquetError) -> crate::Error {
    error.into_storage().map_or_else(Into::into, Into::into)
}
