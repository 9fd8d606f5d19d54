//! Opens one file of a known format.
//!
//! A data set opens all of its files with one opener; a job that goes through its files one after another needs no data set. The invariant: the types of text
//! are decided over all files that are given here, so that every file is read with the same.

use super::Format;
use super::format::signature_of;
use super::mds::{MdsOpener, MdsShards};
use super::refetched::refetched;
use super::schema::has_nul;
use crate::{Error, Result};
use arrow_schema::SchemaRef;
use shardmill_formats::arrayrecord::ArrayRecordTable;
use shardmill_formats::csv::{self, CsvFile, CsvOptions};
use shardmill_formats::jsonl::{self, JsonlFile, JsonlOptions, Unpacker};
use shardmill_formats::limit::DecodeLimit;
use shardmill_formats::orc::OrcFile;
use shardmill_formats::parquet::ParquetTable;
use shardmill_formats::records::BadLines;
use shardmill_formats::table::{Guarded, TableError, TableFile};
use shardmill_formats::tar::samples::WebDatasetFile;
use shardmill_storage::RangeRead;
use std::sync::Arc;

/// Makes a [`TableFile`] of an object.
#[derive(Debug)]
pub struct FileOpener {
    kind: Kind,
    limit: DecodeLimit,
}

#[derive(Debug)]
enum Kind {
    Parquet,
    Orc,
    ArrayRecord,
    WebDataset { ignores_zeros: bool },
    Csv(SchemaRef, CsvOptions),
    Jsonl(SchemaRef, JsonlOptions, Unpacker),
    Mds(MdsOpener),
}

impl FileOpener {
    /// CSV and JSONL have the types of `text_schema`, or those that the start of each of `objects` allows; other formats bring their own.
    ///
    /// # Errors
    /// When the start of a text file cannot be read.
    pub fn new(
        format: Format,
        text_schema: Option<SchemaRef>,
        bad_lines: BadLines,
        limit: DecodeLimit,
        objects: &[Arc<dyn RangeRead>],
    ) -> Result<Self> {
        // What is not text decides no type; it says so itself when it is opened.
        let is_text = |object: &&Arc<dyn RangeRead>| !signature_of(object.as_ref()).is_ok_and(|found| format.is_contradicted_by(found));
        let texts: Vec<Arc<dyn RangeRead>> = match format {
            Format::Csv | Format::Jsonl if text_schema.is_none() => objects.iter().filter(is_text).cloned().collect(),
            _ => Vec::new(),
        };
        let kind = match format {
            Format::Parquet => Kind::Parquet,
            Format::Orc => Kind::Orc,
            Format::ArrayRecord => Kind::ArrayRecord,
            Format::WebDataset => Kind::WebDataset { ignores_zeros: false },
            Format::Csv => {
                let csv = CsvOptions { bad_lines, limit, ..CsvOptions::default() };
                let inferred = || csv::infer(&texts, &csv).map_err(TableError::from);
                Kind::Csv(text_schema.map_or_else(inferred, Ok)?, csv)
            }
            Format::Jsonl => {
                let jsonl = JsonlOptions { bad_lines, limit };
                let inferred = || jsonl::infer(&texts, &jsonl).map_err(TableError::from);
                Kind::Jsonl(text_schema.map_or_else(inferred, Ok)?, jsonl, Unpacker::new(limit))
            }
            Format::Mds => Kind::Mds(MdsOpener::new(MdsShards::default(), false, limit, objects)),
        };
        Ok(Self { kind, limit })
    }

    /// Of MDS shards: each is held against what an index says of it in `shards`. The first of `objects` that has a sample decides about the types of arrays.
    #[must_use]
    pub fn of_mds(shards: MdsShards, has_pickle_bytes: bool, limit: DecodeLimit, objects: &[Arc<dyn RangeRead>]) -> Self {
        Self { kind: Kind::Mds(MdsOpener::new(shards, has_pickle_bytes, limit, objects)), limit }
    }

    /// Of WebDataset tars: archives that were joined are read to their last member when the opener `ignores_zeros`.
    #[must_use]
    pub fn of_tars(ignores_zeros: bool, limit: DecodeLimit) -> Self {
        Self { kind: Kind::WebDataset { ignores_zeros }, limit }
    }

    /// # Errors
    /// When the file is not of the format, or its footer is damaged.
    #[expect(clippy::needless_pass_by_value, reason = "a file keeps its object")]
    pub fn open(&self, object: Arc<dyn RangeRead>) -> Result<Arc<dyn TableFile>> {
        // Almost all bytes can be taken for text; other formats find out themselves.
        if matches!(self.format(), Format::Csv | Format::Jsonl) {
            self.check_contents(object.as_ref(), None)?;
        }
        let opened: Result<_> = refetched(object.path(), || self.open_once(Arc::clone(&object)));
        match opened {
            Err(Error::Table(error)) if error.of_store().is_none() => {
                self.check_contents(object.as_ref(), Some(&error))?;
                Err(Error::Table(error))
            }
            Ok(file) => match file.declared_schema().fields().iter().find(|field| has_nul(field)) {
                Some(field) => Err(Error::NulInName { path: object.path().to_owned(), column: field.name().clone() }),
                None => Ok(file),
            },
            Err(error) => Err(error),
        }
    }

    /// Says what a file is instead of what it should be.
    fn check_contents(&self, object: &dyn RangeRead, source: Option<&Arc<TableError>>) -> Result<()> {
        let (wanted, found) = (self.format(), signature_of(object)?);
        if !wanted.is_contradicted_by(found) {
            return Ok(());
        }
        Err(Error::WrongContents { path: object.path().to_owned(), wanted: wanted.name(), found: found.name(), source: source.map(Arc::clone) })
    }

    fn format(&self) -> Format {
        match &self.kind {
            Kind::Parquet => Format::Parquet,
            Kind::Orc => Format::Orc,
            Kind::ArrayRecord => Format::ArrayRecord,
            Kind::WebDataset { .. } => Format::WebDataset,
            Kind::Csv(..) => Format::Csv,
            Kind::Jsonl(..) => Format::Jsonl,
            Kind::Mds(_) => Format::Mds,
        }
    }

    fn open_once(&self, object: Arc<dyn RangeRead>) -> std::result::Result<Arc<dyn TableFile>, TableError> {
        let path = object.path().to_owned();
        Guarded::open(&path, || self.open_format(object))
    }

    fn open_format(&self, object: Arc<dyn RangeRead>) -> std::result::Result<Arc<dyn TableFile>, TableError> {
        Ok(match &self.kind {
            Kind::Parquet => Arc::new(ParquetTable::open_limited(object, self.limit)?),
            Kind::Orc => Arc::new(OrcFile::open_limited(object, self.limit)?),
            Kind::ArrayRecord => Arc::new(ArrayRecordTable::open_limited(object, self.limit)?),
            Kind::WebDataset { ignores_zeros } => Arc::new(WebDatasetFile::open(object, *ignores_zeros, self.limit)?),
            Kind::Csv(schema, options) => Arc::new(CsvFile::open(object, schema, options.clone())?),
            Kind::Jsonl(schema, options, unpacker) => Arc::new(JsonlFile::open(unpacker.unpack(object)?, schema, options.clone())?),
            Kind::Mds(opener) => opener.open(object)?,
        })
    }
}
