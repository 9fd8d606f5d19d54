//! Opens one file of a known format.
//!
//! A data set opens all of its files with one opener; a job that goes through its files one after another needs no data set. The invariant: the types of text
//! are decided over all files that are given here, so that every file is read with the same.

use super::Format;
use super::mds::{MdsOpener, MdsShards};
use super::refetched::refetched;
use crate::Result;
use arrow_schema::SchemaRef;
use shardmill_formats::arrayrecord::ArrayRecordTable;
use shardmill_formats::csv::{self, CsvFile, CsvOptions};
use shardmill_formats::jsonl::{self, JsonlFile, JsonlOptions, Unpacker};
use shardmill_formats::orc::OrcFile;
use shardmill_formats::parquet::ParquetTable;
use shardmill_formats::records::BadLines;
use shardmill_formats::table::{TableError, TableFile};
use shardmill_formats::tar::samples::WebDatasetFile;
use shardmill_storage::RangeRead;
use std::sync::Arc;

/// Makes a [`TableFile`] of an object.
#[derive(Debug)]
pub struct FileOpener(Kind);

#[derive(Debug)]
enum Kind {
    Parquet,
    Orc,
    ArrayRecord,
    WebDataset,
    Csv(SchemaRef, CsvOptions),
    Jsonl(SchemaRef, JsonlOptions, Unpacker),
    Mds(MdsOpener),
}

impl FileOpener {
    /// CSV and JSONL have the types of `text_schema`, or those that the start of each of `objects` allows; other formats bring their own.
    ///
    /// # Errors
    /// When the start of a text file cannot be read.
    pub fn new(format: Format, text_schema: Option<SchemaRef>, bad_lines: BadLines, objects: &[Arc<dyn RangeRead>]) -> Result<Self> {
        Ok(Self(match format {
            Format::Parquet => Kind::Parquet,
            Format::Orc => Kind::Orc,
            Format::ArrayRecord => Kind::ArrayRecord,
            Format::WebDataset => Kind::WebDataset,
            Format::Csv => {
                let csv = CsvOptions { bad_lines, ..CsvOptions::default() };
                let inferred = || csv::infer(objects, &csv).map_err(TableError::from);
                Kind::Csv(text_schema.map_or_else(inferred, Ok)?, csv)
            }
            Format::Jsonl => {
                let jsonl = JsonlOptions { bad_lines };
                let inferred = || jsonl::infer(objects, &jsonl).map_err(TableError::from);
                Kind::Jsonl(text_schema.map_or_else(inferred, Ok)?, jsonl, Unpacker::default())
            }
            Format::Mds => Kind::Mds(MdsOpener::new(MdsShards::default(), false, objects)),
        }))
    }

    /// Of MDS shards: each is held against what an index says of it in `shards`. The first of `objects` that has a sample decides about the types of arrays.
    #[must_use]
    pub fn of_mds(shards: MdsShards, has_pickle_bytes: bool, objects: &[Arc<dyn RangeRead>]) -> Self {
        Self(Kind::Mds(MdsOpener::new(shards, has_pickle_bytes, objects)))
    }

    /// # Errors
    /// When the file is not of the format, or its footer is damaged.
    #[expect(clippy::needless_pass_by_value, reason = "a file keeps its object")]
    pub fn open(&self, object: Arc<dyn RangeRead>) -> Result<Arc<dyn TableFile>> {
        refetched(object.path(), || self.open_once(Arc::clone(&object)))
    }

    fn open_once(&self, object: Arc<dyn RangeRead>) -> std::result::Result<Arc<dyn TableFile>, TableError> {
        Ok(match &self.0 {
            Kind::Parquet => Arc::new(ParquetTable::open(object)?),
            Kind::Orc => Arc::new(OrcFile::open(object)?),
            Kind::ArrayRecord => Arc::new(ArrayRecordTable::open(object)?),
            Kind::WebDataset => Arc::new(WebDatasetFile::open(object)?),
            Kind::Csv(schema, options) => Arc::new(CsvFile::open(object, schema, options.clone())?),
            Kind::Jsonl(schema, options, unpacker) => Arc::new(JsonlFile::open(unpacker.unpack(object)?, schema, options.clone())?),
            Kind::Mds(opener) => opener.open(object)?,
        })
    }
}
