//! Bytes by range, and files that appear whole or not at all.
//!
//! Paths enter, byte ranges leave ([`RangeRead`]); finished files enter, published names leave ([`Staged`]). Called by every reader and writer of
//! the workspace; nothing above this crate opens a file. The invariant: a final name only ever shows a file that was complete and synced before the
//! name appeared.
//!
//! Local files are read by `pread`, so one descriptor serves any number of threads. Object stores (`remote`) implement the same two traits; a batch of
//! ranges is announced to them at once ([`RangeRead::read_ranges`]), since a request costs what megabytes cost.

mod any_disk;
mod append_list;
mod cache;
mod disk;
mod error;
mod fetched;
mod fresh;
mod gcs;
mod in_memory;
mod interrupts;
mod local;
mod mapped;
mod open_files;
mod paths;
mod publish;
mod real_names;
mod remote;
mod requests;
mod roots;
mod scratch;
mod secrets;
mod sequential;
mod spool;
mod unpublished;
mod waiting;

pub use any_disk::AnyDisk;
pub use cache::{CacheEntry, cache_entries, clear_cache};
pub use disk::{Disk, LocalDisk, Locked};
pub use error::{Error, Refusal, Result};
pub use fetched::Fetched;
pub use fresh::with_fresh_bytes;
pub use gcs::GcsStore;
pub use in_memory::{InMemory, whole_if_small};
pub use interrupts::{hurry, wait_in_pieces, with_interrupts};
pub use local::{LocalFile, LocalStore};
pub use mapped::MappedFile;
pub use open_files::OpenFiles;
pub use paths::{is_local, local_path, resolved_path};
pub use publish::{LocalStaged, create_folder, remove_stale_staging, sync_names};
pub use real_names::RealNames;
pub use remote::{
    CredentialSource, Credentials, FsspecFile, FsspecFiles, RemoteDisk, RemoteStore, RequestCounts, StorageOptions, configure, is_reached_with,
    options_of, pinned_revisions, request_counts,
};
pub use roots::Roots;
pub use scratch::ScratchFile;
pub use secrets::{has_keys, hide, redacted};
pub use sequential::SequentialRead;
pub use spool::Spool;
pub use unpublished::Unpublished;
pub use waiting::{Waiting, with_waiting};

use bytes::Bytes;
use std::fmt::Debug;
use std::io::Write;
use std::ops::Range;
use std::sync::Arc;

/// What identifies one version of a file: a rewritten file has another identity.
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
    /// [`Error::ShortRead`] when the object ends before the buffer is full, [`Error::Read`] when the device fails.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()>;

    /// The content of each range, in the order of `ranges`, which may overlap. A store over a network joins near ranges into one request.
    ///
    /// # Errors
    /// As [`RangeRead::read_at`]; a range that ends behind the object, or before it starts, is an [`Error::ShortRead`] before anything is read.
    fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let lens: Vec<usize> = ranges.iter().map(|range| len_within(self, range)).collect::<Result<_>>()?;
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

    /// So many bytes between two ranges cost less to read along than another request does.
    fn gap_bytes(&self) -> u64 {
        4 << 10
    }

    /// Whether the object is still the one of [`RangeRead::identity`], as far as that can be told without a request over a network.
    fn is_unchanged(&self) -> bool {
        true
    }

    /// Whether a read may cost a request over a network. Such an object holds no descriptor.
    fn is_remote(&self) -> bool {
        false
    }
}

/// From here on memory is asked for before it is taken: the size of a sparse file is no measure of what there is.
const LARGE: usize = 64 << 20;

fn room<R: RangeRead + ?Sized>(object: &R, range: &Range<u64>, len: usize) -> Result<Vec<u8>> {
    if len < LARGE {
        return Ok(vec![0; len]);
    }
    let mut buffer = Vec::new();
    let refused = |_| Error::Read { path: object.path().to_owned(), offset: range.start, len, source: std::io::ErrorKind::OutOfMemory.into() };
    buffer.try_reserve_exact(len).map_err(refused)?;
    buffer.resize(len, 0);
    Ok(buffer)
}

/// The length of a range, before anything is reserved for it.
fn len_within<R: RangeRead + ?Sized>(object: &R, range: &Range<u64>) -> Result<usize> {
    let len = range.end.checked_sub(range.start).and_then(|len| usize::try_from(len).ok());
    len.filter(|_| range.end <= object.size()).ok_or_else(|| Error::ShortRead {
        path: object.path().to_owned(),
        offset: range.start,
        len: len.unwrap_or_default(),
        end: range.end,
    })
}

/// Whether a file that stands under the final name already may be replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replace {
    Never,
    Atomically,
}

/// A file being written under a hidden name. Dropping it unpublished removes it.
pub trait Staged: Write + Send {
    /// Syncs the content and gives it its final name, atomically.
    ///
    /// # Errors
    /// [`Error::AlreadyExists`] under [`Replace::Never`] when the name is taken; [`Error::Publish`] when a sync or the rename fails. Nothing new is
    /// visible then, unless the last step failed, the sync of the folder: the file is whole, but a power cut may take its name away.
    fn publish(self: Box<Self>, replace: Replace) -> Result<()>;

    /// Syncs the content and leaves it under its hidden name, for a record to name it before it becomes visible. Its name is not synced.
    ///
    /// # Errors
    /// [`Error::Publish`] when the sync fails.
    fn seal(self: Box<Self>) -> Result<Sealed>;

    /// Syncs the content and keeps the hidden name, so that [`Staged::name`] has nothing to wait for.
    ///
    /// # Errors
    /// [`Error::Publish`] when the sync fails.
    fn sync(&mut self) -> Result<()>;

    /// Gives the file its final name, or `name` beside it. Neither content nor name is synced: files of one folder are named together, between
    /// [`Staged::sync`] of each and one [`sync_names`].
    ///
    /// # Errors
    /// As [`Staged::publish`].
    fn name(self: Box<Self>, name: Option<&str>, replace: Replace) -> Result<()>;
}

/// A complete file under its hidden name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sealed {
    /// The hidden name.
    pub path: String,
    /// The name that it is meant for.
    pub target: String,
    pub bytes: u64,
}

/// A place that holds objects under paths.
pub trait Store: Send + Sync + Debug {
    /// # Errors
    /// [`Error::NotFound`] or [`Error::Open`].
    fn open(&self, path: &str) -> Result<Arc<dyn RangeRead>>;

    /// As [`Store::open`], for a caller who will read the last `tail_bytes` first. A store over a network fetches them while it opens and keeps them in
    /// memory; local files have no use for it.
    ///
    /// # Errors
    /// As [`Store::open`].
    fn open_with_tail(&self, path: &str, tail_bytes: u64) -> Result<Arc<dyn RangeRead>> {
        let _ = tail_bytes;
        self.open(path)
    }

    /// All files at or below `path`: a file is itself, a directory is walked recursively, a glob is expanded. Sorted by path.
    ///
    /// # Errors
    /// [`Error::NotFound`] when a path without wildcards does not exist.
    fn list(&self, path: &str) -> Result<Vec<String>>;

    /// Starts a file that will appear under `path`; until then it is one of the `unpublished` files of its run.
    ///
    /// # Errors
    /// [`Error::Stage`] when the folder cannot be written, or the run was abandoned.
    fn stage(&self, path: &str, unpublished: &Unpublished) -> Result<Box<dyn Staged>>;

    /// As [`Store::stage`], under a hidden name of the caller's beside `path`. Whoever chose it also removes it.
    ///
    /// # Errors
    /// As [`Store::stage`]; when the hidden name is taken, or the store knows no hidden names.
    fn stage_as(&self, path: &str, hidden: &str, unpublished: &Unpublished) -> Result<Box<dyn Staged>>;
}

/// Whether `path` is served over a network.
#[must_use]
pub fn is_remote(path: &str) -> bool {
    remote::is_remote(path)
}

/// The store that serves `path`.
///
/// # Errors
/// As [`local_path`].
pub fn store_of(path: &str) -> Result<Arc<dyn Store>> {
    if path.contains(['@', '?', '#']) {
        secrets::hide_in_url(path);
    }
    if local_path(path)?.is_some() {
        return Ok(Arc::new(LocalStore::default()));
    }
    match path.split_once("://") {
        // The emulator that array_record is tested with speaks JSON alone.
        Some((gcs::SCHEME, _)) if options_of(path).is_none() && std::env::var_os("CLOUD_STORAGE_EMULATOR_ENDPOINT").is_some() => {
            Ok(Arc::new(GcsStore::default()))
        }
        _ => remote::store(path),
    }
}

/// Opens `path` in its store; see [`Store::open_with_tail`].
///
/// # Errors
/// As [`store_of`] and [`Store::open`].
pub fn open_with_tail(path: &str, tail_bytes: u64) -> Result<Arc<dyn RangeRead>> {
    store_of(path)?.open_with_tail(path, tail_bytes)
}
