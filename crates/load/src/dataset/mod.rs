//! Files of one format, one schema: what they hold and how their blocks are read.
//!
//! Opening reads footers, in parallel, and no row. The files of a directory stand in byte order of their names; rows are numbered file after file.

mod format;
mod open;
mod rows;
mod schema;

pub use format::Format;
pub use open::DatasetOptions;

use arrow_array::ArrayRef;
use arrow_schema::SchemaRef;
use shardmill_formats::table::TableFile;
use std::sync::Arc;

/// Open files of one schema.
#[derive(Debug)]
pub struct Dataset {
    format: Option<Format>,
    files: Vec<OpenFile>,
    schema: SchemaRef,
    skipped: Vec<(String, String)>,
}

/// One file, and how its columns become those of the data set.
#[derive(Debug)]
pub struct OpenFile {
    pub path: String,
    /// Below the root of the data set.
    pub relative: String,
    pub size: u64,
    pub table: Arc<dyn TableFile>,
    columns: Vec<Origin>,
}

/// Where a column of the data set comes from in one file.
#[derive(Debug, Clone)]
enum Origin {
    /// A column of the file, by number.
    File(usize),
    /// The same value in each row, as an array of one.
    Constant(ArrayRef),
    /// The file lacks it.
    Absent,
}

/// A block of one of the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BlockOf {
    pub file: usize,
    pub block: usize,
}

impl Dataset {
    /// `None` when there are no files.
    #[must_use]
    pub fn format(&self) -> Option<Format> {
        self.format
    }

    #[must_use]
    pub fn files(&self) -> &[OpenFile] {
        &self.files
    }

    /// Files that could not be opened and were left out, each with the reason.
    #[must_use]
    pub fn skipped(&self) -> &[(String, String)] {
        &self.skipped
    }

    /// Types as batches have them.
    #[must_use]
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// All rows, no filter applied.
    #[must_use]
    pub fn num_rows(&self) -> u64 {
        self.files.iter().map(OpenFile::num_rows).sum()
    }

    /// Every block, file after file.
    pub fn blocks(&self) -> impl Iterator<Item = BlockOf> {
        self.files.iter().enumerate().flat_map(|(file, open)| (0..open.table.blocks().len()).map(move |block| BlockOf { file, block }))
    }
}

impl OpenFile {
    #[must_use]
    pub fn num_rows(&self) -> u64 {
        self.table.blocks().iter().map(|block| block.rows).sum()
    }
}
