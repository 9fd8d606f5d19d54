//! Collects keys for an index: in memory by partition, and on disk when memory is short.

use super::mix::{Mix, low, upper};
use crate::Result;
use shardmill_storage::ScratchFile;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// Partitions are selected by this many upper bits of the mixed key.
pub(super) const PARTITION_BITS: u32 = 8;
const PARTITIONS: usize = 1 << PARTITION_BITS;
/// Number of keys that a thread passes to a partition together.
const PIECE: usize = 1024;
/// Number of bytes that are read from the disk together; a multiple of the length of every key.
const READ_AT_ONCE: usize = 1 << 20;

/// A key in its stored form.
pub(super) trait Word: Copy + Ord + Send + Sync + 'static {
    const LEN: usize;
    fn append(self, bytes: &mut Vec<u8>);
    /// From `LEN` bytes.
    fn of(bytes: &[u8]) -> Self;
    fn part(self, mix: Mix, part_bits: u32) -> u64;
}

/// Stored unmixed; the mixed value is derived from it.
impl Word for u64 {
    const LEN: usize = 8;

    fn append(self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.to_le_bytes());
    }

    fn of(bytes: &[u8]) -> Self {
        bytes.first_chunk().copied().map(Self::from_le_bytes).unwrap_or_default()
    }

    fn part(self, mix: Mix, part_bits: u32) -> u64 {
        mix.narrow_part(self, part_bits)
    }
}

/// Stored mixed.
impl Word for u128 {
    const LEN: usize = 16;

    fn append(self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.to_le_bytes());
    }

    fn of(bytes: &[u8]) -> Self {
        bytes.first_chunk().copied().map(Self::from_le_bytes).unwrap_or_default()
    }

    fn part(self, _mix: Mix, part_bits: u32) -> u64 {
        upper(low(self >> 64), 64, part_bits)
    }
}

/// State shared by all partitions.
#[derive(Debug)]
pub(super) struct Room {
    /// Limit for keys in memory, in bytes.
    limit: u64,
    used: AtomicU64,
    directory: PathBuf,
    scratch: OnceLock<ScratchFile>,
    spilling: Mutex<()>,
}

impl Room {
    pub(super) fn new(limit: u64, directory: PathBuf) -> Self {
        Self {
            limit,
            used: AtomicU64::new(0),
            directory,
            scratch: OnceLock::new(),
            spilling: Mutex::new(()),
        }
    }

    fn scratch(&self) -> Result<&ScratchFile> {
        if let Some(scratch) = self.scratch.get() {
            return Ok(scratch);
        }
        let made = ScratchFile::create_in(&self.directory)?;
        Ok(self.scratch.get_or_init(|| made))
    }

    pub(super) fn is_short(&self) -> bool {
        self.used.load(Ordering::Relaxed) > self.limit
    }

    /// Held by the thread that spills.
    pub(super) fn try_spill(&self) -> Option<MutexGuard<'_, ()>> {
        self.spilling.try_lock().ok()
    }
}

#[derive(Debug)]
struct Partition<T> {
    pieces: Vec<Vec<T>>,
    /// Offset and number of keys.
    on_disk: Vec<(u64, usize)>,
}

/// The keys of one class.
#[derive(Debug)]
pub(super) struct Partitions<T>(Vec<Mutex<Partition<T>>>);

impl<T> Default for Partitions<T> {
    fn default() -> Self {
        Self(
            (0..PARTITIONS)
                .map(|_| Mutex::new(Partition { pieces: Vec::new(), on_disk: Vec::new() }))
                .collect(),
        )
    }
}

impl<T: Word> Partitions<T> {
    fn lock(partition: &Mutex<Partition<T>>) -> MutexGuard<'_, Partition<T>> {
        partition.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of keys of each partition, including repeated ones.
    fn counts(&self) -> impl Iterator<Item = usize> {
        self.0.iter().map(|partition| {
            let partition = Self::lock(partition);
            partition.pieces.iter().map(Vec::len).sum::<usize>()
                + partition.on_disk.iter().map(|(_, count)| count).sum::<usize>()
        })
    }

    fn push(&self, number: usize, piece: Vec<T>, room: &Room) {
        if let Some(partition) = self.0.get(number).filter(|_| !piece.is_empty()) {
            room.used.fetch_add((piece.capacity() * T::LEN) as u64, Ordering::Relaxed);
            Self::lock(partition).pieces.push(piece);
        }
    }

    /// Moves the keys in memory to disk.
    pub(super) fn spill(&self, room: &Room) -> Result<()> {
        let mut keys: Vec<T> = Vec::new();
        let mut bytes = Vec::new();
        for partition in &self.0 {
            let pieces = std::mem::take(&mut Self::lock(partition).pieces);
            let freed: usize = pieces.iter().map(|piece| piece.capacity() * T::LEN).sum();
            keys.clear();
            keys.extend(pieces.iter().flatten());
            drop(pieces);
            room.used.fetch_sub(freed as u64, Ordering::Relaxed);
            // A billion repetitions of one id must not become a billion keys on disk.
            keys.sort_unstable();
            keys.dedup();
            bytes.clear();
            keys.iter().for_each(|key| key.append(&mut bytes));
            if !bytes.is_empty() {
                let offset = room.scratch()?.append(&bytes)?;
                Self::lock(partition).on_disk.push((offset, keys.len()));
            }
        }
        Ok(())
    }

    /// The number of upper bits by which to split the set, so that no part has many more than
    /// `limit` keys.
    pub(super) fn part_bits(&self, limit: usize) -> u32 {
        let (total, largest) = self
            .counts()
            .fold((0, 0), |(total, largest), count| (total + count, largest.max(count)));
        if total <= PIECE * 64 {
            return 0;
        }
        let extra = largest.div_ceil(limit.max(1)).next_power_of_two().trailing_zeros();
        (PARTITION_BITS + extra).min(16)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.counts().all(|count| count == 0)
    }

    /// The keys of one part, ascending and distinct.
    pub(super) fn take_part(&self, part: u64, part_bits: u32, scope: &Scope<'_>) -> Result<Vec<T>> {
        let part_index = usize::try_from(part).unwrap_or(usize::MAX);
        let numbers = match part_bits.checked_sub(PARTITION_BITS) {
            Some(extra) => part_index >> extra..(part_index >> extra) + 1,
            None => {
                part_index << (PARTITION_BITS - part_bits)
                    ..(part_index + 1) << (PARTITION_BITS - part_bits)
            }
        };
        // A partition that is read several times keeps its keys; one that is read once is consumed.
        let is_whole = part_bits <= PARTITION_BITS;
        let mut keys = Collected { keys: Vec::new(), limit: scope.limit.max(PIECE) };
        let is_wanted = |key: &T| is_whole || key.part(scope.mix, part_bits) == part;
        for partition in self.0.get(numbers).unwrap_or_default() {
            let mut partition = Self::lock(partition);
            if is_whole {
                keys.keys.reserve_exact(
                    partition.pieces.iter().map(Vec::len).sum::<usize>()
                        + partition.on_disk.iter().map(|(_, count)| count).sum::<usize>(),
                );
                for piece in std::mem::take(&mut partition.pieces) {
                    keys.extend(piece.into_iter());
                }
            } else {
                for piece in &partition.pieces {
                    keys.extend(piece.iter().copied().filter(is_wanted));
                }
            }
            let on_disk = partition.on_disk.clone();
            drop(partition);
            for (offset, count) in on_disk {
                read(scope.room, offset, count * T::LEN, |piece| {
                    keys.extend(piece.chunks_exact(T::LEN).map(T::of).filter(is_wanted));
                })?;
            }
        }
        Ok(keys.finish())
    }
}

/// Parameters for reading a part.
pub(super) struct Scope<'a> {
    pub room: &'a Room,
    pub mix: Mix,
    /// Number of keys that a thread may hold.
    pub limit: usize,
}

fn read(room: &Room, mut offset: u64, mut left: usize, mut each: impl FnMut(&[u8])) -> Result<()> {
    let mut buffer = Vec::new();
    while left > 0 {
        buffer.resize(left.min(READ_AT_ONCE), 0);
        room.scratch()?.read_at(offset, &mut buffer)?;
        each(&buffer);
        offset += buffer.len() as u64;
        left -= buffer.len();
    }
    Ok(())
}

struct Collected<T> {
    keys: Vec<T>,
    limit: usize,
}

impl<T: Word> Collected<T> {
    fn extend(&mut self, keys: impl Iterator<Item = T>) {
        self.keys.extend(keys);
        if self.keys.len() > 2 * self.limit {
            self.keys.sort_unstable();
            self.keys.dedup();
            self.limit = self.limit.max(self.keys.len());
        }
    }

    fn finish(mut self) -> Vec<T> {
        self.keys.sort_unstable();
        self.keys.dedup();
        self.keys
    }
}

/// Keys that one thread has collected for each partition.
#[derive(Debug)]
pub(super) struct Scatter<T>(Vec<Vec<T>>);

impl<T> Default for Scatter<T> {
    fn default() -> Self {
        Self(std::iter::repeat_with(Vec::new).take(PARTITIONS).collect())
    }
}

impl<T: Word> Scatter<T> {
    pub(super) fn push(&mut self, key: T, mix: Mix, partitions: &Partitions<T>, room: &Room) {
        let number = usize::try_from(key.part(mix, PARTITION_BITS)).unwrap_or_default();
        let Some(piece) = self.0.get_mut(number) else { return };
        if piece.len() == piece.capacity() {
            if piece.len() >= PIECE {
                partitions.push(number, std::mem::take(piece), room);
            }
            piece.reserve_exact(if piece.is_empty() { PIECE } else { PIECE - piece.len() });
        }
        piece.push(key);
    }

    pub(super) fn flush(&mut self, partitions: &Partitions<T>, room: &Room) {
        for (number, piece) in self.0.iter_mut().enumerate() {
            let mut piece = std::mem::take(piece);
            piece.shrink_to_fit();
            partitions.push(number, piece, room);
        }
    }
}
