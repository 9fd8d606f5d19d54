//! Opens one file of a known format.
//!
//! A data set opens all of its files with one opener; a job that reads its files one after another needs no data set. The invariant: the types of
//! text are inferred over all files that are given here, so that every file is read with the same types. Late fields and values may change them once all
//! files were opened.

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

/// Opens an object as a [`TableFile`].
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
    Csv { types: Types<csv::Inferred>, options: CsvOptions },
    Jsonl { types: Types<jsonl::Inferred>, options: JsonlOptions, unpacker: Unpacker },
    Mds(MdsOpener),
}

/// Types of the columns of text files.
#[derive(Debug)]
enum Types<T> {
    Known(SchemaRef),
    /// From the start of each file, which later records may change.
    Inferred(T),
}

impl FileOpener {
    /// CSV and JSONL files use the types of `text_schema`, or those inferred from the start of each of `objects`; other formats contain their types.
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
        // Files that are not text do not influence types; opening them reports the error.
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
                let options = CsvOptions { bad_lines, limit, is_inferred: text_schema.is_none(), ..CsvOptions::default() };
                let inferred = || csv::infer(&texts, &options).map(Types::Inferred).map_err(TableError::from);
                Kind::Csv { types: text_schema.map_or_else(inferred, |schema| Ok(Types::Known(schema)))?, options }
            }
            Format::Jsonl => {
                let options = JsonlOptions { bad_lines, limit, is_inferred: text_schema.is_none() };
                let inferred = || jsonl::infer(&texts, &options).map(Types::Inferred).map_err(TableError::from);
                let types = text_schema.map_or_else(inferred, |schema| Ok(Types::Known(schema)))?;
                Kind::Jsonl { types, options, unpacker: Unpacker::new(limit) }
            }
            Format::Mds => Kind::Mds(MdsOpener::new(MdsShards::default(), false, limit, objects)),
        };
        Ok(Self { kind, limit })
    }

    /// For MDS shards: each is checked against its index entry in `shards`. The first of `objects` with a sample determines array types.
    #[must_use]
    pub fn of_mds(shards: MdsShards, has_pickle_bytes: bool, limit: DecodeLimit, objects: &[Arc<dyn RangeRead>]) -> Self {
        Self { kind: Kind::Mds(MdsOpener::new(shards, has_pickle_bytes, limit, objects)), limit }
    }

    /// For WebDataset tars: with `ignores_zeros`, concatenated archives are read to their last member.
    #[must_use]
    pub fn of_tars(ignores_zeros: bool, limit: DecodeLimit) -> Self {
        Self { kind: Kind::WebDataset { ignores_zeros }, limit }
    }

    /// An opener for some of the files, if those have to be opened before their types are certain. [`FileOpener::with_late_types`] then asks it alone.
    #[must_use]
    pub fn for_uncertain_types(&self) -> Option<Self> {
        match &self.kind {
            Kind::Csv { types: Types::Inferred(inferred), options } => Some(Self::of_csv(Types::Inferred(inferred.fresh()), options)),
            Kind::Jsonl { types: Types::Inferred(inferred), options, .. } => Some(Self::of_jsonl(Types::Inferred(inferred.fresh()), options)),
            _ => None,
        }
    }

    /// An opener with other types, if the files that were opened have values that do not fit those that were inferred. They have to be opened again
    /// then.
    #[must_use]
    pub fn with_late_types(&self) -> Option<Self> {
        match &self.kind {
            Kind::Csv { types: Types::Inferred(inferred), options } => Some(Self::of_csv(Types::Known(inferred.late_schema()?), options)),
            Kind::Jsonl { types: Types::Inferred(inferred), options, .. } => Some(Self::of_jsonl(Types::Known(inferred.late_schema()?), options)),
            _ => None,
        }
    }

    fn of_csv(types: Types<csv::Inferred>, options: &CsvOptions) -> Self {
        Self { kind: Kind::Csv { types, options: options.clone() }, limit: options.limit }
    }

    fn of_jsonl(types: Types<jsonl::Inferred>, options: &JsonlOptions) -> Self {
        Self { kind: Kind::Jsonl { types, options: options.clone(), unpacker: Unpacker::new(options.limit) }, limit: options.limit }
    }

    /// # Errors
    /// When the file is not of the format, or its footer is damaged.
    #[expect(clippy::needless_pass_by_value, reason = "a file keeps its object")]
    pub fn open(&self, object: Arc<dyn RangeRead>) -> Result<Arc<dyn TableFile>> {
        // Almost any bytes can be parsed as text; other formats detect a wrong file themselves.
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

    /// Reports the actual format of a file instead of the expected one.
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
            Kind::Csv { .. } => Format::Csv,
            Kind::Jsonl { .. } => Format::Jsonl,
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
            Kind::Csv { types, options } => Arc::new(match types {
                Types::Known(schema) => CsvFile::open(object, schema, options.clone()),
                Types::Inferred(inferred) => CsvFile::open_inferred(object, inferred, options.clone()),
            }?),
            Kind::Jsonl { types, options, unpacker } => {
                let object = unpacker.unpack(object)?;
                Arc::new(match types {
                    Types::Known(schema) => JsonlFile::open(object, schema, options.clone()),
                    Types::Inferred(inferred) => JsonlFile::open_inferred(object, inferred, options.clone()),
                }?)
            }
            Kind::Mds(opener) => opener.open(object)?,
        })
    }
}
