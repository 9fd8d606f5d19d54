//! Opens the files of a data set: lists them, reads their footers in parallel,
//! and unifies their schemas.

use super::documents::DocumentTable;
use super::found::{Found, REQUESTING_THREADS, find_files};
use super::objects::Objects;
use super::parts::PartTable;
use super::token_masks::masks_of;
use super::token_opener::{TokenFileOptions, TokenOpener};
use super::{Dataset, FileOpener, Format, MdsShards, OpenFile, Origin, TextOptions, TextSample};
use crate::{Error, Result};
use arrow_array::{Array, ArrayRef};
use arrow_schema::{Schema, SchemaRef};
use arrow_select::concat::concat;
use shardmill_engine::{Cancel, run_in_order};
use shardmill_formats::limit::DecodeLimit;
use shardmill_formats::records::{BadLines, Declared};
use shardmill_formats::table::{Statistics, TableFile};
use shardmill_plan::prune::prune;
use shardmill_plan::schema::{FileColumns, unify};
use shardmill_plan::{DataFile, Expression, Partitions};
use shardmill_storage::{Error as StorageError, RangeRead, is_remote, resolved_path};
use std::collections::{BTreeSet, HashMap};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Options for opening a data set.
#[derive(Debug, Clone)]
pub struct DatasetOptions {
    /// Files, directories and globs.
    pub paths: Vec<String>,
    /// Detected from the names of the files if `None`.
    pub format: Option<Format>,
    /// Convert `key=value` directories to columns.
    pub hive: Option<HiveKeys>,
    /// Files whose partition values exclude every row are not opened.
    pub filter: Option<Expression>,
    pub text: TextOptions,
    /// Skip files that cannot be opened; [`Dataset::skipped`] lists them.
    pub skip_bad_files: bool,
    /// Deliver pickle columns of MDS shards as bytes; otherwise they cannot be read.
    pub has_pickle_bytes: bool,
    /// Read concatenated WebDataset tars to their last member, across the zeros between them.
    pub ignores_zeros: bool,
    /// How files of tokens are read.
    pub tokens: TokenFileOptions,
    /// Where documents come from, if rows are these.
    pub documents: Option<DocumentOptions>,
    /// Memory limit for one value, line, page or member.
    pub limit: DecodeLimit,
    /// Threads for reading footers.
    pub threads: usize,
}

/// Where the parts of documents are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DocumentRows {
    /// In rows of interleaved files.
    Interleaved,
    /// In these columns of each row.
    Parts(Vec<String>),
    /// In each row, whose messages have the images of this column.
    Messages(String),
}

/// Documents, and the columns that state the widths and heights of their images, if any do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentOptions {
    pub rows: DocumentRows,
    pub sizes: Option<[String; 2]>,
}

/// Where `key=value` directories are columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HiveKeys {
    /// Below a directory, or below the part of a glob before its first wildcard; for a file, in its
    /// whole path.
    Below,
    /// In the whole path of each file.
    Path,
}

impl HiveKeys {
    fn text<'a>(self, file: &'a DataFile, paths: &[String]) -> &'a str {
        let is_named =
            || paths.iter().any(|path| resolved_path(path).is_ok_and(|path| path == file.path));
        if self == Self::Path || is_named() { &file.path } else { &file.relative }
    }
}

impl DatasetOptions {
    /// All rows and columns; everything unreadable is an error. Footers are read on one thread.
    #[must_use]
    pub fn new(paths: Vec<String>, format: Option<Format>) -> Self {
        Self {
            paths,
            format,
            hive: None,
            filter: None,
            text: TextOptions::default(),
            skip_bad_files: false,
            has_pickle_bytes: false,
            ignores_zeros: false,
            tokens: TokenFileOptions::default(),
            documents: None,
            limit: DecodeLimit::default(),
            threads: 1,
        }
    }
}

impl Dataset {
    /// # Errors
    /// For a path that does not exist, files of several or unknown formats, a file that cannot be
    /// opened, conflicting schemas, and a filter that does not fit the schema.
    pub fn open(options: &DatasetOptions, cancel: &Cancel) -> Result<Self> {
        let mut shards = MdsShards::default();
        let Found { format, files, left_out, samples } =
            find_files(&options.paths, options.format, &mut shards)?;
        let Some(format) = format else {
            let schema = unify(&[])?;
            return Ok(Self {
                format: options.format,
                files: Vec::new(),
                schema,
                top_level: 0,
                hidden: BTreeSet::new(),
                image_columns: BTreeSet::new(),
                left_out,
                skipped: Vec::new(),
                bytes_read: Vec::new(),
            });
        };
        options.text.form.check(format)?;
        let masks = masks_of(&files, &options.tokens.label_masks)?;
        let samples =
            if options.text.bad_lines == BadLines::Skip { HashMap::new() } else { samples };
        let keys: Vec<&str> = options
            .hive
            .map(|hive| files.iter().map(|file| hive.text(file, &options.paths)).collect())
            .unwrap_or_default();
        let partitions = Partitions::infer("", &keys)?;
        let wanted = wanted_files(&partitions, options.filter.as_ref(), files.len())?;
        let mut listed: Vec<(usize, DataFile)> = files
            .into_iter()
            .enumerate()
            .filter(|(number, _)| wanted.get(*number) != Some(&false))
            .collect();
        let bytes_read = Arc::default();
        let beside = Beside { shards, masks };
        let tables = open_all(format, &listed, options, beside, &bytes_read, cancel)?;
        let mut opened = Vec::with_capacity(listed.len());
        let mut skipped = Vec::new();
        for ((number, file), table) in listed.drain(..).zip(tables) {
            let whole = |(table, size): (Arc<dyn TableFile>, u64)| {
                let rows = table.blocks().iter().map(|block| block.rows).sum();
                match samples.get(&file.path) {
                    Some(samples) if *samples != rows => {
                        Err(Error::SampleCount { path: file.path.clone(), rows, samples: *samples })
                    }
                    _ => Ok((table, size)),
                }
            };
            match table.and_then(whole) {
                Ok((table, size)) => opened.push((number, file, table, size)),
                Err(error) if options.skip_bad_files && is_of_file(&error, &file.path) => {
                    skipped.push((file.path, error));
                }
                Err(error) => return Err(error),
            }
        }
        let own = unify(
            &opened
                .iter()
                .map(|(_, _, table, _)| FileColumns::of(table.as_ref()))
                .collect::<Vec<_>>(),
        )?;
        let own = if format == Format::WebDataset { in_byte_order(&own) } else { own };
        partitions.check(&own)?;
        let fields = own.fields().iter().chain(partitions.fields()).cloned();
        let schema: SchemaRef =
            Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), own.metadata().clone()));
        let files = opened.into_iter().map(|(number, file, table, size)| {
            let mut columns: Vec<Origin> = own
                .fields()
                .iter()
                .map(|field| {
                    table
                        .declared_schema()
                        .index_of(field.name())
                        .map_or(Origin::Absent, Origin::File)
                })
                .collect();
            columns.extend(
                partitions
                    .values(number)
                    .unwrap_or_default()
                    .iter()
                    .map(|value| Origin::Constant(Arc::clone(value))),
            );
            OpenFile {
                path: file.path,
                relative: file.relative,
                size,
                columns,
                table,
                declared: Declared::nothing(),
                live: None,
            }
        });
        let top_level = schema.fields().len();
        let files: Vec<OpenFile> = files.collect();
        // A column is virtual in all files that have it, because they have one format.
        let is_hidden =
            |column: &usize| files.iter().find_map(|file| file.is_virtual(*column)) == Some(true);
        let hidden = (0..top_level).filter(is_hidden).collect();
        let image_columns = BTreeSet::new();
        let bytes_read = vec![bytes_read];
        let dataset = Self {
            format: Some(format),
            files,
            schema,
            top_level,
            hidden,
            image_columns,
            left_out,
            skipped,
            bytes_read,
        }
        .with_nested();
        // Without files there are no columns for the filter.
        if let Some(filter) = options.filter.as_ref().filter(|_| !dataset.files.is_empty()) {
            dataset.check_filter(filter)?;
        }
        Ok(dataset)
    }
}

/// Errors of an unreachable store do not concern the file, which must not be skipped for them.
fn is_of_file(error: &Error, path: &str) -> bool {
    let is_outage = |error: &StorageError| {
        !matches!(error, StorageError::NotFound { .. } | StorageError::Changed { .. })
    };
    let is_of_store = is_remote(path) && error.of_store().is_some_and(is_outage);
    !is_of_store && !matches!(error, Error::Engine(_))
}

/// Sorts extensions, so that their order does not depend on the file in which one occurs first. The
/// key stays first.
fn in_byte_order(schema: &Schema) -> SchemaRef {
    let mut fields = schema.fields().to_vec();
    if let Some((_key, extensions)) = fields.split_first_mut() {
        extensions.sort_by(|first, second| first.name().cmp(second.name()));
    }
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// Which files may contain rows, judging by their partition values.
fn wanted_files(
    partitions: &Partitions,
    filter: Option<&Expression>,
    files: usize,
) -> Result<Vec<bool>> {
    let keys: BTreeSet<&str> =
        partitions.fields().iter().map(|field| field.name().as_str()).collect();
    let all = vec![true; files];
    let Some(filter) = filter.and_then(|filter| of_columns(filter, &keys)) else { return Ok(all) };
    let predicate = filter.bind(&Schema::new(partitions.fields().to_vec()))?;
    // A file counts as a block of one row here.
    let facts = |column: &str| {
        let place = partitions.fields().iter().position(|field| field.name() == column)?;
        let values: Vec<&ArrayRef> =
            (0..files).map(|file| partitions.values(file)?.get(place)).collect::<Option<_>>()?;
        let values: Vec<&dyn Array> = values.into_iter().map(AsRef::as_ref).collect();
        let bounds = concat(&values).ok()?;
        let null_counts = (0..files).map(|file| Some(u64::from(bounds.is_null(file)))).collect();
        Some(Statistics {
            min: Arc::clone(&bounds),
            max: bounds,
            null_counts,
            row_counts: vec![1; files],
        })
    };
    let mut wanted = prune(&predicate, &vec![1; files], &facts);
    // One file is needed for the columns, even if no row remains.
    if let (false, Some(first)) = (wanted.contains(&true), wanted.first_mut()) {
        *first = true;
    }
    Ok(wanted)
}

/// The part of a filter that can be evaluated with these columns: the whole filter, or some of the
/// conditions of a conjunction.
fn of_columns(filter: &Expression, columns: &BTreeSet<&str>) -> Option<Expression> {
    if !filter.columns().is_empty() && filter.columns().is_subset(columns) {
        return Some(filter.clone());
    }
    let Expression::And(parts) = filter else { return None };
    let parts: Vec<Expression> =
        parts.iter().filter_map(|part| of_columns(part, columns)).collect();
    (!parts.is_empty()).then_some(Expression::And(parts))
}

/// Opens `paths`, which are files of one format, in parallel.
///
/// # Errors
/// For a file that cannot be opened, and when cancelled.
pub fn open_files(
    format: Format,
    paths: &[String],
    options: &DatasetOptions,
    cancel: &Cancel,
) -> Result<Vec<Arc<dyn TableFile>>> {
    let shards = if format == Format::Mds {
        MdsShards::below(&options.paths)?
    } else {
        MdsShards::default()
    };
    let file = |path: &String| DataFile { path: path.clone(), relative: path.clone() };
    let files: Vec<(usize, DataFile)> = paths.iter().map(file).enumerate().collect();
    let beside = Beside { shards, ..Beside::default() };
    let opened = open_all(format, &files, options, beside, &Arc::default(), cancel)?;
    opened.into_iter().map(|opened| Ok(opened?.0)).collect()
}

/// What is known about files from others, before they are opened.
#[derive(Debug, Default)]
pub(super) struct Beside {
    pub(super) shards: MdsShards,
    /// Masks of tokens, by the path of the tokens.
    pub(super) masks: HashMap<String, String>,
}

/// The types inferred from the starts of text files, with which a job on several machines opens
/// them; `None` for other formats. A file that cannot be read is left to the opener.
///
/// # Errors
/// As [`FileOpener::new`], and when cancelled.
pub fn text_sample(
    format: Format,
    paths: Vec<String>,
    options: &DatasetOptions,
    cancel: &Cancel,
) -> Result<Option<TextSample>> {
    if !matches!(format, Format::Csv | Format::Jsonl) {
        return Ok(None);
    }
    let threads = threads_of(&paths, options.threads);
    let objects: Vec<_> = objects_of(&Objects::default(), paths, threads, cancel)?
        .into_iter()
        .filter_map(Result::ok)
        .collect();
    Ok(FileOpener::new(format, &options.text, options.limit, &objects)?.sample())
}

/// Requests wait for the store, so there are more of them than there are processors.
fn threads_of(paths: &[String], threads: usize) -> usize {
    let is_remote = paths.first().is_some_and(|path| is_remote(path));
    if is_remote { threads.max(REQUESTING_THREADS) } else { threads }
}

/// Each object, or why it cannot be opened.
fn objects_of(
    source: &Objects,
    paths: Vec<String>,
    threads: usize,
    cancel: &Cancel,
) -> Result<Vec<Result<Arc<dyn RangeRead>>>> {
    let object = {
        let source = source.clone();
        move |path: &String| -> Result<Arc<dyn RangeRead>> { Ok(source.open(path)?) }
    };
    if !paths.first().is_some_and(|path| is_remote(path)) {
        return Ok(paths.iter().map(object).collect());
    }
    let count = paths.len();
    let opened = move |number: usize| ControlFlow::Continue(paths.get(number).map(&object));
    Ok(run_in_order(count, threads, cancel, opened)?
        .map(|opened| opened.map_err(Error::from))
        .collect::<Result<Vec<_>>>()?
        .into_iter()
        .flatten()
        .collect())
}

/// A file and its size.
pub(super) type Opened = Result<(Arc<dyn TableFile>, u64)>;

pub(super) fn open_all(
    format: Format,
    files: &[(usize, DataFile)],
    options: &DatasetOptions,
    beside: Beside,
    bytes_read: &Arc<AtomicU64>,
    cancel: &Cancel,
) -> Result<Vec<Opened>> {
    let source = Objects::new(bytes_read);
    let paths: Vec<String> = files.iter().map(|(_, file)| file.path.clone()).collect();
    let threads = threads_of(&paths, options.threads);
    let objects = objects_of(&source, paths, threads, cancel)?;
    let readable: Vec<Arc<dyn RangeRead>> =
        objects.iter().filter_map(|object| object.as_ref().ok().cloned()).collect();
    // The types of text are inferred over all files, before any of them is indexed.
    let opener = match format {
        Format::Mds => {
            FileOpener::of_mds(beside.shards, options.has_pickle_bytes, options.limit, &readable)
        }
        Format::WebDataset => {
            FileOpener::of_tars(options.ignores_zeros, &options.text.form, options.limit)
        }
        Format::Megatron | Format::Datatrove | Format::Bin | Format::Npy => {
            let mut tokens = options.tokens.clone();
            tokens.tokens.limit = options.limit;
            FileOpener::of_tokens(TokenOpener::new(format, source, tokens).with_masks(beside.masks))
        }
        _ => FileOpener::new(format, &options.text, options.limit, &readable)?,
    };
    let objects: Arc<[Result<Arc<dyn RangeRead>>]> = objects.into();
    let opener = Arc::new(opener);
    let opened = open_objects(&opener, &objects, options, threads, cancel)?;
    match opener.with_late_types() {
        Some(opener) => open_objects(&Arc::new(opener), &objects, options, threads, cancel),
        None => Ok(opened),
    }
}

fn open_objects(
    opener: &Arc<FileOpener>,
    objects: &Arc<[Result<Arc<dyn RangeRead>>]>,
    options: &DatasetOptions,
    threads: usize,
    cancel: &Cancel,
) -> Result<Vec<Opened>> {
    let (opener, objects, count) = (Arc::clone(opener), Arc::clone(objects), objects.len());
    let documents = options.documents.clone();
    let work = move |number: usize| {
        let opened = objects.get(number).map(|object| {
            let object = object.as_ref().map_err(Clone::clone)?;
            let mut table = opener.open(Arc::clone(object))?;
            if let Some(DocumentOptions { rows, sizes }) = &documents {
                let sizes = sizes.as_ref().map(<[String; 2]>::as_slice).unwrap_or_default();
                table = match rows {
                    DocumentRows::Interleaved => Arc::new(DocumentTable::open(table, sizes)?),
                    DocumentRows::Parts(parts) => Arc::new(PartTable::open(table, parts, sizes)?),
                    DocumentRows::Messages(images) => {
                        Arc::new(PartTable::of_images(table, images, sizes)?)
                    }
                };
            }
            Ok((table, object.size()))
        });
        opened.unwrap_or_else(|| Err(shardmill_engine::Error::Cancelled.into()))
    };
    run_in_order(count, threads, cancel, move |number| ControlFlow::Continue(work(number)))?
        .map(|opened| opened.map_err(Error::from))
        .collect()
}
