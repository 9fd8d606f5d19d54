//! Writes one Parquet file.
//!
//! Images are stored unchanged: they are already compressed, unique and never compared. So the
//! payload column has no codec, no dictionary and no statistics. The `write` crate decides where a
//! row group ends.

use super::Error;
use super::write_row_groups::{RowGroupEncoders, RowGroupFile, pieces};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use parquet::basic::{BrotliLevel, Compression, GzipLevel, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;
use std::io::Write;
use std::str::FromStr;

/// Codec of the text columns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ParquetCompression {
    #[default]
    Zstd,
    Snappy,
    Gzip,
    Brotli,
    Lz4,
    None,
}

impl FromStr for ParquetCompression {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        Ok(match name.to_ascii_lowercase().as_str() {
            "zstd" => Self::Zstd,
            "snappy" => Self::Snappy,
            "gzip" => Self::Gzip,
            "brotli" => Self::Brotli,
            "lz4" => Self::Lz4,
            "none" | "uncompressed" => Self::None,
            _ => return Err(Error::UnknownCompression { name: name.to_owned() }),
        })
    }
}

impl ParquetCompression {
    fn codec(self) -> Compression {
        match self {
            Self::Zstd => Compression::ZSTD(ZstdLevel::default()),
            Self::Snappy => Compression::SNAPPY,
            Self::Gzip => Compression::GZIP(GzipLevel::default()),
            Self::Brotli => Compression::BROTLI(BrotliLevel::default()),
            Self::Lz4 => Compression::LZ4_RAW,
            Self::None => Compression::UNCOMPRESSED,
        }
    }
}

#[derive(Debug, Clone, Default)]
pub struct ParquetWriterOptions {
    pub compression: ParquetCompression,
    /// Column of payloads, which are usually compressed already, and its codec.
    pub payload: Option<(String, ParquetCompression)>,
    /// Columns whose values rarely repeat: a dictionary would cost time and save nothing.
    pub plain: Vec<String>,
    /// Omit page CRCs.
    pub omits_checksums: bool,
}

pub struct ParquetWriter<W: Write + Send> {
    file: RowGroupFile<W>,
    encoders: RowGroupEncoders,
}

impl<W: Write + Send> ParquetWriter<W> {
    /// `path` is used in errors.
    ///
    /// # Errors
    /// [`Error::UnsupportedType`], [`Error::Write`].
    pub fn new(
        path: &str,
        sink: W,
        schema: SchemaRef,
        options: &ParquetWriterOptions,
    ) -> Result<Self, Error> {
        let mut properties = WriterProperties::builder()
            .set_compression(options.compression.codec())
            .set_created_by(format!("shardmill version {}", env!("CARGO_PKG_VERSION")));
        if let Some((column, compression)) = &options.payload {
            let column = ColumnPath::from(column.as_str());
            properties = properties
                .set_column_compression(column.clone(), compression.codec())
                .set_column_dictionary_enabled(column.clone(), false)
                .set_column_statistics_enabled(column, EnabledStatistics::None);
        }
        for column in &options.plain {
            properties =
                properties.set_column_dictionary_enabled(ColumnPath::from(column.as_str()), false);
        }
        let (file, encoders) =
            pieces(path, sink, schema, properties.build(), !options.omits_checksums)?;
        Ok(Self { file, encoders })
    }

    /// The file and the encoders of its row groups, for threads.
    #[must_use]
    pub fn in_pieces(self) -> (RowGroupFile<W>, RowGroupEncoders) {
        (self.file, self.encoders)
    }

    /// Writes `rows` as a separate row group; nothing if there are no rows.
    ///
    /// # Errors
    /// [`Error::Write`].
    pub fn write_row_group(&mut self, rows: &RecordBatch) -> Result<(), Error> {
        if rows.num_rows() == 0 {
            return Ok(());
        }
        let mut group = self.encoders.next_row_group()?;
        group.write(rows)?;
        self.file.append(group.finish()?)
    }

    /// Writes the footer and returns the sink.
    ///
    /// # Errors
    /// [`Error::Write`].
    pub fn finish(self) -> Result<W, Error> {
        self.file.finish()
    }
}
