//! Reads of byte ranges, and files that appear complete or not at all.
//!
//! Readers open a path and read byte ranges ([`RangeRead`]); writers fill a hidden file and publish
//! it under its name ([`Staged`]). Every reader and writer of the workspace uses this crate;
//! nothing above it opens a file. The invariant: a final name only ever refers to a file that was
//! complete and synced before the name appeared.
//!
//! Local files are read by `pread`, so one descriptor serves any number of threads. Object stores
//! (`remote`) implement the same two traits; they receive the ranges of a batch together
//! ([`RangeRead::read_ranges`]), since a request costs as much as transferring megabytes.

mod any_disk;
mod any_store;
mod bytes;
mod error;
mod interrupts;
mod local;
mod machine;
mod open_files;
mod paths;
mod process;
mod remote;
mod secrets;
mod waiting;

pub use any_disk::{AnyDisk, move_file};
pub use any_store::AnyStore;
pub use bytes::cache::{CacheEntry, cache_entries, clear_cache};
pub use bytes::fetched::Fetched;
pub use bytes::fresh::with_fresh_bytes;
pub use bytes::in_memory::{InMemory, whole_if_small};
pub use bytes::sequential::SequentialRead;
pub use bytes::spool::Spool;
pub use error::{Error, Refusal, Result};
pub use interrupts::{hurry, wait_in_pieces, with_interrupts};
pub use local::claims::{Claim, Claimed, Claims};
pub use local::disk::{Disk, LocalDisk, Locked};
pub use local::file::{LocalFile, LocalStore};
pub use local::mapped::MappedFile;
pub use local::publish::{LocalStaged, create_directory, remove_stale_staging, sync_names};
pub use local::scratch::ScratchFile;
pub use local::unpublished::Unpublished;
pub use machine::{boot_id, host_name, process_namespace, process_start};
pub use open_files::OpenFiles;
pub use paths::real_names::RealNames;
pub use paths::roots::Roots;
pub use paths::{is_local, local_path, resolved_path};
pub use process::{PerProcess, Remembered};
pub use remote::{
    CredentialSource, Credentials, FsspecFile, FsspecFiles, RemoteDisk, RemoteStore, RequestCounts,
    StorageOptions, configure, is_reached_with, is_unreadable, options_of, pinned_revisions,
    request_counts, total_request_counts,
};
pub use secrets::{has_keys, hide, redacted};
pub use waiting::{Waiting, with_waiting};

use ::bytes::Bytes;
use std::fmt::Debug;
use std::io::Write;
use std::ops::Range;
use std::sync::Arc;

/// Identifies one version of a file: a rewritten file has another identity.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Identity {
    pub size: u64,
    pub modified_ns: i128,
}

/// One readable object of known length.
pub trait RangeRead: Send + Sync + Debug {
    /// The path as the user would write it; errors and `source_ref` carry it.
    fn path(&self) -> &str;

    fn identity(&self) -> Identity;

    /// Fills `buffer` from `offset`.
    ///
    /// # Errors
    /// [`Error::ShortRead`] when the object ends before the buffer is full, [`Error::Read`] when
    /// the device fails.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()>;

    /// The content of each range, in the order of `ranges`, which may overlap. A store over a
    /// network joins nearby ranges into one request.
    ///
    /// # Errors
    /// As [`RangeRead::read_at`]; a range that ends past the end of the object, or ends before it
    /// starts, is an [`Error::ShortRead`] before anything is read.
    fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let lens: Vec<usize> =
            ranges.iter().map(|range| len_within(self, range)).collect::<Result<_>>()?;
        let read = |(range, len): (&Range<u64>, usize)| {
            let mut buffer = room(self, range, len)?;
            self.read_at(range.start, &mut buffer)?;
            Ok(buffer.into())
        };
        ranges.iter().zip(lens).map(read).collect()
    }

    fn size(&self) -> u64 {
        self.identity().size
    }

    /// A gap between two ranges of up to this many bytes is cheaper to read than another request.
    fn gap_bytes(&self) -> u64 {
        4 << 10
    }

    /// Whether the object still has [`RangeRead::identity`], as far as this can be determined
    /// without a request over a network.
    fn is_unchanged(&self) -> bool {
        true
    }

    /// Whether a read may cost a request over a network. Such an object holds no descriptor.
    fn is_remote(&self) -> bool {
        false
    }
}

/// From this size, memory is reserved fallibly: the size of a sparse file may exceed its content.
const LARGE: usize = 64 << 20;

fn room<R: RangeRead + ?Sized>(object: &R, range: &Range<u64>, len: usize) -> Result<Vec<u8>> {
    if len < LARGE {
        return Ok(vec![0; len]);
    }
    let mut buffer = Vec::new();
    let refused = |_| Error::Read {
        path: object.path().to_owned(),
        offset: range.start,
        len,
        source: std::io::ErrorKind::OutOfMemory.into(),
    };
    buffer.try_reserve_exact(len).map_err(refused)?;
    buffer.resize(len, 0);
    Ok(buffer)
}

/// The length of a range, checked before memory is reserved for it.
fn len_within<R: RangeRead + ?Sized>(object: &R, range: &Range<u64>) -> Result<usize> {
    let len = range.end.checked_sub(range.start).and_then(|len| usize::try_from(len).ok());
    len.filter(|_| range.end <= object.size()).ok_or_else(|| Error::ShortRead {
        path: object.path().to_owned(),
        offset: range.start,
        len: len.unwrap_or_default(),
        end: range.end,
    })
}

/// Whether an existing file with the final name may be replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replace {
    Never,
    Atomically,
}

/// A file being written under a hidden name. Dropping it unpublished removes it.
pub trait Staged: Debug + Write + Send {
    /// Syncs the content and gives it its final name, atomically.
    ///
    /// # Errors
    /// [`Error::AlreadyExists`] under [`Replace::Never`] when the name exists; [`Error::Publish`]
    /// when a sync or the rename fails. Nothing new is visible then, unless the last step, the sync
    /// of the directory, failed: the file is complete, but a power failure may remove its name.
    fn publish(self: Box<Self>, replace: Replace) -> Result<()>;

    /// Syncs the content and leaves it under its hidden name, so that a record can name it before
    /// it becomes visible. The hidden name is not synced.
    ///
    /// # Errors
    /// [`Error::Publish`] when the sync fails.
    fn seal(self: Box<Self>) -> Result<Sealed>;

    /// Syncs the content and keeps the hidden name, so that [`Staged::name`] does not have to wait
    /// for I/O.
    ///
    /// # Errors
    /// [`Error::Publish`] when the sync fails.
    fn sync(&mut self) -> Result<()>;

    /// Gives the file its final name, or `name` in the same directory. Neither content nor name is
    /// synced: the files of one directory are named together, between [`Staged::sync`] of each and
    /// one [`sync_names`].
    ///
    /// # Errors
    /// As [`Staged::publish`].
    fn name(self: Box<Self>, name: Option<&str>, replace: Replace) -> Result<()>;

    /// Says before anything is written that [`Staged::replace_start`] will be called.
    fn hold_start(&mut self) {}

    /// Replaces the first bytes, which were written before.
    ///
    /// # Errors
    /// When they cannot be written; for an object of a store whose start was not held.
    fn replace_start(&mut self, bytes: &[u8]) -> std::io::Result<()>;
}

/// A complete file under its hidden name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sealed {
    /// The hidden name.
    pub path: String,
    /// The final name.
    pub target: String,
    pub bytes: u64,
}

/// A place that holds objects under paths.
pub trait Store: Send + Sync + Debug {
    /// # Errors
    /// [`Error::NotFound`] or [`Error::Open`].
    fn open(&self, path: &str) -> Result<Arc<dyn RangeRead>>;

    /// As [`Store::open`], for a caller that will read the last `tail_bytes` first.
    /// A store over a network fetches them while it opens the object and keeps them in memory;
    /// local files ignore it.
    ///
    /// # Errors
    /// As [`Store::open`].
    fn open_with_tail(&self, path: &str, tail_bytes: u64) -> Result<Arc<dyn RangeRead>> {
        let _ = tail_bytes;
        self.open(path)
    }

    /// All files at or below `path`: a file is listed itself, a directory is walked recursively, a
    /// glob is expanded. Sorted by path.
    ///
    /// # Errors
    /// [`Error::NotFound`] when a path without wildcards does not exist.
    fn list(&self, path: &str) -> Result<Vec<String>>;

    /// Whether each of `names` is a directory in `directory`. A remote store that can be listed by
    /// directory needs one request.
    ///
    /// # Errors
    /// [`Error::List`] when it cannot be listed.
    fn directories_in(&self, directory: &str, names: &[&str]) -> Result<Vec<bool>>;

    /// Starts a file that will be published under `path`; until then it is one of the `unpublished`
    /// files of its run.
    ///
    /// # Errors
    /// [`Error::Stage`] when the directory cannot be written, or the run was abandoned.
    fn stage(&self, path: &str, unpublished: &Unpublished) -> Result<Box<dyn Staged>>;

    /// As [`Store::stage`], with a hidden name in the directory of `path` that the caller chooses
    /// and later removes.
    ///
    /// # Errors
    /// As [`Store::stage`]; when the hidden name exists, or the store
    /// does not support hidden names.
    fn stage_as(
        &self,
        path: &str,
        hidden: &str,
        unpublished: &Unpublished,
    ) -> Result<Box<dyn Staged>>;

    /// Writes a small file durably and atomically.
    ///
    /// # Errors
    /// When it cannot be written; [`Error::AlreadyExists`] when it must not be replaced.
    fn publish(&self, path: &str, content: &[u8], replace: Replace) -> Result<()> {
        let mut staged = self.stage(path, &Unpublished::default())?;
        staged
            .write_all(content)
            .map_err(|source| Error::Write { path: path.to_owned(), source })?;
        staged.publish(replace)
    }
}

/// Whether `path` is served over a network.
#[must_use]
pub fn is_remote(path: &str) -> bool {
    remote::is_remote(path)
}
