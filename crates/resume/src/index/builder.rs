//! Builds an index of any number of ids in bounded memory.
//!
//! Threads convert arrays to keys. Consecutive numbers are kept as intervals; all other keys are
//! distributed to partitions by their mixed value, and partitions are moved to an unnamed file when
//! memory is short. At the end each partition is sorted and written, in order.

use super::dense::{Container, DenseSet, Entry};
use super::file::{Footer, IndexWriter};
use super::mix::{LOW_BITS, Mix};
use super::partitions::{Partitions, Room, Scatter, Scope, Word};
use super::runs::{Chunks, Intervals, lower, union};
use super::sparse::{Part, SparseSet, encode_part};
use super::{IdIndex, IndexOptions};
use crate::keys::{IdSchema, KeyEncoder, Keys, WINDOW, WideClass};
use crate::{Error, Result};
use arrow_array::{Array, ArrayRef, UInt32Array};
use arrow_buffer::BooleanBufferBuilder;
use arrow_schema::DataType;
use shardmill_engine::{Cancel, run_until_error};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Shorter runs of numbers are cheaper as keys.
const MIN_RUN: u64 = 256;
/// Maximal number of intervals in memory; later runs are kept as keys.
const MAX_INTERVALS: usize = 1 << 18;
/// Minimal number of keys for a container: each container costs a directory entry,
/// and slows down searches.
const MIN_DENSE: usize = 128;

/// Collects ids; [`IndexBuilder::add`] is called by any number of threads.
#[derive(Debug)]
pub struct IndexBuilder {
    path: String,
    encoder: KeyEncoder,
    secret: [u64; 4],
    mix: Mix,
    options: IndexOptions,
    room: Arc<Room>,
    intervals: Mutex<Intervals>,
    narrow: Arc<Partitions<u64>>,
    wide: [Arc<Partitions<u128>>; WideClass::ALL.len()],
    idle: Mutex<Vec<Gatherer>>,
    rows: AtomicU64,
    nulls: AtomicU64,
}

/// State of one thread.
#[derive(Debug, Default)]
struct Gatherer {
    keys: Keys,
    /// First and last number of the current run.
    run: Option<(u64, u64)>,
    narrow: Scatter<u64>,
    wide: [Scatter<u128>; WideClass::ALL.len()],
}

impl IndexBuilder {
    /// Builds an index at `path`, a local file.
    ///
    /// # Errors
    /// [`Error::Storage`] when the directory of `path` cannot be created.
    pub fn new(path: &str, schema: IdSchema, options: IndexOptions) -> Result<Self> {
        let (first, second) =
            (uuid::Uuid::new_v4().as_u64_pair(), uuid::Uuid::new_v4().as_u64_pair());
        // UUIDs have fixed bits, so two more are used to replace those of the first two.
        let (third, fourth) =
            (uuid::Uuid::new_v4().as_u64_pair(), uuid::Uuid::new_v4().as_u64_pair());
        let secret =
            [first.0 ^ third.1, first.1 ^ third.0, second.0 ^ fourth.1, second.1 ^ fourth.0];
        let plain = shardmill_storage::resolved_path(path)?;
        let directory = Path::new(&*plain)
            .parent()
            .filter(|directory| !directory.as_os_str().is_empty())
            .unwrap_or(Path::new("."));
        shardmill_storage::create_directory(directory)
            .map_err(|source| Error::WriteIndex { path: path.to_owned(), source })?;
        Ok(Self {
            path: path.to_owned(),
            encoder: KeyEncoder::new(schema, secret),
            secret,
            mix: Mix::new(secret),
            room: Arc::new(Room::new(options.memory_bytes / 2, directory.to_owned())),
            options,
            intervals: Mutex::default(),
            narrow: Arc::default(),
            wide: std::array::from_fn(|_| Arc::default()),
            idle: Mutex::default(),
            rows: AtomicU64::new(0),
            nulls: AtomicU64::new(0),
        })
    }

    #[must_use]
    pub fn schema(&self) -> &IdSchema {
        self.encoder.schema()
    }

    /// Number of rows so far.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    /// Adds the ids of some rows, one array per column. Rows with a null are counted and skipped.
    ///
    /// # Errors
    /// As [`IdSchema::check`]; [`Error::Lengths`]; [`Error::Storage`] when the disk is full.
    pub fn add(&self, ids: &[ArrayRef]) -> Result<()> {
        let rows = ids.first().map_or(0, Array::len);
        let values = used_values(ids)?;
        let ids = self
            .encoder
            .prepare(values.as_ref().map_or(ids, |values| std::slice::from_ref(&values.array)))?;
        let len = ids.first().map_or(0, Array::len);
        let mut gatherer =
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default();
        let mut nulls = values.as_ref().map_or(0, |values| values.nulls);
        let added = (0..len).step_by(WINDOW).try_for_each(|start| {
            self.encoder.encode(&ids, start..len.min(start + WINDOW), &mut gatherer.keys)?;
            nulls += gatherer.keys.nulls;
            self.gather(&mut gatherer);
            Ok::<(), Error>(())
        });
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(gatherer);
        added?;
        self.rows.fetch_add(rows as u64, Ordering::Relaxed);
        self.nulls.fetch_add(nulls, Ordering::Relaxed);
        self.make_room()
    }

    fn make_room(&self) -> Result<()> {
        if !self.room.is_short() {
            return Ok(());
        }
        let Some(_only) = self.room.try_spill() else { return Ok(()) };
        self.narrow.spill(&self.room)?;
        self.wide.iter().try_for_each(|partitions| partitions.spill(&self.room))
    }

    fn gather(&self, gatherer: &mut Gatherer) {
        let Gatherer { keys, run, narrow, wide } = gatherer;
        for key in &keys.narrow.keys {
            match run {
                Some((_, last)) if last.checked_add(1) == Some(*key) => *last = *key,
                _ => {
                    if let Some(ended) = run.replace((*key, *key)) {
                        self.end_run(ended, narrow);
                    }
                }
            }
        }
        for (((_, rows), scatter), partitions) in keys.wide().zip(wide).zip(&self.wide) {
            for key in &rows.keys {
                scatter.push(self.mix.wide(*key), self.mix, partitions, &self.room);
            }
        }
    }

    fn end_run(&self, (first, last): (u64, u64), narrow: &mut Scatter<u64>) {
        if last - first >= MIN_RUN {
            let mut intervals = self.intervals.lock().unwrap_or_else(PoisonError::into_inner);
            if intervals.len() < MAX_INTERVALS {
                return intervals.insert(first, last);
            }
        }
        for key in first..=last {
            narrow.push(key, self.mix, &self.narrow, &self.room);
        }
    }

    /// Writes the index, publishes it and opens it. After a cancellation nothing is published.
    ///
    /// # Errors
    /// [`Error::Storage`] and [`Error::WriteIndex`], usually because the disk is full;
    /// [`Error::Engine`] when the build was cancelled.
    pub fn finish(&self, cancel: &Cancel) -> Result<IdIndex> {
        for mut gatherer in
            std::mem::take(&mut *self.idle.lock().unwrap_or_else(PoisonError::into_inner))
        {
            if let Some(run) = gatherer.run.take() {
                self.end_run(run, &mut gatherer.narrow);
            }
            gatherer.narrow.flush(&self.narrow, &self.room);
            gatherer
                .wide
                .iter_mut()
                .zip(&self.wide)
                .for_each(|(scatter, partitions)| scatter.flush(partitions, &self.room));
        }
        let mut writer = IndexWriter::create(&self.path)?;
        let (dense, narrow) = self.write_narrow(&mut writer, cancel)?;
        let mut wide = Vec::new();
        for (class, partitions) in WideClass::ALL.into_iter().zip(&self.wide) {
            if !partitions.is_empty() {
                wide.push((class, self.write_wide(partitions, &mut writer, cancel)?));
            }
        }
        let (rows, nulls) = (self.rows(), self.nulls.load(Ordering::Relaxed));
        let schema = self.encoder.schema().clone();
        cancel.check()?;
        writer.publish(Footer {
            schema,
            secret: self.secret,
            rows,
            nulls,
            checksum: 0,
            dense,
            narrow,
            wide,
        })?;
        IdIndex::open(&self.path)
    }

    /// Number of keys that a thread may hold while it builds a part.
    fn part_limit(&self, key_len: usize) -> usize {
        let shares = 6 * self.options.threads.max(1);
        usize::try_from(self.options.memory_bytes).unwrap_or(usize::MAX) / (shares * key_len)
    }

    fn write_wide(
        &self,
        partitions: &Arc<Partitions<u128>>,
        writer: &mut IndexWriter,
        cancel: &Cancel,
    ) -> Result<SparseSet> {
        let part_bits = partitions.part_bits(self.part_limit(u128::LEN));
        let rest_bits = 128 - part_bits;
        let work = self.part_work(partitions, part_bits, move |keys: Vec<u128>| {
            let mask = super::mix::wide_ones(rest_bits);
            EncodedPart::new(rest_bits, keys.iter().map(|key| key & mask))
        });
        let mut parts = Vec::with_capacity(1 << part_bits);
        for part in run_until_error(1 << part_bits, self.options.threads, cancel, work)? {
            parts.push(part??.write(writer)?);
        }
        Ok(SparseSet { rest_bits, part_bits, parts })
    }

    fn part_work<T: Word, R, F: Fn(Vec<T>) -> R>(
        &self,
        partitions: &Arc<Partitions<T>>,
        part_bits: u32,
        encode: F,
    ) -> impl Fn(usize) -> Result<R> + use<T, R, F> {
        let (partitions, room, mix, limit) =
            (Arc::clone(partitions), Arc::clone(&self.room), self.mix, self.part_limit(T::LEN));
        move |part| {
            Ok(encode(partitions.take_part(
                part as u64,
                part_bits,
                &Scope { room: &room, mix, limit },
            )?))
        }
    }

    fn write_narrow(
        &self,
        writer: &mut IndexWriter,
        cancel: &Cancel,
    ) -> Result<(DenseSet, Option<SparseSet>)> {
        let chunks = Arc::new(
            std::mem::take(&mut *self.intervals.lock().unwrap_or_else(PoisonError::into_inner))
                .into_chunks(),
        );
        let part_bits = self.narrow.part_bits(self.part_limit(u64::LEN));
        let (shared, mix) = (Arc::clone(&chunks), self.mix);
        let work = self.part_work(&self.narrow, part_bits, move |keys: Vec<u64>| {
            NarrowPart::new(&keys, &shared, mix, part_bits)
        });
        let mut entries: Vec<Entry> = chunks.full().collect();
        let mut parts = Vec::with_capacity(1 << part_bits);
        let mut written = BTreeSet::new();
        for part in run_until_error(1 << part_bits, self.options.threads, cancel, work)? {
            let part = part??;
            for container in &part.containers {
                entries.push(container.entry(writer.append(&container.bytes)?));
                if chunks.partial.contains_key(&container.chunk) {
                    written.insert(container.chunk);
                }
            }
            parts.push(part.sparse.write(writer)?);
        }
        for (chunk, intervals) in
            chunks.partial.iter().filter(|(chunk, _)| !written.contains(chunk))
        {
            let container = Container::new(*chunk, intervals);
            entries.push(container.entry(writer.append(&container.bytes)?));
        }
        entries.sort_unstable_by_key(|entry| entry.chunk);
        let count = entries.iter().map(Entry::count).sum();
        let directory: Vec<u8> = entries.iter().flat_map(|entry| entry.to_bytes()).collect();
        let dense =
            DenseSet { offset: writer.append(&directory)?, entries: entries.len() as u64, count };
        let sparse = SparseSet { rest_bits: 64 - part_bits, part_bits, parts };
        Ok((dense, Some(sparse).filter(|set| set.len() > 0)))
    }
}

/// The values of a dictionary that its keys use, if there are fewer of them than rows; only for ids
/// of one column.
struct Used {
    array: ArrayRef,
    nulls: u64,
}

fn used_values(ids: &[ArrayRef]) -> Result<Option<Used>> {
    let [only] = ids else { return Ok(None) };
    let (DataType::Dictionary(..), Some(dictionary)) =
        (only.data_type(), arrow_array::cast::AsArray::as_any_dictionary_opt(only))
    else {
        return Ok(None);
    };
    let values = dictionary.values();
    // Without values, all rows are null, and there are no keys to normalize.
    if values.is_empty() || values.len() >= only.len() {
        return Ok(None);
    }
    let mut used = BooleanBufferBuilder::new(values.len());
    used.append_n(values.len(), false);
    let mut nulls = 0;
    for (row, key) in dictionary.normalized_keys().into_iter().enumerate() {
        if only.is_null(row) || values.is_null(key) {
            nulls += 1;
        } else {
            used.set_bit(key, true);
        }
    }
    let places = UInt32Array::from_iter_values(used.finish().set_indices_u32());
    let array = arrow_select::take::take(values, &places, None)
        .map_err(|source| Error::Arrow { source })?;
    Ok(Some(Used { array, nulls }))
}

struct EncodedPart {
    bytes: Vec<u8>,
    count: usize,
    bucket_bits: u32,
}

impl EncodedPart {
    fn new(rest_bits: u32, keys: impl ExactSizeIterator<Item = u128> + Clone) -> Self {
        let count = keys.len();
        if count == 0 {
            return Self { bytes: Vec::new(), count, bucket_bits: 0 };
        }
        let (bytes, bucket_bits) = encode_part(rest_bits, keys);
        Self { bytes, count, bucket_bits }
    }

    fn write(&self, writer: &mut IndexWriter) -> Result<Part> {
        if self.count == 0 {
            return Ok(Part::default());
        }
        let offset = writer.append(&self.bytes)?;
        Ok(Part {
            offset,
            count: u32::try_from(self.count).unwrap_or(u32::MAX),
            bucket_bits: self.bucket_bits,
        })
    }
}

struct NarrowPart {
    containers: Vec<Container>,
    sparse: EncodedPart,
}

impl NarrowPart {
    fn new(keys: &[u64], chunks: &Chunks, mix: Mix, part_bits: u32) -> Self {
        let mut containers = Vec::new();
        let mut rests: Vec<u64> = Vec::new();
        for group in keys.chunk_by(|first, second| first >> LOW_BITS == second >> LOW_BITS) {
            let Some(chunk) =
                group.first().map(|key| key >> LOW_BITS).filter(|chunk| !chunks.is_full(*chunk))
            else {
                continue;
            };
            let partial = chunks.partial.get(&chunk);
            if partial.is_none() && group.len() < MIN_DENSE {
                rests.extend(group.iter().map(|key| mix.narrow_rest(*key, part_bits)));
                continue;
            }
            let mut intervals: Vec<(u16, u16)> = Vec::new();
            for low in group.iter().map(|key| lower(*key)) {
                match intervals.last_mut() {
                    Some((_, last)) if last.checked_add(1) == Some(low) => *last = low,
                    _ => intervals.push((low, low)),
                }
            }
            let intervals =
                partial.map_or_else(|| intervals.clone(), |partial| union(&intervals, partial));
            containers.push(Container::new(chunk, &intervals));
        }
        rests.sort_unstable();
        Self {
            containers,
            sparse: EncodedPart::new(64 - part_bits, rests.iter().map(|rest| u128::from(*rest))),
        }
    }
}
