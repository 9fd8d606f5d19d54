//! The number of tokens of each row of a block, kept as Parquet files,
//! so that a corpus is counted once. Documents with images have several numbers a row.
//!
//! A block is known by the contents of its file, and by the types that sources other than texts are
//! read with. So files that are renamed or copied keep their counts, and a file that is rewritten,
//! or whose numbers are read with another type, is counted again. The invariant: the files are a
//! cache. What cannot be read is counted again, what cannot be written is kept in memory, and each
//! row that is delivered is compared with its count by [`crate::packing`].
//!
//! Processes that count at the same time share the work by groups of blocks. The process that holds
//! the claim of a group counts those of its blocks that are not published, and gives the claim up
//! once they are.

mod files;
#[cfg(test)]
mod tests;

use crate::Result;
use files::{blocks, opened};
use shardmill_engine::Cancel;
use shardmill_formats::parquet::ParquetTable;
use shardmill_formats::table::{TableError, TableFile};
use shardmill_storage::{AnyDisk, Claim, Claimed, Claims, Disk as _, Remembered};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use xxhash_rust::xxh3::{Xxh3Default, xxh3_64, xxh3_128};

/// New counts are published after this time, or when there are this many.
const PUBLISHED_EACH: Duration = Duration::from_secs(10);
const PUBLISHED_COUNTS: usize = 4 << 20;

/// They are also published when this many claims wait for it. Each is an open file.
const PUBLISHED_CLAIMS: usize = 64;

/// When more files than this can be read, they are merged.
const MOST_FILES: usize = 64;

/// Number of groups of blocks, and most groups of a file. Groups that share
/// a number are claimed together.
const GROUPS: u64 = 1024;

/// Files may be merged while they are listed, and are then listed again.
const LISTINGS: usize = 8;

/// A block of a file with certain contents, as the sources of the tokens are read. Another number
/// of counts is not that of the block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BlockKey {
    size: u64,
    digest: [u8; 16],
    block: u32,
    /// Of all rows.
    counts: u64,
}

impl BlockKey {
    /// The key of a block of `file`, whose rows have `numbers` counts each. `read_as` says how the
    /// sources of the tokens are read.
    pub(crate) fn of(
        file: &dyn TableFile,
        size: u64,
        block: usize,
        read_as: &str,
        numbers: usize,
    ) -> Self {
        let mut digest = Xxh3Default::new();
        digest.update(&file.digest().to_le_bytes());
        file.blocks().iter().for_each(|block| digest.update(&block.rows.to_le_bytes()));
        digest.update(read_as.as_bytes());
        let rows = file.blocks().get(block).map_or(0, |block| block.rows);
        Self {
            size,
            digest: digest.digest128().to_le_bytes(),
            block: u32::try_from(block).unwrap_or(u32::MAX),
            counts: rows.saturating_mul(numbers as u64),
        }
    }

    /// The key of `counts` numbers about the images of this block.
    pub(crate) fn of_images(self, counts: u64) -> Self {
        let digest = xxh3_128(&[&self.digest[..], b"images"].concat()).to_le_bytes();
        Self { digest, counts, ..self }
    }

    fn of_file(file: &FileKey, part: usize, counts: usize) -> Self {
        let block = u32::try_from(part).unwrap_or(u32::MAX);
        Self { size: file.size, digest: file.digest, block, counts: counts as u64 }
    }

    /// The group of the block, which follows from the contents of its file. Consecutive blocks
    /// share one, because some formats are read in order.
    pub(crate) fn group(&self, blocks_of_file: usize) -> u64 {
        let each = (blocks_of_file as u64).div_ceil(GROUPS).max(1);
        let place = u64::from(self.block) / each;
        xxh3_64(&[&self.digest[..], &self.size.to_le_bytes(), &place.to_le_bytes()].concat())
            % GROUPS
    }
}

/// A file whose rows are found only by reading all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct FileKey {
    pub(crate) size: u64,
    pub(crate) digest: [u8; 16],
}

/// Rows of a file that are kept together: those of one entry have fewer than 2^31 tokens.
const ROWS_OF_PART: usize = 1 << 16;

/// The counts of a tokenization, which are opened when they are first needed.
#[derive(Debug)]
pub struct CountsDirectory {
    directory: Option<String>,
    counts: Remembered<Option<Arc<TokenCounts>>>,
}

impl CountsDirectory {
    /// `None` if counts are not kept.
    #[must_use]
    pub fn new(directory: Option<String>) -> Self {
        Self { directory, counts: Remembered::default() }
    }

    /// The directory of the same with other options, which are told apart by `name`.
    pub(crate) fn beside(&self, name: &str) -> Self {
        Self::new(self.directory.as_ref().map(|directory| format!("{directory}-{name}")))
    }

    /// # Errors
    /// As [`TokenCounts::open`].
    pub fn open(&self, cancel: &Cancel) -> Result<Option<Arc<TokenCounts>>> {
        let mut counts = self.counts.lock();
        if counts.is_none()
            && let Some(directory) = &self.directory
        {
            *counts = Some(Arc::new(TokenCounts::open(directory, cancel)?));
        }
        Ok(counts.clone())
    }
}

/// Lengths of rows that are found only by reading a whole file.
impl CountsDirectory {
    /// The lengths of the rows of a file, in order; empty if they are not known. Counts that
    /// disagree or cannot be read are ignored.
    pub(crate) fn lengths(&self, file: &FileKey) -> Vec<u32> {
        let Ok(Some(counts)) = self.open(&Cancel::default()) else { return Vec::new() };
        let known = counts.known.lock();
        let is_own = |key: &&BlockKey| (key.size, key.digest) == (file.size, file.digest);
        let mut parts: Vec<&BlockKey> = known.keys().filter(is_own).collect();
        parts.sort_unstable_by_key(|key| key.block);
        parts
            .iter()
            .filter_map(|key| known.get(key))
            .flat_map(|part| part.iter().copied())
            .collect()
    }

    pub(crate) fn keep(&self, file: &FileKey, path: &str, lengths: &[u32]) {
        let Ok(Some(counts)) = self.open(&Cancel::default()) else { return };
        for (number, part) in lengths.chunks(ROWS_OF_PART).enumerate() {
            counts.add(BlockKey::of_file(file, number, part.len()), path, Arc::from(part));
        }
        counts.publish();
    }
}

/// Counts of one tokenization.
#[derive(Debug)]
pub struct TokenCounts {
    directory: String,
    known: Remembered<HashMap<BlockKey, Arc<[u32]>>>,
    /// Blocks that files say have no tokens.
    empty: Remembered<HashSet<BlockKey>>,
    /// Names of the files whose counts are known.
    files: Remembered<HashSet<String>>,
    claims: Claims,
    pending: Remembered<Pending>,
    warnings: Remembered<Vec<String>>,
}

#[derive(Debug)]
struct Pending {
    entries: Vec<(BlockKey, String)>,
    counts: usize,
    since: Instant,
    /// Claims of groups whose blocks are all counted.
    claims: Vec<Claim>,
    /// After a failure nothing more is written.
    is_off: bool,
}

impl Default for Pending {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            counts: 0,
            since: Instant::now(),
            claims: Vec::new(),
            is_off: false,
        }
    }
}

/// What was read from files.
#[derive(Debug, Default)]
struct Found {
    /// The blocks that were not known.
    entries: Vec<(BlockKey, String)>,
    /// Paths of the files of which every row was read.
    whole: HashSet<String>,
}

impl TokenCounts {
    /// The counts in the files of `directory`, which need not exist.
    ///
    /// # Errors
    /// When two files disagree about a block, or the run is stopped.
    pub fn open(directory: &str, cancel: &Cancel) -> Result<Self> {
        let counts = Self {
            directory: directory.to_owned(),
            known: Remembered::default(),
            empty: Remembered::default(),
            files: Remembered::default(),
            claims: Claims::new(&format!("{directory}/claims")),
            pending: Remembered::default(),
            warnings: Remembered::default(),
        };
        let found = counts.read_new_files(cancel)?;
        if found.whole.len() > MOST_FILES {
            counts.compact(&found);
        }
        Ok(counts)
    }

    /// Reads what other processes have published since the last look.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn refresh(&self, cancel: &Cancel) -> Result<()> {
        self.read_new_files(cancel).map(drop)
    }

    /// Reads the files that were not read before.
    fn read_new_files(&self, cancel: &Cancel) -> Result<Found> {
        // A thread that waits for this lock needs the counts that are being read.
        let mut files = self.files.lock();
        let mut found = Found::default();
        for _ in 0..LISTINGS {
            let names = AnyDisk::default().list(&self.directory).unwrap_or_default();
            let is_new = |name: &String| {
                name.starts_with("counts-") && name.ends_with(".parquet") && !files.contains(name)
            };
            let new: Vec<String> = names.into_iter().filter(is_new).collect();
            if new.is_empty() {
                break;
            }
            let paths: Vec<String> =
                new.iter().map(|name| format!("{}/{name}", self.directory)).collect();
            for (path, file) in paths.iter().zip(opened(&paths, cancel)?) {
                if self.read_file(path, file, &mut found.entries, cancel)? {
                    found.whole.insert(path.clone());
                }
            }
            files.extend(new);
        }
        Ok(found)
    }

    /// Returns whether the counts of every row of a file are known now.
    fn read_file(
        &self,
        path: &str,
        file: std::result::Result<ParquetTable, TableError>,
        entries: &mut Vec<(BlockKey, String)>,
        cancel: &Cancel,
    ) -> Result<bool> {
        let mut is_whole = true;
        for rows in blocks(file) {
            cancel.check()?;
            is_whole &= match rows {
                Ok(rows) => self.read(&rows, path, entries)?,
                // It was merged into another file, which is listed under its new name.
                Err(_) if is_gone(path) => false,
                Err(reason) => {
                    self.warn(format!("the token counts in {path} are ignored: {reason}"));
                    false
                }
            };
        }
        Ok(is_whole)
    }

    /// Puts all counts into one file. A reader that misses a removed file counts its blocks again.
    /// A file that could not be read in whole stays: the error may pass, and it may belong to
    /// another program.
    fn compact(&self, found: &Found) {
        if self.write(&found.entries).is_ok() {
            for path in &found.whole {
                // A file that cannot be removed is read again; its counts are the same.
                drop(AnyDisk::default().remove(path));
            }
        }
    }

    /// Claims a group of blocks, without waiting.
    pub(crate) fn claim(&self, group: u64) -> Claimed {
        self.claims.claim(group)
    }

    /// Gives the claim of a group up as soon as all that was added is published.
    pub(crate) fn release(&self, claim: Claim) {
        let mut pending = self.pending.lock();
        pending.claims.push(claim);
        if pending.claims.len() >= PUBLISHED_CLAIMS {
            self.publish_pending(&mut pending);
        }
    }

    #[must_use]
    pub fn directory(&self) -> &str {
        &self.directory
    }

    #[must_use]
    pub fn of(&self, key: &BlockKey) -> Option<Arc<[u32]>> {
        self.known.lock().get(key).cloned()
    }

    /// Adds the counts of a block of `path`, and publishes what has come together now and then.
    pub fn add(&self, key: BlockKey, path: &str, counts: Arc<[u32]>) {
        let mut pending = self.pending.lock();
        if !(is_empty(&counts) && self.empty.lock().contains(&key)) {
            pending.counts += counts.len();
            pending.entries.push((key, path.to_owned()));
        }
        self.known.lock().insert(key, counts);
        if pending.counts >= PUBLISHED_COUNTS || pending.since.elapsed() >= PUBLISHED_EACH {
            self.publish_pending(&mut pending);
        }
    }

    /// Publishes all counts that were added.
    pub fn publish(&self) {
        self.publish_pending(&mut self.pending.lock());
    }

    /// What went wrong since the last call.
    pub fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut *self.warnings.lock())
    }

    fn publish_pending(&self, pending: &mut Pending) {
        let entries = std::mem::take(&mut pending.entries);
        // They are dropped at the end.
        let _claims = std::mem::take(&mut pending.claims);
        pending.counts = 0;
        pending.since = Instant::now();
        if entries.is_empty() || pending.is_off {
            return;
        }
        if let Err(reason) = self.write(&entries) {
            pending.is_off = true;
            self.warn(format!(
                "token counts cannot be kept in {}, so they are computed again next time: {reason}\n\
                 hint: set counts=, or XDG_CACHE_HOME, to a directory that can be written",
                self.directory
            ));
        }
    }

    fn warn(&self, warning: String) {
        self.warnings.lock().push(warning);
    }
}

fn is_gone(path: &str) -> bool {
    matches!(AnyDisk::default().size(path), Ok(None))
}

fn is_empty(counts: &[u32]) -> bool {
    !counts.is_empty() && counts.iter().all(|count| *count == 0)
}
