//! Writes rows to one file, or to numbered files of a directory. All of them get their names at the
//! end, or none; if they replace files, an error may leave some of them.

use crate::columns::{in_layout_of, select, with_wide_keys};
use crate::compressed::FileCompression;
use crate::file_set::FileSet;
use crate::framed::{FramedFiles, Framing};
use crate::mds::MdsFiles;
use crate::parquet::ParquetFiles;
use crate::pending_files::{PendingFiles, ShardNames, Target};
use crate::record_files::RecordFiles;
use crate::token_layout::{TokenKind, TokenLayout};
use crate::{Error, FileSummary, Gather, Result};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use shardmill_formats::arrayrecord::WriterOptions;
use shardmill_formats::mds::{Columns, ShardOptions};
use shardmill_formats::parquet::ParquetCompression;
use shardmill_formats::tar::MemberStamp;
use shardmill_storage::Replace;

/// The format of the files.
#[derive(Debug, Clone)]
pub enum Format {
    ArrayRecord(WriterOptions),
    /// Without a schema, the first rows determine it.
    Parquet {
        compression: ParquetCompression,
        /// Omit page CRCs.
        omits_checksums: bool,
        schema: Option<SchemaRef>,
    },
    Jsonl {
        compression: FileCompression,
    },
    WebDataset {
        compression: FileCompression,
        stamp: MemberStamp,
        /// Number of the first sample, if rows have no keys.
        first_key: u64,
    },
    /// Without columns, the first rows determine them.
    Mds {
        columns: Option<Columns>,
        options: ShardOptions,
    },
    Tokens(TokenLayout),
}

/// Files that are being written.
#[derive(Debug)]
pub struct Shards {
    pending: PendingFiles,
    files: Box<dyn FileSet>,
    columns: Option<Vec<String>>,
    replace: Replace,
    process: u32,
    rows: u64,
    schema: Option<SchemaRef>,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// The files are complete but not named yet.
    Whole,
    Closed,
}

impl Format {
    /// The names of shards.
    fn names(&self, before: String) -> ShardNames {
        let extension = match self {
            Self::ArrayRecord(_) => ".array_record".to_owned(),
            Self::Parquet { .. } => ".parquet".to_owned(),
            Self::Jsonl { compression } => format!(".jsonl{}", compression.extension()),
            Self::WebDataset { compression, .. } => format!(".tar{}", compression.extension()),
            Self::Mds { options, .. } => {
                let compression = options
                    .compression
                    .as_ref()
                    .map(|compression| format!(".{}", compression.extension()));
                format!(".mds{}", compression.unwrap_or_default())
            }
            Self::Tokens(TokenLayout { kind: TokenKind::Megatron, .. }) => {
                let extensions = [".bin", ".idx"].map(str::to_owned).to_vec();
                return ShardNames {
                    alone: Some(before.clone()),
                    before: before + "_",
                    extensions,
                };
            }
            Self::Tokens(_) => ".bin".to_owned(),
        };
        ShardNames { before, extensions: vec![extension], alone: None }
    }

    fn files(self, threads: usize) -> Box<dyn FileSet> {
        match self {
            Self::ArrayRecord(options) => Box::new(RecordFiles::new(options)),
            Self::Parquet { compression, omits_checksums, schema } => {
                Box::new(ParquetFiles::new(compression, omits_checksums, schema))
            }
            Self::Jsonl { compression } => {
                Box::new(FramedFiles::new(Framing::Lines, compression, threads))
            }
            Self::Tokens(layout) => {
                Box::new(FramedFiles::new(Framing::Tokens(layout), FileCompression::None, threads))
            }
            Self::Mds { columns, options } => Box::new(MdsFiles::new(columns, options)),
            Self::WebDataset { compression, stamp, first_key } => Box::new(FramedFiles::new(
                Framing::samples(&stamp, first_key),
                compression,
                threads,
            )),
        }
    }
}

/// Where and how files are written.
#[derive(Debug, Clone)]
pub struct ShardsOptions {
    /// The prefix of the names of shards.
    pub name_prefix: String,
    /// The columns of batches to write, in this order; all if `None`.
    pub columns: Option<Vec<String>>,
    pub replace: Replace,
    /// The number of the first shard, as far as it is known in advance: a store needs the name of
    /// an object from the start.
    pub first_number: u64,
    pub threads: usize,
}

impl Shards {
    /// No file is created before the first row.
    #[must_use]
    pub fn new(target: Target, format: Format, options: ShardsOptions) -> Self {
        let names = format.names(options.name_prefix);
        let schema = match &format {
            Format::Parquet { schema, .. } => schema.clone(),
            _ => None,
        };
        Self {
            pending: PendingFiles::new(target, names, options.first_number, options.threads),
            files: format.files(options.threads),
            columns: options.columns,
            replace: options.replace,
            process: std::process::id(),
            rows: 0,
            schema,
            state: State::Open,
        }
    }

    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The given schema of Parquet, or the columns of the first rows; `None` before any rows.
    #[must_use]
    pub fn schema(&self) -> Option<SchemaRef> {
        self.schema.clone()
    }

    /// Writes rows.
    ///
    /// # Errors
    /// When the columns do not fit, and as [`Shards::flush`].
    pub fn write(&mut self, rows: &RecordBatch) -> Result<()> {
        self.check()?;
        let selected;
        let rows = match &self.columns {
            Some(columns) => {
                selected = select(rows, columns)?;
                &selected
            }
            None => rows,
        };
        let rows =
            in_layout_of(self.schema.get_or_insert_with(|| with_wide_keys(&rows.schema())), rows)?;
        let result = self.files.write(&rows, self.rows, &mut self.pending);
        self.rows += rows.num_rows() as u64;
        self.fail_on_error(result)
    }

    /// Writes remaining data and syncs it; returns summaries of the files. Without rows, there is
    /// one file without rows.
    ///
    /// # Errors
    /// As [`Shards::flush`].
    pub fn finish(&mut self) -> Result<Vec<FileSummary>> {
        let result = self
            .check()
            .and_then(|()| self.files.end(&mut self.pending))
            .and_then(|()| self.pending.settle());
        self.fail_on_error(result)?;
        self.state = State::Whole;
        Ok(self.pending.summaries())
    }

    /// Gives the files of [`Shards::finish`] their names, with numbers from `first` on; returns
    /// their paths.
    ///
    /// # Errors
    /// When a name exists and must not be replaced; when the files are not complete; when the names
    /// cannot be synced. Files that replace none are removed again.
    pub fn publish(&mut self, first: u64) -> Result<Vec<String>> {
        if self.state != State::Whole || self.process != std::process::id() {
            return Err(Error::Closed { path: self.pending.path().to_owned() });
        }
        let result = self.pending.publish(first, self.replace);
        self.abandon();
        result
    }

    /// Removes everything written. In a forked child the files belong to the parent,
    /// which removes them.
    pub fn abandon(&mut self) {
        self.state = State::Closed;
        if self.process != std::process::id() {
            self.files.forget();
            self.pending.forget();
        }
        self.files = Box::new(Closed);
        self.pending.abandon();
    }

    fn check(&self) -> Result<()> {
        if self.process != std::process::id() {
            return Err(Error::Forked { path: self.pending.path().to_owned() });
        }
        if self.state == State::Open {
            Ok(())
        } else {
            Err(Error::Closed { path: self.pending.path().to_owned() })
        }
    }

    fn fail_on_error(&mut self, result: Result<()>) -> Result<()> {
        if result.is_err() && self.process == std::process::id() {
            self.abandon();
        }
        result
    }
}

impl Gather for Shards {
    fn gather(&mut self, record: &[u8]) -> Result<bool> {
        self.check()?;
        let is_due = self.files.gather(record, &mut self.pending)?;
        self.rows += 1;
        Ok(is_due)
    }

    fn flush(&mut self) -> Result<()> {
        let result = self.check().and_then(|()| self.files.flush(&mut self.pending));
        self.fail_on_error(result)
    }
}

impl Drop for Shards {
    fn drop(&mut self) {
        self.abandon();
    }
}

/// Replaces the files of a writer that is closed or has failed.
#[derive(Debug)]
struct Closed;

impl FileSet for Closed {
    fn write(
        &mut self,
        _rows: &RecordBatch,
        _first_row: u64,
        pending: &mut PendingFiles,
    ) -> Result<()> {
        Err(Error::Closed { path: pending.path().to_owned() })
    }

    fn end(&mut self, pending: &mut PendingFiles) -> Result<()> {
        Err(Error::Closed { path: pending.path().to_owned() })
    }

    fn forget(&mut self) {}
}
