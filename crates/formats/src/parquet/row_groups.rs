//! One Parquet file in pieces, so that threads encode its row groups and one writes them in order.

use super::{Error, ParquetWriter};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use parquet::arrow::arrow_writer::{ArrowColumnChunk, ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves};
use parquet::file::writer::SerializedFileWriter;
use std::io::Write;

/// Makes the encoders of the row groups of one file, in their order.
pub struct RowGroupEncoders {
    path: String,
    schema: SchemaRef,
    factory: ArrowRowGroupWriterFactory,
    made: usize,
}

/// Takes the rows of one row group.
pub struct RowGroupEncoder {
    path: String,
    schema: SchemaRef,
    columns: Vec<ArrowColumnWriter>,
}

/// A row group whose place in the file is still open.
pub struct EncodedRowGroup(Vec<ArrowColumnChunk>);

/// The file that row groups are put into.
pub struct RowGroupFile<W: Write + Send> {
    path: String,
    writer: SerializedFileWriter<W>,
}

impl<W: Write + Send> ParquetWriter<W> {
    /// The file and the encoders of its row groups.
    ///
    /// # Errors
    /// [`Error::Write`].
    pub fn in_pieces(self, schema: SchemaRef) -> Result<(RowGroupFile<W>, RowGroupEncoders), Error> {
        let path = self.path;
        let (writer, factory) = self.writer.into_serialized_writer().map_err(|source| Error::Write { path: path.clone(), source })?;
        Ok((RowGroupFile { path: path.clone(), writer }, RowGroupEncoders { path, schema, factory, made: 0 }))
    }
}

impl RowGroupEncoders {
    /// That of the next row group.
    ///
    /// # Errors
    /// [`Error::Write`].
    pub fn next_row_group(&mut self) -> Result<RowGroupEncoder, Error> {
        let columns = self.factory.create_column_writers(self.made).map_err(|source| Error::Write { path: self.path.clone(), source })?;
        self.made += 1;
        Ok(RowGroupEncoder { path: self.path.clone(), schema: SchemaRef::clone(&self.schema), columns })
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

    /// # Errors
    /// [`Error::Write`].
    pub fn finish(self) -> Result<EncodedRowGroup, Error> {
        let path = self.path;
        let chunks = self.columns.into_iter().map(ArrowColumnWriter::close).collect::<Result<_, _>>();
        chunks.map(EncodedRowGroup).map_err(|source| Error::Write { path, source })
    }
}

impl<W: Write + Send> RowGroupFile<W> {
    /// Row groups come in the order of their encoders.
    ///
    /// # Errors
    /// [`Error::Write`].
    pub fn append(&mut self, row_group: EncodedRowGroup) -> Result<(), Error> {
        let failed = |source| Error::Write { path: self.path.clone(), source };
        let mut place = self.writer.next_row_group().map_err(failed)?;
        for chunk in row_group.0 {
            chunk.append_to_row_group(&mut place).map_err(failed)?;
        }
        place.close().map_err(failed)?;
        Ok(())
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
