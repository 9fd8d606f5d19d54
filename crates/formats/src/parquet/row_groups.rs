//! One Parquet file in pieces, so that threads encode its row groups and one writes them in order.

use super::Error;
use super::page_checksums::{ChecksumStores, ChunkPages};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use parquet::arrow::arrow_writer::{
    ArrowColumnChunk, ArrowColumnWriter, ArrowRowGroupWriterFactory, ArrowWriter, ArrowWriterOptions, compute_leaves,
};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use std::io::Write;
use std::sync::Arc;

/// Makes the encoders of the row groups of one file, in their order.
pub struct RowGroupEncoders {
    path: String,
    schema: SchemaRef,
    factory: ArrowRowGroupWriterFactory,
    /// `None` when pages get no checksums.
    stores: Option<Arc<ChecksumStores>>,
    made: usize,
}

/// Takes the rows of one row group.
pub struct RowGroupEncoder {
    path: String,
    schema: SchemaRef,
    columns: Vec<ArrowColumnWriter>,
    pages: Vec<ChunkPages>,
}

/// A row group whose place in the file is still open.
pub struct EncodedRowGroup {
    chunks: Vec<ArrowColumnChunk>,
    /// One for each chunk, none when pages have no checksums.
    pages: Vec<ChunkPages>,
}

/// The file that row groups are put into.
pub struct RowGroupFile<W: Write + Send> {
    path: String,
    writer: SerializedFileWriter<W>,
}

/// The file and the encoders of its row groups.
pub(super) fn pieces<W: Write + Send>(
    path: &str,
    sink: W,
    schema: SchemaRef,
    properties: WriterProperties,
    has_checksums: bool,
) -> Result<(RowGroupFile<W>, RowGroupEncoders), Error> {
    let stores = has_checksums.then(|| Arc::new(ChecksumStores::default()));
    let options = ArrowWriterOptions::new().with_properties(properties);
    let options = match &stores {
        Some(stores) => options.with_page_store_factory(Arc::<ChecksumStores>::clone(stores)),
        None => options,
    };
    let made = ArrowWriter::try_new_with_options(sink, Arc::clone(&schema), options).and_then(ArrowWriter::into_serialized_writer);
    let (writer, factory) = made.map_err(|source| Error::Write { path: path.to_owned(), source })?;
    let path = path.to_owned();
    Ok((RowGroupFile { path: path.clone(), writer }, RowGroupEncoders { path, schema, factory, stores, made: 0 }))
}

impl RowGroupEncoders {
    /// That of the next row group.
    ///
    /// # Errors
    /// [`Error::Write`].
    pub fn next_row_group(&mut self) -> Result<RowGroupEncoder, Error> {
        let columns = self.factory.create_column_writers(self.made).map_err(|source| Error::Write { path: self.path.clone(), source })?;
        self.made += 1;
        let pages = self.stores.as_ref().map(|stores| stores.take()).unwrap_or_default();
        Ok(RowGroupEncoder { path: self.path.clone(), schema: SchemaRef::clone(&self.schema), columns, pages })
    }
}

impl RowGroupEncoder {
    /// # Errors
    /// [`Error::Write`].
    pub fn write(&mut self, rows: &RecordBatch) -> Result<(), Error> {
        let failed = |source| Error::Write { path: self.path.clone(), source };
        let mut columns = self.columns.iter_mut();
        for (field, array) in self.schema.fields().iter().zip(rows.columns()) {
            for leaf in compute_leaves(field, array).map_err(failed)? {
                let Some(column) = columns.next() else { return Ok(()) };
                column.write(&leaf).map_err(failed)?;
            }
        }
        Ok(())
    }

    /// About how many bytes the row group will have.
    pub(super) fn encoded_bytes(&self) -> usize {
        self.columns.iter().map(ArrowColumnWriter::get_estimated_total_bytes).sum()
    }

    /// # Errors
    /// [`Error::Write`].
    pub fn finish(self) -> Result<EncodedRowGroup, Error> {
        let path = self.path;
        let chunks = self.columns.into_iter().map(ArrowColumnWriter::close).collect::<Result<_, _>>();
        let chunks = chunks.map_err(|source| Error::Write { path, source })?;
        Ok(EncodedRowGroup { chunks, pages: self.pages })
    }
}

impl<W: Write + Send> RowGroupFile<W> {
    /// Row groups come in the order of their encoders.
    ///
    /// # Errors
    /// [`Error::Write`].
    pub fn append(&mut self, row_group: EncodedRowGroup) -> Result<(), Error> {
        self.append_chunks(row_group).map_err(|source| Error::Write { path: self.path.clone(), source })
    }

    fn append_chunks(&mut self, row_group: EncodedRowGroup) -> Result<(), ParquetError> {
        let mut place = self.writer.next_row_group()?;
        let mut pages = row_group.pages.iter();
        for chunk in row_group.chunks {
            match pages.next() {
                Some(pages) => pages.append(chunk, &mut place)?,
                None => chunk.append_to_row_group(&mut place)?,
            }
        }
        place.close().map(|_metadata| ())
    }

    /// Writes the footer and gives the sink back.
    ///
    /// # Errors
    /// [`Error::Write`].
    pub fn finish(self) -> Result<W, Error> {
        let path = self.path;
        self.writer.into_inner().map_err(|source| Error::Write { path, source })
    }
}
