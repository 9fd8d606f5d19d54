//! Writes a Parquet file in pieces: threads encode row groups, and one thread writes them in order.

use super::Error;
use super::stored_types::{stored_array, stored_schema};
use super::write_checksums::{ChecksumStores, ChunkPages};
use crate::caught::{Panicked, caught};
use crate::table::type_name;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{FieldRef, SchemaRef};
use parquet::arrow::arrow_writer::{
    ArrowColumnChunk, ArrowColumnWriter, ArrowRowGroupWriterFactory, ArrowWriter,
    ArrowWriterOptions, compute_leaves,
};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use std::io::Write;
use std::sync::Arc;

/// Creates the encoders of the row groups of one file, in order.
pub struct RowGroupEncoders {
    path: String,
    /// With the stored types.
    schema: SchemaRef,
    factory: ArrowRowGroupWriterFactory,
    /// `None` for pages without checksums.
    stores: Option<Arc<ChecksumStores>>,
    made: usize,
}

/// Encodes the rows of one row group.
pub struct RowGroupEncoder {
    path: String,
    schema: SchemaRef,
    columns: Vec<ArrowColumnWriter>,
    pages: Vec<ChunkPages>,
}

/// An encoded row group without a position in the file yet.
pub struct EncodedRowGroup {
    chunks: Vec<ArrowColumnChunk>,
    /// One for each chunk; empty for pages without checksums.
    pages: Vec<ChunkPages>,
}

/// The file that row groups are written to.
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
    let schema = stored_schema(schema)?;
    let stores = has_checksums.then(|| Arc::new(ChecksumStores::default()));
    let options = ArrowWriterOptions::new().with_properties(properties);
    let options = match &stores {
        Some(stores) => options.with_page_store_factory(Arc::<ChecksumStores>::clone(stores)),
        None => options,
    };
    let made = ArrowWriter::try_new_with_options(sink, Arc::clone(&schema), options)
        .and_then(ArrowWriter::into_serialized_writer);
    let (writer, factory) =
        made.map_err(|source| Error::Write { path: path.to_owned(), source })?;
    let path = path.to_owned();
    Ok((
        RowGroupFile { path: path.clone(), writer },
        RowGroupEncoders { path, schema, factory, stores, made: 0 },
    ))
}

impl RowGroupEncoders {
    /// The encoder of the next row group.
    ///
    /// # Errors
    /// [`Error::Write`].
    pub fn next_row_group(&mut self) -> Result<RowGroupEncoder, Error> {
        let columns = self
            .factory
            .create_column_writers(self.made)
            .map_err(|source| Error::Write { path: self.path.clone(), source })?;
        self.made += 1;
        let pages = self.stores.as_ref().map(|stores| stores.take()).unwrap_or_default();
        Ok(RowGroupEncoder {
            path: self.path.clone(),
            schema: SchemaRef::clone(&self.schema),
            columns,
            pages,
        })
    }
}

impl RowGroupEncoder {
    /// # Errors
    /// [`Error::UnsupportedValue`], [`Error::Write`].
    pub fn write(&mut self, rows: &RecordBatch) -> Result<(), Error> {
        let mut columns = self.columns.iter_mut();
        for (field, array) in self.schema.fields().iter().zip(rows.columns()) {
            let failed = |source| Error::Write { path: self.path.clone(), source };
            let unsupported = |source| Error::UnsupportedValue {
                path: self.path.clone(),
                column: field.name().clone(),
                data_type: type_name(field.data_type()),
                source,
            };
            let write = || {
                let stored = stored_array(array, field.data_type()).map_err(unsupported)?;
                write_column(field, &stored, &mut columns).map_err(failed)
            };
            let message = || {
                format!(
                    "the encoder failed on column `{}` of type {}",
                    field.name(),
                    type_name(array.data_type())
                )
            };
            caught(write)
                .unwrap_or_else(|Panicked| Err(failed(ParquetError::General(message()))))?;
        }
        Ok(())
    }

    /// # Errors
    /// [`Error::Write`].
    pub fn finish(self) -> Result<EncodedRowGroup, Error> {
        let path = self.path;
        let chunks =
            self.columns.into_iter().map(ArrowColumnWriter::close).collect::<Result<_, _>>();
        let chunks = chunks.map_err(|source| Error::Write { path, source })?;
        Ok(EncodedRowGroup { chunks, pages: self.pages })
    }
}

/// Writes one column, which has an encoder for each leaf.
fn write_column<'a>(
    field: &FieldRef,
    array: &ArrayRef,
    encoders: &mut impl Iterator<Item = &'a mut ArrowColumnWriter>,
) -> Result<(), ParquetError> {
    compute_leaves(field, array)?
        .iter()
        .zip(encoders)
        .try_for_each(|(leaf, encoder)| encoder.write(leaf))
}

impl<W: Write + Send> RowGroupFile<W> {
    /// Row groups must come in the order of their encoders.
    ///
    /// # Errors
    /// [`Error::Write`].
    pub fn append(&mut self, row_group: EncodedRowGroup) -> Result<(), Error> {
        self.append_chunks(row_group)
            .map_err(|source| Error::Write { path: self.path.clone(), source })
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

    /// Writes the footer and returns the sink.
    ///
    /// # Errors
    /// [`Error::Write`].
    pub fn finish(self) -> Result<W, Error> {
        let path = self.path;
        self.writer.into_inner().map_err(|source| Error::Write { path, source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::types::Int32Type;
    use arrow_array::{DictionaryArray, Int32Array, StringViewArray};
    use arrow_schema::{DataType, Field, Schema};

    #[test]
    fn panic_of_the_encoder_becomes_an_error_that_names_the_column()
    -> Result<(), Box<dyn std::error::Error>> {
        let words = DictionaryArray::<Int32Type>::new(
            Int32Array::from(vec![0]),
            Arc::new(StringViewArray::from(vec!["a"])),
        );
        let field = Field::new("word", words.data_type().clone(), true);
        let schema = Arc::new(Schema::new(vec![field]));
        let rows = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(words)])?;
        let (_file, mut encoders) = pieces(
            "a.parquet",
            Vec::new(),
            Arc::clone(&schema),
            WriterProperties::default(),
            false,
        )?;
        // The stored type would be supported.
        assert_eq!(
            encoders.schema.field(0).data_type(),
            &DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
        );
        let mut encoder = encoders.next_row_group()?;
        encoder.schema = schema;
        let message = encoder.write(&rows).unwrap_err().to_string();
        assert!(
            message.contains("a.parquet")
                && message.contains(
                    "failed on column `word` of type dictionary<values=string_view, indices=int32>"
                ),
            "{message}"
        );
        Ok(())
    }
}
