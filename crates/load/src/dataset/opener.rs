//! Opens one file of a known format.
//!
//! A data set opens all of its files with one opener; a job that reads its files one after another
//! needs no data set. The invariant: the types of text are inferred over all files that are given
//! here, so that every file is read with the same types. Late fields and values may change them
//! once all files were opened.

use super::Format;
use super::format::signature_of;
use super::mds::{MdsOpener, MdsShards};
use super::objects::Objects;
use super::refetched::refetched;
use super::text::{Nan, TextForm, TextOptions};
use super::token_opener::{TokenFileOptions, TokenOpener};
use crate::{Error, Result};
use arrow_schema::SchemaRef;
use serde::{Deserialize, Serialize};
use shardmill_formats::arrayrecord::ArrayRecordTable;
use shardmill_formats::csv::{self, CsvFile, CsvOptions};
use shardmill_formats::jsonl::{self, JsonlFile, JsonlOptions};
use shardmill_formats::limit::DecodeLimit;
use shardmill_formats::orc::OrcFile;
use shardmill_formats::parquet::ParquetTable;
use shardmill_formats::records::Unpacker;
use shardmill_formats::signature::{SIGNATURE_BYTES, Signature};
use shardmill_formats::table::{Guarded, TableError, TableFile};
use shardmill_formats::tar::samples::WebDatasetFile;
use shardmill_formats::token_files::TokenOptions;
use shardmill_plan::schema::has_nul;
use shardmill_storage::RangeRead;
use std::sync::Arc;

/// Opens an object as a [`TableFile`].
#[derive(Debug)]
pub struct FileOpener {
    kind: Kind,
    /// For text files.
    unpacker: Unpacker,
    limit: DecodeLimit,
}

#[derive(Debug)]
enum Kind {
    Parquet,
    Orc,
    ArrayRecord,
    WebDataset { ignores_zeros: bool, refuses_nan: bool },
    Csv { types: Types<csv::Inferred>, options: CsvOptions },
    Jsonl { types: Types<jsonl::Inferred>, options: JsonlOptions },
    Mds(MdsOpener),
    Tokens(TokenOpener),
}

/// Types of the columns of text files.
#[derive(Debug)]
enum Types<T> {
    Known(SchemaRef),
    /// From the start of each file, which later records may change.
    Inferred(T),
}

impl<T> Types<T> {
    fn sample<S: Clone>(&self, of: impl FnOnce(&T) -> &S) -> Option<S> {
        match self {
            Self::Known(_) => None,
            Self::Inferred(inferred) => Some(of(inferred).clone()),
        }
    }
}

/// The types inferred from the starts of text files, for openers of these files on other machines.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum TextSample {
    Csv(csv::Sample),
    Jsonl(jsonl::Sample),
}

/// How later records of a text file change the types of the sample.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum LateTypes {
    Csv(csv::LateColumns),
    Jsonl(jsonl::LateMembers),
}

impl FileOpener {
    /// CSV and JSONL files use the types that `text` gives, or those inferred from the start of
    /// each of `objects`; other formats contain their types.
    ///
    /// # Errors
    /// When the start of a text file cannot be read.
    pub fn new(
        format: Format,
        text: &TextOptions,
        limit: DecodeLimit,
        objects: &[Arc<dyn RangeRead>],
    ) -> Result<Self> {
        let unpacker = Unpacker::new(text.form.encoding, limit);
        // Files that are not text do not influence types; opening them reports the error.
        let is_text = |object: &&Arc<dyn RangeRead>| match content_of(object.as_ref(), &unpacker) {
            Ok(found) => !format.is_contradicted_by(found),
            Err(error) => error.of_store().is_some(),
        };
        let texts: Vec<Arc<dyn RangeRead>> = match format {
            Format::Csv | Format::Jsonl if text.schema.is_none() => {
                objects.iter().filter(is_text).cloned().collect()
            }
            _ => Vec::new(),
        };
        let kind = match format {
            Format::Parquet => Kind::Parquet,
            Format::Orc => Kind::Orc,
            Format::ArrayRecord => Kind::ArrayRecord,
            Format::WebDataset => {
                Kind::WebDataset { ignores_zeros: false, refuses_nan: text.form.nan == Nan::Raise }
            }
            Format::Csv => {
                let options = text.csv(limit)?;
                let inferred = || {
                    csv::infer(&texts, &unpacker, &options)
                        .map(Types::Inferred)
                        .map_err(TableError::from)
                };
                Kind::Csv {
                    types: text
                        .schema
                        .clone()
                        .map_or_else(inferred, |schema| Ok(Types::Known(schema)))?,
                    options,
                }
            }
            Format::Jsonl => {
                let options = text.jsonl(limit);
                let inferred = || {
                    jsonl::infer(&texts, &unpacker, &options)
                        .map(Types::Inferred)
                        .map_err(TableError::from)
                };
                Kind::Jsonl {
                    types: text
                        .schema
                        .clone()
                        .map_or_else(inferred, |schema| Ok(Types::Known(schema)))?,
                    options,
                }
            }
            Format::Mds => Kind::Mds(MdsOpener::new(MdsShards::default(), false, limit, objects)),
            Format::Megatron | Format::Datatrove | Format::Bin | Format::Npy => {
                let tokens = TokenOptions { limit, ..TokenOptions::default() };
                let options = TokenFileOptions { tokens, ..TokenFileOptions::default() };
                Kind::Tokens(TokenOpener::new(format, Objects::default(), options))
            }
        };
        Ok(Self { kind, unpacker, limit })
    }

    fn of(kind: Kind, limit: DecodeLimit) -> Self {
        Self { kind, unpacker: Unpacker::default(), limit }
    }

    /// For MDS shards: each is checked against its index entry in `shards`. The first of `objects`
    /// with a sample determines array types.
    #[must_use]
    pub fn of_mds(
        shards: MdsShards,
        has_pickle_bytes: bool,
        limit: DecodeLimit,
        objects: &[Arc<dyn RangeRead>],
    ) -> Self {
        Self::of(Kind::Mds(MdsOpener::new(shards, has_pickle_bytes, limit, objects)), limit)
    }

    /// For WebDataset tars: with `ignores_zeros`, concatenated archives are
    /// read to their last member.
    #[must_use]
    pub fn of_tars(ignores_zeros: bool, form: &TextForm, limit: DecodeLimit) -> Self {
        Self::of(Kind::WebDataset { ignores_zeros, refuses_nan: form.nan == Nan::Raise }, limit)
    }

    /// For files of tokens.
    pub(super) fn of_tokens(opener: TokenOpener) -> Self {
        let limit = opener.options().limit;
        Self::of(Kind::Tokens(opener), limit)
    }

    /// For text files, with the types of a sample.
    ///
    /// # Errors
    /// For options that are not valid.
    pub fn of_sample(sample: TextSample, text: &TextOptions, limit: DecodeLimit) -> Result<Self> {
        let unpacker = Unpacker::new(text.form.encoding, limit);
        let kind = match sample {
            TextSample::Csv(sample) => Kind::Csv {
                types: Types::Inferred(csv::Inferred::of(sample)),
                options: text.csv(limit)?,
            },
            TextSample::Jsonl(sample) => Kind::Jsonl {
                types: Types::Inferred(jsonl::Inferred::of(sample)),
                options: text.jsonl(limit),
            },
        };
        Ok(Self { kind, unpacker, limit })
    }

    /// `None` if the types are given, or if the files contain them.
    #[must_use]
    pub fn sample(&self) -> Option<TextSample> {
        match &self.kind {
            Kind::Csv { types, .. } => types.sample(csv::Inferred::sample).map(TextSample::Csv),
            Kind::Jsonl { types, .. } => {
                types.sample(jsonl::Inferred::sample).map(TextSample::Jsonl)
            }
            _ => None,
        }
    }

    /// How a file that was opened changes the types of the sample.
    #[must_use]
    pub fn late(&self, path: &str) -> Option<LateTypes> {
        match &self.kind {
            Kind::Csv { types: Types::Inferred(inferred), .. } => {
                inferred.late(path).map(LateTypes::Csv)
            }
            Kind::Jsonl { types: Types::Inferred(inferred), .. } => {
                inferred.late(path).map(LateTypes::Jsonl)
            }
            _ => None,
        }
    }

    /// Adds the changes of a file that an opener on another machine has opened.
    pub fn add_late(&self, path: &str, late: LateTypes) {
        match (&self.kind, late) {
            (Kind::Csv { types: Types::Inferred(inferred), .. }, LateTypes::Csv(late)) => {
                inferred.add(path, late);
            }
            (Kind::Jsonl { types: Types::Inferred(inferred), .. }, LateTypes::Jsonl(late)) => {
                inferred.add(path, late);
            }
            _ => {}
        }
    }

    /// The columns of all text files, after they were opened or added; `None` if their types are
    /// not inferred.
    #[must_use]
    pub fn inferred_schema(&self) -> Option<SchemaRef> {
        let (schema, late) = match &self.kind {
            Kind::Csv { types: Types::Inferred(inferred), .. } => {
                (inferred.schema(), inferred.late_schema())
            }
            Kind::Jsonl { types: Types::Inferred(inferred), .. } => {
                (inferred.schema(), inferred.late_schema())
            }
            _ => return None,
        };
        Some(late.unwrap_or_else(|| Arc::clone(schema)))
    }

    /// An opener with other types, if the files that were opened have values that do not fit those
    /// that were inferred. They have to be opened again then.
    #[must_use]
    pub fn with_late_types(&self) -> Option<Self> {
        let kind = match &self.kind {
            Kind::Csv { types: Types::Inferred(inferred), options } => {
                Kind::Csv { types: Types::Known(inferred.late_schema()?), options: options.clone() }
            }
            Kind::Jsonl { types: Types::Inferred(inferred), options } => Kind::Jsonl {
                types: Types::Known(inferred.late_schema()?),
                options: options.clone(),
            },
            _ => return None,
        };
        Some(Self { kind, unpacker: self.unpacker.fresh(), limit: self.limit })
    }

    /// # Errors
    /// When the file is not of the format, or its footer is damaged.
    #[expect(clippy::needless_pass_by_value, reason = "a file keeps its object")]
    pub fn open(&self, object: Arc<dyn RangeRead>) -> Result<Arc<dyn TableFile>> {
        // Almost any bytes can be parsed as text; other formats detect a wrong file themselves.
        if self.is_text() {
            self.check_contents(object.as_ref(), None)?;
        }
        let opened: Result<_> = refetched(object.path(), || self.open_once(Arc::clone(&object)));
        match opened {
            Err(Error::Table(error)) if error.of_store().is_none() => {
                self.check_contents(object.as_ref(), Some(&error))?;
                Err(Error::Table(error))
            }
            Ok(file) => match file.declared_schema().fields().iter().find(|field| has_nul(field)) {
                Some(field) => Err(Error::NulInName {
                    path: object.path().to_owned(),
                    column: field.name().clone(),
                }),
                None => Ok(file),
            },
            Err(error) => Err(error),
        }
    }

    /// Reports the actual format of a file instead of the expected one.
    fn check_contents(
        &self,
        object: &dyn RangeRead,
        source: Option<&Arc<TableError>>,
    ) -> Result<()> {
        let wanted = self.format();
        let found = if self.is_text() {
            content_of(object, &self.unpacker)?
        } else {
            signature_of(object)?
        };
        if !wanted.is_contradicted_by(found) {
            return Ok(());
        }
        Err(Error::WrongContents {
            path: object.path().to_owned(),
            wanted: wanted.name(),
            found: found.name(),
            source: source.map(Arc::clone),
        })
    }

    fn is_text(&self) -> bool {
        matches!(self.kind, Kind::Csv { .. } | Kind::Jsonl { .. })
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
            Kind::Tokens(opener) => opener.format(),
        }
    }

    fn open_once(
        &self,
        object: Arc<dyn RangeRead>,
    ) -> std::result::Result<Arc<dyn TableFile>, TableError> {
        let path = object.path().to_owned();
        Guarded::open(&path, || self.open_format(object))
    }

    fn open_format(
        &self,
        object: Arc<dyn RangeRead>,
    ) -> std::result::Result<Arc<dyn TableFile>, TableError> {
        Ok(match &self.kind {
            Kind::Parquet => Arc::new(ParquetTable::open_limited(object, self.limit)?),
            Kind::Orc => Arc::new(OrcFile::open_limited(object, self.limit)?),
            Kind::ArrayRecord => Arc::new(ArrayRecordTable::open_limited(object, self.limit)?),
            Kind::WebDataset { ignores_zeros, refuses_nan } => Arc::new(
                WebDatasetFile::open(object, *ignores_zeros, self.limit)?
                    .refusing_nan(*refuses_nan),
            ),
            Kind::Csv { types, options } => {
                let object = self.unpacker.unpack(object)?;
                Arc::new(match types {
                    Types::Known(schema) => CsvFile::open(object, schema, options.clone()),
                    Types::Inferred(inferred) => {
                        CsvFile::open_inferred(object, inferred, options.clone())
                    }
                }?)
            }
            Kind::Jsonl { types, options } => {
                let object = self.unpacker.unpack(object)?;
                Arc::new(match types {
                    Types::Known(schema) => JsonlFile::open(object, schema, options.clone()),
                    Types::Inferred(inferred) => {
                        JsonlFile::open_inferred(object, inferred, options.clone())
                    }
                }?)
            }
            Kind::Mds(opener) => opener.open(object)?,
            Kind::Tokens(opener) => opener.open(object)?,
        })
    }
}

/// What the content of a text file looks like.
fn content_of(object: &dyn RangeRead, unpacker: &Unpacker) -> Result<Signature> {
    Ok(Signature::of(&unpacker.start(object, SIGNATURE_BYTES).map_err(TableError::from)?.bytes))
}
