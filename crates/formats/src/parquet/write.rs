//! Writes one Parquet file.
//!
//! Images are stored unchanged: they are already compressed, unique and never compared. So the payload column has no codec, no dictionary and no
//! statistics. The caller decides by bytes where a row group ends; a row group never contains more than one chunk.

use super::Error;
use super::write_row_groups::{RowGroupEncoder, RowGroupEncoders, RowGroupFile, pieces};
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
    /// A row group ends after this many rows; if `None`, only the caller ends it.
    pub max_row_group_rows: Option<usize>,
    /// Columns whose values rarely repeat: a dictionary would cost time and save nothing.
    pub plain: Vec<String>,
    /// Bounds for row groups but not for pages.
    pub is_coarse: bool,
    /// Omit page CRCs.
    pub omits_checksums: bool,
}

pub struct ParquetWriter<W: Write + Send> {
    file: RowGroupFile<W>,
    encoders: RowGroupEncoders,
    group: Option<RowGroupEncoder>,
    group_rows: usize,
    max_row_group_rows: usize,
}

impl<W: Write + Send> ParquetWriter<W> {
    /// `path` is used in errors.
    ///
    /// # Errors
    /// [`Error::UnsupportedType`], [`Error::Write`].
    pub fn new(path: &str, sink: W, schema: SchemaRef, options: &ParquetWriterOptions) -> Result<Self, Error> {
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
        if options.is_coarse {
            properties = properties.set_statistics_enabled(EnabledStatistics::Chunk);
        }
        for column in &options.plain {
            properties = properties.set_column_dictionary_enabled(ColumnPath::from(column.as_str()), false);
        }
        let (file, encoders) = pieces(path, sink, schema, properties.build(), !options.omits_checksums)?;
        let max_row_group_rows = options.max_row_group_rows.unwrap_or(usize::MAX).max(1);
        Ok(Self { file, encoders, group: None, group_rows: 0, max_row_group_rows })
    }

    /// The file and the encoders of its row groups, for threads.
    ///
    /// # Errors
    /// [`Error::Write`].
    pub fn in_pieces(mut self) -> Result<(RowGroupFile<W>, RowGroupEncoders), Error> {
        self.end_row_group()?;
        Ok((self.file, self.encoders))
    }

    /// Adds `rows` to the current row group.
    ///
    /// # Errors
    /// [`Error::Write`].
    pub fn write(&mut self, rows: &RecordBatch) -> Result<(), Error> {
        let mut start = 0;
        while start < rows.num_rows() {
            let count = (rows.num_rows() - start).min(self.max_row_group_rows - self.group_rows);
            let group = match self.group.take() {
                Some(group) => group,
                None => self.encoders.next_row_group()?,
            };
            self.group.insert(group).write(&rows.slice(start, count))?;
            self.group_rows += count;
            start += count;
            if self.group_rows == self.max_row_group_rows {
                self.end_row_group()?;
            }
        }
        Ok(())
    }

    /// Approximate size of the current row group.
    #[must_use]
    pub fn row_group_bytes(&self) -> usize {
        self.group.as_ref().map_or(0, RowGroupEncoder::encoded_bytes)
    }

    /// Ends the current row group, if there is one.
    ///
    /// # Errors
    /// [`Error::Write`].
    pub fn end_row_group(&mut self) -> Result<(), Error> {
        self.group_rows = 0;
        match self.group.take() {
            Some(group) => self.file.append(group.finish()?),
            None => Ok(()),
        }
    }

    /// Writes `rows` as a separate row group; nothing if there are no rows.
    ///
    /// # Errors
    /// [`Error::Write`].
    pub fn write_row_group(&mut self, rows: &RecordBatch) -> Result<(), Error> {
        self.write(rows)?;
        self.end_row_group()
    }

    /// Writes the footer and returns the sink.
    ///
    /// # Errors
    /// [`Error::Write`].
    pub fn finish(mut self) -> Result<W, Error> {
        self.end_row_group()?;
        self.file.finish()
    }
}
