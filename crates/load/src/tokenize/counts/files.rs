//! The Parquet files in which counts are kept.

use super::{BlockKey, PUBLISHED_COUNTS, TokenCounts, is_empty};
use crate::{Error, Result};
use arrow_array::builder::{
    FixedSizeBinaryBuilder, Int32Builder, Int64Builder, ListBuilder, StringBuilder,
};
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{Array as _, ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use shardmill_engine::{Cancel, run_in_order};
use shardmill_formats::parquet::ParquetTable;
use shardmill_formats::table::{TableError, TableFile as _};
use shardmill_storage::{
    AnyStore, OpenFiles, Replace, Store, Unpublished, create_directory, local_path,
};
use shardmill_write::{ParquetFile, ParquetFileOptions};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use uuid::Uuid;

/// Number of threads that open files, which may be in an object store.
const OPENING_THREADS: usize = 16;

type Read<T> = std::result::Result<T, TableError>;

/// Opens the files of these paths, in their order.
pub(super) fn opened(paths: &[String], cancel: &Cancel) -> Result<Vec<Read<ParquetTable>>> {
    let (files, paths) = (OpenFiles::default(), paths.to_vec());
    let open = move |path: &String| Ok(ParquetTable::open(files.open(path)?)?);
    let count = paths.len();
    let work = move |number: usize| ControlFlow::Continue(paths.get(number).map(&open));
    let opened = run_in_order(count, OPENING_THREADS, cancel, work)?;
    let opened = opened.collect::<std::result::Result<Vec<_>, _>>()?;
    Ok(opened.into_iter().flatten().collect())
}

/// The rows of each block, with the columns that [`TokenCounts::read`] takes.
pub(super) fn blocks(file: Read<ParquetTable>) -> impl Iterator<Item = Read<RecordBatch>> {
    let (file, failure) = match file {
        Ok(file) => (Some(file), None),
        Err(error) => (None, Some(Err(error))),
    };
    let rows = file.into_iter().flat_map(|file| {
        // A column that the file does not have is missing from the rows.
        let number = |name| file.schema().index_of(name).ok();
        let columns: Vec<usize> = COLUMNS.into_iter().filter_map(number).collect();
        (0..file.blocks().len()).map(move |block| file.read(block, &columns, None))
    });
    failure.into_iter().chain(rows)
}

/// The size of a file, the digest and number of a block, the sum of its counts, the counts, and the
/// name of the file.
const COLUMNS: [&str; 6] = ["size", "digest", "block", "tokens", "counts", "file"];

impl TokenCounts {
    /// Returns whether the counts of every row are known now. A block without tokens is not read
    /// again for its packs, so nothing would tell that its counts are wrong: they are not used.
    pub(super) fn read(
        &self,
        rows: &RecordBatch,
        path: &str,
        entries: &mut Vec<(BlockKey, String)>,
    ) -> Result<bool> {
        let [sizes, digests, blocks, totals, lists, names] = rows.columns() else {
            self.warn(format!("the token counts in {path} are ignored: a column is missing"));
            return Ok(false);
        };
        let (Some(sizes), Some(digests), Some(blocks), Some(totals), Some(lists)) = (
            sizes.as_primitive_opt::<Int64Type>(),
            digests.as_fixed_size_binary_opt(),
            blocks.as_primitive_opt::<Int32Type>(),
            totals.as_primitive_opt::<Int64Type>(),
            lists.as_list_opt::<i32>(),
        ) else {
            self.warn(format!(
                "the token counts in {path} are ignored: their columns have other types"
            ));
            return Ok(false);
        };
        if [
            sizes.null_count(),
            digests.null_count(),
            blocks.null_count(),
            totals.null_count(),
            lists.null_count(),
        ]
        .iter()
        .any(|nulls| *nulls > 0)
        {
            self.warn(format!("the token counts in {path} are ignored: they have nulls"));
            return Ok(false);
        }
        let names = names.as_string_view_opt();
        let mut known = self.known.lock();
        let mut is_whole = true;
        for row in 0..rows.num_rows() {
            let values = lists.value(row);
            let counts = values
                .as_primitive_opt::<Int32Type>()
                .map(|counts| counts.iter().map(|count| u32::try_from(count?).ok()).collect());
            let (Some(counts), Ok(digest)) = (counts, digests.value(row).try_into()) else {
                is_whole = false;
                continue;
            };
            let counts: Option<Arc<[u32]>> = counts;
            let total = totals.value(row);
            let Some(counts) = counts.filter(|counts| is_sum(total, counts)) else {
                is_whole = false;
                let block = blocks.value(row);
                self.warn(format!(
                    "the token counts of block {block} in {path} are ignored: one of them is null, \
                     negative or too large, or their sum is not {total}"
                ));
                continue;
            };
            let size = sizes.value(row).cast_unsigned();
            let Ok(block) = u32::try_from(blocks.value(row)) else {
                is_whole = false;
                self.warn(format!(
                    "the token counts of block {} in {path} are ignored: its number is negative",
                    blocks.value(row)
                ));
                continue;
            };
            let key = BlockKey { size, digest, block, counts: counts.len() as u64 };
            let name = || names.map(|names| names.value(row).to_owned()).unwrap_or_default();
            if is_empty(&counts) {
                if self.empty.lock().insert(key) {
                    entries.push((key, name()));
                }
                continue;
            }
            if known.get(&key).is_some_and(|other| *other != counts) {
                return Err(Error::CountsDisagree {
                    directory: self.directory.clone(),
                    path: path.to_owned(),
                    block: key.block,
                });
            }
            if known.insert(key, counts).is_none() {
                entries.push((key, name()));
            }
        }
        Ok(is_whole)
    }

    pub(super) fn write(&self, entries: &[(BlockKey, String)]) -> std::result::Result<(), String> {
        let name = format!("counts-{}.parquet", Uuid::new_v4().simple());
        let path = format!("{}/{name}", self.directory);
        if let Some(directory) = local_path(&self.directory).map_err(|error| error.to_string())? {
            create_directory(Path::new(&*directory)).map_err(|error| error.to_string())?;
        }
        let staged =
            AnyStore.stage(&path, &Unpublished::default()).map_err(|error| error.to_string())?;
        let mut file = ParquetFile::new(
            &path,
            staged,
            schema(),
            ParquetFileOptions::default(),
            |file, _, _| Ok(file),
        );
        for part in parts(entries) {
            let rows = self.rows(part).map_err(|error| error.to_string())?;
            file.write(&rows)
                .and_then(|()| file.end_row_group())
                .map_err(|error| error.to_string())?;
        }
        file.finish()
            .map_err(|error| error.to_string())?
            .publish(Replace::Atomically)
            .map_err(|error| error.to_string())?;
        self.files.lock().insert(name);
        Ok(())
    }

    fn rows(
        &self,
        entries: &[(BlockKey, String)],
    ) -> std::result::Result<RecordBatch, arrow_schema::ArrowError> {
        let (known, empty) = (self.known.lock(), self.empty.lock());
        let (mut files, mut sizes, mut digests) =
            (StringBuilder::new(), Int64Builder::new(), FixedSizeBinaryBuilder::new(16));
        let (mut blocks, mut totals) = (Int32Builder::new(), Int64Builder::new());
        let mut lists = ListBuilder::new(Int32Builder::new()).with_field(Field::new(
            "item",
            DataType::Int32,
            false,
        ));
        for (key, path) in entries {
            let counts = match known.get(key) {
                Some(counts) => Arc::clone(counts),
                None if empty.contains(key) => {
                    std::iter::repeat_n(0, usize::try_from(key.counts).unwrap_or_default())
                        .collect()
                }
                None => continue,
            };
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
}

/// Entries that are written together. The lists of a batch have 32-bit offsets, which the counts of
/// all blocks may exceed.
pub(super) fn parts(entries: &[(BlockKey, String)]) -> impl Iterator<Item = &[(BlockKey, String)]> {
    let mut counts = 0;
    entries.chunk_by(move |(key, _), _| {
        counts += key.counts;
        if counts < PUBLISHED_COUNTS as u64 {
            return true;
        }
        counts = 0;
        false
    })
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

/// Whether these are the counts of a block of `total` tokens. The lists of a block have 32-bit
/// offsets, so no block has more tokens than these address.
fn is_sum(total: i64, counts: &[u32]) -> bool {
    i32::try_from(total).is_ok()
        && counts.iter().map(|count| i64::from(*count)).sum::<i64>() == total
}
