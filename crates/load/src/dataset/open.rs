//! Opens the files of a data set: lists them, reads their footers in parallel, agrees on one schema.

use super::schema::unify;
use super::{Dataset, Format, OpenFile, Origin};
use crate::{Error, Result};
use arrow_schema::SchemaRef;
use shardmill_engine::{Cancel, run_in_order};
use shardmill_formats::parquet::ParquetTable;
use shardmill_formats::table::{TableError, TableFile};
use shardmill_plan::{DataFile, data_files};
use shardmill_storage::OpenFiles;
use std::ops::ControlFlow;
use std::sync::Arc;

/// What to open.
#[derive(Debug, Clone)]
pub struct DatasetOptions {
    /// Files, directories and globs.
    pub paths: Vec<String>,
    /// By the names of the files when `None`.
    pub format: Option<Format>,
    /// Leave out files that cannot be opened; [`Dataset::skipped`] lists them.
    pub skip_bad_files: bool,
    /// For reading footers.
    pub threads: usize,
}

impl Dataset {
    /// # Errors
    /// For a path that does not exist, files of several or unknown formats, a file that cannot be opened, and schemas that contradict each other.
    pub fn open(options: &DatasetOptions, cancel: &Cancel) -> Result<Self> {
        let (format, files) = of_one_format(options)?;
        let Some(format) = format else {
            return Ok(Self { format: options.format, files: Vec::new(), schema: unify(std::iter::empty())?, skipped: Vec::new() });
        };
        let mut opened = Vec::with_capacity(files.len());
        let mut skipped = Vec::new();
        for (file, table) in files.iter().zip(open_all(format, &files, options.threads, cancel)?) {
            match table {
                Ok((table, size)) => opened.push((file, table, size)),
                Err(error) if options.skip_bad_files => skipped.push((file.path.clone(), error.to_string())),
                Err(error) => return Err(error),
            }
        }
        let schema = unify(opened.iter().map(|(file, table, _)| (file.path.as_str(), table.declared_schema())))?;
        let files = opened.into_iter().map(|(file, table, size)| open_file(file, table, size, &schema)).collect();
        Ok(Self { format: Some(format), files, schema, skipped })
    }
}

fn of_one_format(options: &DatasetOptions) -> Result<(Option<Format>, Vec<DataFile>)> {
    let files = data_files(&options.paths)?;
    if files.is_empty() {
        return Ok((None, files));
    }
    if let Some(format) = options.format {
        // The format decides, not the name. But beside files that are called after it, those called after another one are something else: a manifest.
        let is_named_so = files.iter().any(|file| Format::of(&file.path) == Some(format));
        let is_data = |file: &DataFile| !is_named_so || Format::of(&file.path).is_none_or(|other| other == format);
        return Ok((Some(format), files.into_iter().filter(is_data).collect()));
    }
    let mut known: Vec<(DataFile, Format)> = files.into_iter().filter_map(|file| Format::of(&file.path).map(|format| (file, format))).collect();
    // Files that are merely called `.json` beside others describe them.
    if known.iter().any(|(_, format)| *format != Format::Jsonl) {
        known.retain(|(file, _)| !file.path.to_ascii_lowercase().ends_with(".json"));
    }
    let Some((first, format)) = known.first().map(|(file, format)| (file.path.clone(), *format)) else {
        return Err(Error::UnknownFormat { paths: options.paths.join(", ") });
    };
    if let Some((second, other)) = known.iter().find(|(_, other)| *other != format) {
        return Err(Error::MixedFormats { first, first_format: format.name(), second: second.path.clone(), second_format: other.name() });
    }
    Ok((Some(format), known.into_iter().map(|(file, _)| file).collect()))
}

/// A file and its size.
type Opened = Result<(Arc<dyn TableFile>, u64)>;

fn open_all(format: Format, files: &[DataFile], threads: usize, cancel: &Cancel) -> Result<Vec<Opened>> {
    let (paths, open): (Arc<[String]>, _) = (files.iter().map(|file| file.path.clone()).collect(), OpenFiles::default());
    let work = move |number: usize| {
        let opened = paths.get(number).map(|path| open_one(format, path, &open));
        ControlFlow::Continue(opened.unwrap_or_else(|| Err(shardmill_engine::Error::Cancelled.into())))
    };
    run_in_order(files.len(), threads, cancel, work)?.map(|opened| opened.map_err(Error::from)).collect()
}

fn open_one(format: Format, path: &str, files: &OpenFiles) -> Opened {
    let object = files.open(path)?;
    let size = object.size();
    let table: Arc<dyn TableFile> = match format {
        Format::Parquet => Arc::new(ParquetTable::open(object).map_err(TableError::from)?),
        Format::Orc | Format::Csv | Format::Jsonl => return Err(Error::NoSuchFormat { name: format.name().to_owned() }),
    };
    Ok((table, size))
}

fn open_file(file: &DataFile, table: Arc<dyn TableFile>, size: u64, schema: &SchemaRef) -> OpenFile {
    let columns = schema.fields().iter().map(|field| table.declared_schema().index_of(field.name()).map_or(Origin::Absent, Origin::File));
    OpenFile { path: file.path.clone(), relative: file.relative.clone(), size, columns: columns.collect(), table }
}
