//! The layout of a file according to its footer: row groups and column chunks.

use super::ParquetFile;
use super::gauge::unsigned;
use parquet::file::metadata::ColumnChunkMetaData;

/// Some rows of the file, all columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowGroup {
    pub rows: u64,
    pub columns: Vec<ColumnChunk>,
}

/// One column of one row group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnChunk {
    /// The dotted path of the column.
    pub path: String,
    /// The codec in lower case, `none` for no codec.
    pub codec: String,
    pub stored_bytes: u64,
    pub decoded_bytes: u64,
}

impl ParquetFile {
    /// The row groups, in file order.
    #[must_use]
    pub fn row_groups(&self) -> Vec<RowGroup> {
        let groups = self.footer.row_groups().iter();
        groups
            .map(|group| RowGroup {
                rows: unsigned(group.num_rows()),
                columns: group.columns().iter().map(ColumnChunk::new).collect(),
            })
            .collect()
    }

    /// The writer of the file, as it names itself.
    #[must_use]
    pub fn created_by(&self) -> Option<&str> {
        self.footer.file_metadata().created_by()
    }
}

impl ColumnChunk {
    fn new(chunk: &ColumnChunkMetaData) -> Self {
        let codec = chunk.compression_codec().to_string().to_ascii_lowercase();
        Self {
            path: chunk.column_path().string(),
            codec: if codec == "uncompressed" { "none".to_owned() } else { codec },
            stored_bytes: unsigned(chunk.compressed_size()),
            decoded_bytes: unsigned(chunk.uncompressed_size()),
        }
    }
}
