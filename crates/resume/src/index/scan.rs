//! Builds an index from files of ids: only the id columns are decoded, on several threads.

use super::{IdIndex, IndexBuilder, IndexOptions};
use crate::keys::IdSchema;
use crate::{Error, Result};
use arrow_array::RecordBatch;
use arrow_schema::{DataType, SchemaRef};
use shardmill_engine::{Cancel, run_until_error};
use shardmill_formats::limit::DecodeLimit;
use shardmill_formats::table::TableFile;
use shardmill_load::{
    Dataset, DatasetOptions, FileOpener, Format, TextOptions, files_of_one_format,
};
use shardmill_storage::{AnyStore, Store, resolved_path, whole_if_small};
use std::collections::HashSet;
use std::fs;
use std::ops::{ControlFlow, Range};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Up to this number, files are opened first and their blocks are distributed. With more files each
/// is read by one thread, so that threads do not wait for all footers.
const SHARED_FILES: usize = 64;
/// Number of files that a thread then takes together: opening a small one is less work than passing
/// it on.
const FILES_AT_ONCE: usize = 16;
/// In checkpoints of Ray Data: files of a write task that ended without a commit.
const PENDING: &str = ".pending.parquet";

/// The ids to read.
#[derive(Debug, Clone)]
pub struct IndexSource {
    /// Files, directories and globs.
    pub paths: Vec<String>,
    /// Detected from the names of the files if `None`.
    pub format: Option<Format>,
    pub columns: Vec<String>,
}

/// Progress of a build, read by other threads.
#[derive(Debug, Default)]
pub struct BuildProgress {
    pub files: AtomicU64,
    pub files_done: AtomicU64,
    pub rows: AtomicU64,
}

impl IndexSource {
    /// The files with ids, and their format. Files of uncommitted tasks are skipped.
    ///
    /// # Errors
    /// For a path that does not exist, and files of several or unknown formats.
    pub fn files(&self) -> Result<(Option<Format>, Vec<String>)> {
        let (format, files, _left_out) = files_of_one_format(&self.paths, self.format)?;
        // A file that is read twice would count its ids twice.
        let mut seen = HashSet::new();
        let is_wanted = |path: &String| !path.ends_with(PENDING) && seen.insert(path.clone());
        Ok((format, files.into_iter().map(|file| file.path).filter(is_wanted).collect()))
    }
}

impl IdIndex {
    /// Reads ids from files and publishes their index at `path`.
    ///
    /// # Errors
    /// When a file cannot be read, and as [`IndexBuilder`]; [`Error::NoFiles`] without files,
    /// because the id type is then unknown; [`Error::IndexOverIds`] when `path` is one of them.
    pub fn build(
        source: &IndexSource,
        path: &str,
        options: IndexOptions,
        progress: &Arc<BuildProgress>,
    ) -> Result<Self> {
        let (format, files) = source.files()?;
        let (Some(format), Some(first)) = (format, files.first()) else {
            return Err(Error::NoFiles { paths: source.paths.join(", ") });
        };
        let target = real(path);
        if target.is_some() && files.iter().any(|file| real(file) == target) {
            return Err(Error::IndexOverIds { path: path.to_owned() });
        }
        progress.files.store(files.len() as u64, Ordering::Relaxed);
        let first_path = first.clone();
        let opened = match open_file(format, first)? {
            Some(table) => Opened::Alone { format, first: table, files },
            None => Opened::Together(together(source, format, files, &options)?),
        };
        let (typed, typed_path) = opened.typed(&source.columns, first_path, &options.cancel)?;
        let schema =
            IdSchema::of(&typed, &source.columns).map_err(|error| error.in_file(&typed_path))?;
        let (threads, cancel) = (options.threads, options.cancel.clone());
        let reading = Reading {
            builder: IndexBuilder::new(path, schema, options)?,
            columns: source.columns.clone(),
            progress: Arc::clone(progress),
            cancel: cancel.clone(),
        };
        let work = opened.into_work()?;
        let splits = work.len();
        let shared = Arc::new(reading);
        let reader = Arc::clone(&shared);
        let read = move |split: usize| work.get(split).map_or(Ok(()), |work| reader.read(work));
        for result in run_until_error(splits, threads, &cancel, read)? {
            result??;
        }
        shared.builder.finish(&cancel)
    }
}

/// The path without links of a local file; `None` without such a file.
fn real(path: &str) -> Option<PathBuf> {
    fs::canonicalize(&*resolved_path(path).ok()?).ok()
}

/// For formats whose types are inferred over all files.
fn together(
    source: &IndexSource,
    format: Format,
    paths: Vec<String>,
    options: &IndexOptions,
) -> Result<Arc<Dataset>> {
    let options_of =
        DatasetOptions { threads: options.threads, ..DatasetOptions::new(paths, Some(format)) };
    let dataset = Dataset::open(&options_of, &options.cancel)?;
    dataset.columns(&source.columns)?;
    Ok(Arc::new(dataset))
}

/// Opens a single file; `None` for formats whose types are inferred over all files.
fn open_file(format: Format, path: &str) -> Result<Option<Arc<dyn TableFile>>> {
    if matches!(format, Format::Csv | Format::Jsonl) {
        return Ok(None);
    }
    let object = whole_if_small(AnyStore.open(path)?)?;
    Ok(Some(
        FileOpener::new(format, &TextOptions::default(), DecodeLimit::default(), &[])?
            .open(object)?,
    ))
}

/// Whether a file has rows, and its id columns have a type. The type of a column without values may
/// be arbitrary.
fn has_ids(table: &dyn TableFile, columns: &[String]) -> bool {
    let is_all_null = |column: &String| {
        table
            .schema()
            .field_with_name(column)
            .is_ok_and(|field| field.data_type() == &DataType::Null)
    };
    table.blocks().iter().any(|block| block.rows > 0) && !columns.iter().any(is_all_null)
}

enum Opened {
    Alone { format: Format, first: Arc<dyn TableFile>, files: Vec<String> },
    Together(Arc<Dataset>),
}

/// A unit of work of a thread.
enum Work {
    Files { opener: Arc<FileOpener>, paths: Vec<String> },
    Run { table: Arc<dyn TableFile>, run: Range<usize>, is_last: bool },
}

impl Opened {
    /// The schema that determines the id types, and the path of its file: the first one with ids.
    fn typed(
        &self,
        columns: &[String],
        first_path: String,
        cancel: &Cancel,
    ) -> Result<(SchemaRef, String)> {
        let (format, first, files) = match self {
            Self::Alone { format, first, files } => (*format, first, files),
            Self::Together(dataset) => return Ok((Arc::clone(dataset.schema()), first_path)),
        };
        if !has_ids(first.as_ref(), columns) {
            for path in files.iter().skip(1) {
                cancel.check()?;
                if let Some(table) = open_file(format, path)?
                    && has_ids(table.as_ref(), columns)
                {
                    return Ok((Arc::clone(table.schema()), path.clone()));
                }
            }
        }
        Ok((Arc::clone(first.schema()), first_path))
    }

    fn into_work(self) -> Result<Vec<Work>> {
        let tables: Vec<Arc<dyn TableFile>> = match self {
            Self::Alone { format, files, .. } if files.len() > SHARED_FILES => {
                let opener = Arc::new(FileOpener::new(
                    format,
                    &TextOptions::default(),
                    DecodeLimit::default(),
                    &[],
                )?);
                return Ok(files
                    .chunks(FILES_AT_ONCE)
                    .map(|paths| Work::Files { opener: Arc::clone(&opener), paths: paths.to_vec() })
                    .collect());
            }
            Self::Alone { format, first, files } => {
                let rest = files.iter().skip(1).map(|path| open_file(format, path));
                std::iter::once(Ok(Some(first)))
                    .chain(rest)
                    .filter_map(std::result::Result::transpose)
                    .collect::<std::result::Result<_, _>>()?
            }
            Self::Together(dataset) => {
                dataset.files().iter().map(|file| Arc::clone(&file.table)).collect()
            }
        };
        let runs = tables.into_iter().flat_map(|table| {
            let runs = table.runs();
            let last = runs.len().saturating_sub(1);
            let of_run = move |(number, run)| Work::Run {
                table: Arc::clone(&table),
                run,
                is_last: number == last,
            };
            runs.into_iter().enumerate().map(of_run).collect::<Vec<_>>()
        });
        Ok(runs.collect())
    }
}

struct Reading {
    builder: IndexBuilder,
    columns: Vec<String>,
    progress: Arc<BuildProgress>,
    cancel: Cancel,
}

impl Reading {
    fn read(&self, work: &Work) -> Result<()> {
        match work {
            Work::Run { table, run, is_last } => {
                self.scan(table.as_ref(), run.clone())?;
                self.progress.files_done.fetch_add(u64::from(*is_last), Ordering::Relaxed);
            }
            Work::Files { opener, paths } => {
                for path in paths {
                    self.cancel.check()?;
                    let table = opener.open(whole_if_small(AnyStore.open(path)?)?)?;
                    table.runs().into_iter().try_for_each(|run| self.scan(table.as_ref(), run))?;
                    self.progress.files_done.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        Ok(())
    }

    fn scan(&self, table: &dyn TableFile, run: Range<usize>) -> Result<()> {
        if !has_ids(table, &self.columns) {
            return Ok(());
        }
        // Reports a column that the file lacks.
        IdSchema::of(table.schema(), &self.columns).map_err(|error| error.in_file(table.path()))?;
        let columns: Vec<usize> =
            self.columns.iter().filter_map(|column| table.schema().index_of(column).ok()).collect();
        let mut added = Ok(());
        let mut add = |batch: RecordBatch| {
            added = self.builder.add(batch.columns());
            self.progress.rows.fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
            if added.is_err() || self.cancel.is_cancelled() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        table.scan(run, &columns, &mut add)?;
        added.map_err(|error| error.in_file(table.path()))
    }
}
