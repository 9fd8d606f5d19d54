//! The number of tokens of each row of a block, kept as Parquet files, so that a corpus is counted once.
//!
//! A block is known by the contents of its file, so files that are renamed or copied keep their counts, and a file that is rewritten loses them. The
//! invariant: the files are a cache. What cannot be read is counted again, what cannot be written is kept in memory, and each row that is delivered
//! is compared with its count by [`crate::packing`].

use crate::dataset::{BlockOf, OpenFile};
use crate::{Dataset, DatasetOptions, Error, Format, Result};
use arrow_array::builder::{FixedSizeBinaryBuilder, Int32Builder, Int64Builder, ListBuilder, StringBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use shardmill_engine::Cancel;
use shardmill_formats::parquet::{ParquetCompression, ParquetWriter, ParquetWriterOptions};
use shardmill_storage::{AnyDisk, Disk as _, Replace, Unpublished, create_directory, local_path, store_of};
use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use uuid::Uuid;
use xxhash_rust::xxh3::Xxh3Default;

/// New counts are published after this time, or when there are this many.
const PUBLISHED_EACH: Duration = Duration::from_secs(10);
const PUBLISHED_COUNTS: usize = 4 << 20;

/// More files than this are merged when they are opened.
const MOST_FILES: usize = 64;

/// A block of a file with certain contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BlockKey {
    size: u64,
    digest: [u8; 16],
    block: u32,
}

impl BlockKey {
    #[must_use]
    pub fn of(file: &OpenFile, place: BlockOf) -> Self {
        let mut digest = Xxh3Default::new();
        digest.update(&file.table.digest().to_le_bytes());
        file.table.blocks().iter().for_each(|block| digest.update(&block.rows.to_le_bytes()));
        Self { size: file.size, digest: digest.digest128().to_le_bytes(), block: u32::try_from(place.block).unwrap_or(u32::MAX) }
    }
}

/// The counts of a tokenization, which are opened when they are first needed.
#[derive(Debug)]
pub struct CountsDirectory {
    directory: Option<String>,
    counts: Mutex<Option<Arc<TokenCounts>>>,
}

impl CountsDirectory {
    /// `None` if counts are not kept.
    #[must_use]
    pub fn new(directory: Option<String>) -> Self {
        Self { directory, counts: Mutex::default() }
    }

    /// # Errors
    /// As [`TokenCounts::open`].
    pub fn open(&self, cancel: &Cancel) -> Result<Option<Arc<TokenCounts>>> {
        let mut counts = lock(&self.counts);
        if counts.is_none()
            && let Some(directory) = &self.directory
        {
            *counts = Some(Arc::new(TokenCounts::open(directory, cancel)?));
        }
        Ok(counts.clone())
    }
}

/// Counts of one tokenization.
#[derive(Debug)]
pub struct TokenCounts {
    directory: String,
    known: Mutex<HashMap<BlockKey, Arc<[u32]>>>,
    pending: Mutex<Pending>,
    warnings: Mutex<Vec<String>>,
}

#[derive(Debug)]
struct Pending {
    entries: Vec<(BlockKey, String)>,
    counts: usize,
    since: Instant,
    /// After a failure nothing more is written.
    is_off: bool,
}

impl TokenCounts {
    /// The counts in the files of `directory`, which need not exist.
    ///
    /// # Errors
    /// When two files disagree about a block.
    pub fn open(directory: &str, cancel: &Cancel) -> Result<Self> {
        let pending = Pending { entries: Vec::new(), counts: 0, since: Instant::now(), is_off: false };
        let counts = Self { directory: directory.to_owned(), known: Mutex::default(), pending: Mutex::new(pending), warnings: Mutex::default() };
        let options = DatasetOptions {
            skip_bad_files: true,
            text_schema: None,
            ..DatasetOptions::new(vec![format!("{directory}/counts-*.parquet")], Some(Format::Parquet))
        };
        let Ok(dataset) = Dataset::open(&options, cancel) else { return Ok(counts) };
        dataset.skipped().iter().for_each(|(path, error)| counts.warn(format!("the token counts in {path} are ignored: {error}")));
        let names = ["size", "digest", "block", "counts", "file"].map(str::to_owned);
        let Ok(columns) = dataset.columns(&names) else { return Ok(counts) };
        let mut entries = Vec::new();
        for place in dataset.blocks() {
            let path = dataset.files().get(place.file).map_or("", |file| file.path.as_str());
            match dataset.read(place, &columns, None) {
                Ok(rows) => counts.read(&rows, path, &mut entries)?,
                Err(error) => counts.warn(format!("the token counts in {path} are ignored: {error}")),
            }
        }
        if dataset.files().len() > MOST_FILES {
            counts.compact(&entries, dataset.files());
        }
        Ok(counts)
    }

    /// Puts all counts into one file. A reader that misses a removed file counts its blocks again.
    fn compact(&self, entries: &[(BlockKey, String)], files: &[OpenFile]) {
        if self.write(entries).is_ok() {
            for file in files {
                // A file that cannot be removed is read again; its counts are the same.
                drop(AnyDisk::default().remove(&file.path));
            }
        }
    }

    #[must_use]
    pub fn directory(&self) -> &str {
        &self.directory
    }

    #[must_use]
    pub fn of(&self, key: &BlockKey) -> Option<Arc<[u32]>> {
        lock(&self.known).get(key).cloned()
    }

    /// Adds the counts of a block of `path`, and publishes what has come together now and then.
    pub fn add(&self, key: BlockKey, path: &str, counts: Arc<[u32]>) {
        let mut pending = lock(&self.pending);
        pending.counts += counts.len();
        pending.entries.push((key, path.to_owned()));
        lock(&self.known).insert(key, counts);
        if pending.counts >= PUBLISHED_COUNTS || pending.since.elapsed() >= PUBLISHED_EACH {
            self.publish_pending(&mut pending);
        }
    }

    /// Publishes all counts that were added.
    pub fn publish(&self) {
        self.publish_pending(&mut lock(&self.pending));
    }

    /// What went wrong since the last call.
    pub fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut *lock(&self.warnings))
    }

    fn read(&self, rows: &RecordBatch, path: &str, entries: &mut Vec<(BlockKey, String)>) -> Result<()> {
        let [sizes, digests, blocks, lists, names] = rows.columns() else { return Ok(()) };
        let (Some(sizes), Some(digests), Some(blocks), Some(lists)) = (
            sizes.as_primitive_opt::<Int64Type>(),
            digests.as_fixed_size_binary_opt(),
            blocks.as_primitive_opt::<Int32Type>(),
            lists.as_list_opt::<i32>(),
        ) else {
            self.warn(format!("the token counts in {path} are ignored: their columns have other types"));
            return Ok(());
        };
        let names = names.as_string_view_opt();
        let mut known = lock(&self.known);
        for row in 0..rows.num_rows() {
            let values = lists.value(row);
            let counts = values.as_primitive_opt::<Int32Type>().map(|counts| counts.values().iter().map(|count| count.cast_unsigned()).collect());
            let (Some(counts), Ok(digest)) = (counts, digests.value(row).try_into()) else { continue };
            let counts: Arc<[u32]> = counts;
            let key = BlockKey { size: sizes.value(row).cast_unsigned(), digest, block: blocks.value(row).cast_unsigned() };
            if known.get(&key).is_some_and(|other| *other != counts) {
                return Err(Error::CountsDisagree { directory: self.directory.clone(), path: path.to_owned(), block: key.block });
            }
            if known.insert(key, counts).is_none() {
                entries.push((key, names.map(|names| names.value(row).to_owned()).unwrap_or_default()));
            }
        }
        Ok(())
    }

    fn publish_pending(&self, pending: &mut Pending) {
        let entries = std::mem::take(&mut pending.entries);
        pending.counts = 0;
        pending.since = Instant::now();
        if entries.is_empty() || pending.is_off {
            return;
        }
        if let Err(reason) = self.write(&entries) {
            pending.is_off = true;
            self.warn(format!("token counts cannot be kept in {}, so they are computed again next time: {reason}", self.directory));
        }
    }

    fn write(&self, entries: &[(BlockKey, String)]) -> std::result::Result<(), String> {
        let path = format!("{}/counts-{}.parquet", self.directory, Uuid::new_v4().simple());
        if let Some(directory) = local_path(&self.directory).map_err(|error| error.to_string())? {
            create_directory(Path::new(&*directory)).map_err(|error| error.to_string())?;
        }
        let rows = self.rows(entries).map_err(|error| error.to_string())?;
        let staged = store_of(&path).and_then(|store| store.stage(&path, &Unpublished::default())).map_err(|error| error.to_string())?;
        let options = ParquetWriterOptions { compression: ParquetCompression::Zstd, ..ParquetWriterOptions::default() };
        let mut writer = ParquetWriter::new(&path, staged, rows.schema(), &options).map_err(|error| error.to_string())?;
        writer.write(&rows).map_err(|error| error.to_string())?;
        writer.finish().map_err(|error| error.to_string())?.publish(Replace::Atomically).map_err(|error| error.to_string())
    }

    fn rows(&self, entries: &[(BlockKey, String)]) -> std::result::Result<RecordBatch, arrow_schema::ArrowError> {
        let known = lock(&self.known);
        let (mut files, mut sizes, mut digests) = (StringBuilder::new(), Int64Builder::new(), FixedSizeBinaryBuilder::new(16));
        let (mut blocks, mut totals) = (Int32Builder::new(), Int64Builder::new());
        let mut lists = ListBuilder::new(Int32Builder::new()).with_field(Field::new("item", DataType::Int32, false));
        for (key, path) in entries {
            let Some(counts) = known.get(key) else { continue };
            files.append_value(path);
            sizes.append_value(key.size.cast_signed());
            digests.append_value(key.digest)?;
            blocks.append_value(key.block.cast_signed());
            totals.append_value(counts.iter().map(|count| i64::from(*count)).sum());
            lists.values().extend(counts.iter().map(|count| Some(count.cast_signed())));
            lists.append(true);
        }
        let columns: Vec<ArrayRef> = vec![
            Arc::new(files.finish()),
            Arc::new(sizes.finish()),
            Arc::new(digests.finish()),
            Arc::new(blocks.finish()),
            Arc::new(totals.finish()),
            Arc::new(lists.finish()),
        ];
        RecordBatch::try_new(schema(), columns)
    }

    fn warn(&self, warning: String) {
        lock(&self.warnings).push(warning);
    }
}

/// One row is one block.
fn schema() -> SchemaRef {
    let field = |name, data_type| Field::new(name, data_type, false);
    let item = Arc::new(field("item", DataType::Int32));
    Arc::new(Schema::new(vec![
        field("file", DataType::Utf8),
        field("size", DataType::Int64),
        field("digest", DataType::FixedSizeBinary(16)),
        field("block", DataType::Int32),
        field("tokens", DataType::Int64),
        field("counts", DataType::List(item)),
    ]))
}

fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}
