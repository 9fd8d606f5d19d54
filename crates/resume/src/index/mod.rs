//! Exact sets of keys in a file that is mapped by all processes of a machine.
//!
//! An [`IndexBuilder`] writes ids to one immutable file; an [`IdIndex`] looks up ids in its mapped
//! bytes. Each class of keys is a separate set. Numbers that are close together are stored as
//! containers, all other keys in buckets. The invariant: every id that an index contains was added
//! to it; a damaged file is rejected, or gives the same results as the intact one.

mod builder;
mod dense;
mod file;
mod levels;
mod mix;
mod partitions;
mod ranges;
mod runs;
mod scan;
mod sparse;

pub use builder::IndexBuilder;
pub use file::INDEX_VERSION;
pub use levels::Levels;
pub use scan::{BuildProgress, IndexSource};

use crate::keys::{IdSchema, KeyEncoder, Keys, WINDOW};
use crate::{DoneIds, Error, Result};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder, MutableBuffer};
use arrow_schema::DataType;
use file::Footer;
use mix::{Mix, low, upper, wide_ones};
use shardmill_engine::{Cancel, run_in_order};
use shardmill_storage::MappedFile;
use sparse::Damaged;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Options for building an index.
#[derive(Debug, Clone)]
pub struct IndexOptions {
    /// For keys, in addition to the memory of file decoders.
    pub memory_bytes: u64,
    pub threads: usize,
    /// Stops the reading of files; [`IndexBuilder::finish`] is told separately.
    pub cancel: Cancel,
}

impl Default for IndexOptions {
    fn default() -> Self {
        Self {
            memory_bytes: 1 << 30,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            cancel: Cancel::default(),
        }
    }
}

/// An exact set of ids in a file.
#[derive(Debug)]
pub struct IdIndex {
    file: MappedFile,
    footer: Footer,
    encoder: KeyEncoder,
    mix: Mix,
    columns: Vec<String>,
}

/// Statistics of one class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentInfo {
    pub name: &'static str,
    pub ids: u64,
}

impl IdIndex {
    /// Maps an index. Small files are read and verified completely, for large ones only the
    /// structure is checked; [`IdIndex::verify`] reads everything.
    ///
    /// # Errors
    /// [`Error::Storage`]; [`Error::NotAnIndex`], [`Error::IndexVersion`], [`Error::DamagedIndex`].
    pub fn open(path: &str) -> Result<Self> {
        let file = MappedFile::open(path)?;
        let footer = file::checked_footer(path, &file)?;
        let encoder = KeyEncoder::new(footer.schema.clone(), footer.secret);
        let columns = footer.schema.columns().iter().map(|column| column.name.clone()).collect();
        Ok(Self { mix: Mix::new(footer.secret), file, footer, encoder, columns })
    }

    /// Verifies the checksum of the content.
    ///
    /// # Errors
    /// [`Error::DamagedIndex`].
    pub fn verify(&self) -> Result<()> {
        file::verify(self.file.path(), &self.file, &self.footer)
    }

    #[must_use]
    pub fn path(&self) -> &str {
        self.file.path()
    }

    #[must_use]
    pub fn schema(&self) -> &IdSchema {
        &self.footer.schema
    }

    /// Number of distinct ids.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.footer.count()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of rows that were added, including repeated ids and nulls.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.footer.rows
    }

    /// Number of rows without an id.
    #[must_use]
    pub fn nulls(&self) -> u64 {
        self.footer.nulls
    }

    /// Size of the file.
    #[must_use]
    pub fn num_bytes(&self) -> u64 {
        self.file.len() as u64
    }

    #[must_use]
    pub fn segments(&self) -> Vec<SegmentInfo> {
        let narrow =
            self.footer.narrow.iter().map(|set| SegmentInfo { name: "sparse", ids: set.len() });
        let wide = self
            .footer
            .wide
            .iter()
            .map(|(class, set)| SegmentInfo { name: class.name(), ids: set.len() });
        let dense = SegmentInfo { name: "dense", ids: self.footer.dense.count };
        std::iter::once(dense).chain(narrow).chain(wide).filter(|segment| segment.ids > 0).collect()
    }

    fn probe(
        &self,
        keys: &Keys,
        first: usize,
        found: &mut [u8],
    ) -> std::result::Result<(), Damaged> {
        let file: &[u8] = &self.file;
        let mut set = |rows: &[u32], number: usize| {
            if let Some(row) = rows.get(number).map(|row| first + *row as usize)
                && let Some(byte) = found.get_mut(row >> 3)
            {
                *byte |= 1 << (row & 7);
            }
        };
        let narrow = &keys.narrow;
        if self.footer.dense.entries > 0 {
            self.footer.dense.probe(file, &narrow.keys, |number| set(&narrow.rows, number))?;
        }
        if let Some(sparse) = &self.footer.narrow {
            let part_bits = sparse.part_bits;
            let mixed = narrow.keys.iter().map(|key| {
                (
                    self.mix.narrow_part(*key, part_bits),
                    u128::from(self.mix.narrow_rest(*key, part_bits)),
                )
            });
            sparse.probe(file, mixed, |number| set(&narrow.rows, number))?;
        }
        for (class, rows) in keys.wide().filter(|(_, rows)| !rows.keys.is_empty()) {
            let Some((_, sparse)) = self.footer.wide.iter().find(|(own, _)| *own == class) else {
                continue;
            };
            let mask = wide_ones(sparse.rest_bits);
            let mixed = rows.keys.iter().map(|key| {
                let key = self.mix.wide(*key);
                (upper(low(key >> 64), 64, sparse.part_bits), key & mask)
            });
            sparse.probe(file, mixed, |number| set(&rows.rows, number))?;
        }
        Ok(())
    }

    fn contains_plain(&self, ids: &[ArrayRef]) -> Result<BooleanBuffer> {
        let ids = self.encoder.prepare(ids)?;
        let len = ids.first().map_or(0, Array::len);
        let mut found = MutableBuffer::from_len_zeroed(len.div_ceil(8));
        let mut keys = Keys::default();
        for start in (0..len).step_by(WINDOW) {
            self.encoder.encode(&ids, start..len.min(start + WINDOW), &mut keys)?;
            self.probe(&keys, start, &mut found).map_err(|_damaged| Error::DamagedIndex {
                path: self.path().to_owned(),
                reason: "a bucket points outside of its part",
            })?;
        }
        Ok(BooleanBuffer::new(found.into(), 0, len))
    }
}

/// Number of rows that are worth another thread.
const ROWS_A_THREAD: usize = 1 << 19;

/// As [`DoneIds::contains`], on up to `threads` threads if there are enough rows.
///
/// # Errors
/// As [`DoneIds::contains`]; when the system provides no threads.
pub fn contains_on(
    index: &Arc<IdIndex>,
    ids: &[ArrayRef],
    threads: usize,
) -> Result<BooleanBuffer> {
    let rows = ids.first().map_or(0, Array::len);
    let parts = (rows / ROWS_A_THREAD).min(threads * 4);
    if threads < 2 || parts < 2 || ids.iter().any(|column| column.len() != rows) {
        return index.contains(ids);
    }
    let len = rows.div_ceil(parts);
    let (shared, columns) = (Arc::clone(index), ids.to_vec());
    let work = move |part: usize| {
        let start = (part * len).min(rows);
        let slices: Vec<ArrayRef> =
            columns.iter().map(|column| column.slice(start, len.min(rows - start))).collect();
        ControlFlow::Continue(shared.contains(&slices))
    };
    let mut found = BooleanBufferBuilder::new(rows);
    for part in run_in_order(parts, threads, &Cancel::default(), work)? {
        found.append_buffer(&part??);
    }
    Ok(found.finish())
}

impl DoneIds for IdIndex {
    fn columns(&self) -> &[String] {
        &self.columns
    }

    fn contains(&self, ids: &[ArrayRef]) -> Result<BooleanBuffer> {
        if let [only] = ids
            && let (DataType::Dictionary(..), Some(dictionary)) =
                (only.data_type(), only.as_any_dictionary_opt())
            && (1..only.len()).contains(&dictionary.values().len())
        {
            let values = self.contains_plain(std::slice::from_ref(dictionary.values()))?;
            let keys = dictionary.normalized_keys();
            let mut found = BooleanBufferBuilder::new(only.len());
            keys.iter().enumerate().for_each(|(row, key)| {
                found.append(only.is_valid(row) && *key < values.len() && values.value(*key));
            });
            return Ok(found.finish());
        }
        self.contains_plain(ids)
    }

    fn may_contain(&self, min: &ArrayRef, max: &ArrayRef) -> bool {
        ranges::may_contain(self, min, max)
    }
}
