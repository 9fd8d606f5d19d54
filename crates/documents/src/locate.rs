//! Locates the bytes that a `source_ref` names: a byte range, a tar member, or a whole file, and
//! optionally a TIFF page in it.
//!
//! Error texts are part of the data model (interleaved specification §3): they are stored in
//! `materialize_error` and compared by users. The invariant: a range is never read from the raw
//! bytes of a compressed archive, nothing outside of the roots is read, and an error in a row says
//! something about that row: one of the store or the disk stops the split instead.

use crate::Row;
use crate::archive::{Archive, Found};
use crate::payload::Located;
use crate::source_ref::SourceRef;
use crate::tiff_pages::TiffPages;
use shardmill_formats::limit::DecodeLimit;
use shardmill_formats::tar::{Compression, LinkFault, Member, sniff_compression};
use shardmill_storage::{
    Error as StorageError, Fetched, OpenFiles, RangeRead, Refusal, Roots, is_remote,
};
use std::collections::{HashMap, HashSet, VecDeque};
use std::io::ErrorKind;
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Number of archives whose members are kept. Rows that were written together
/// usually come from one.
const MAX_ARCHIVES: usize = 8;
/// Limit for archives in remote stores, shared by all splits of a run.
const MAX_SHARED_ARCHIVES: usize = 64;

/// Bytes at the start of a file that show whether it is compressed.
const SNIFF_LEN: u64 = 16;

/// State shared by the locators of one run.
#[derive(Debug, Clone)]
pub struct Shared {
    roots: Roots,
    fetched: Arc<Fetched>,
    /// Remote archives. A thread that requests one that is being opened waits for it.
    archives: Arc<Mutex<Recent<Arc<OnceLock<Opened>>>>>,
}

type Opened = Result<Arc<Archive>, LocateError>;

/// By path, most recently used first.
type Recent<T> = VecDeque<(String, T)>;

impl Shared {
    /// For rows that reference files below `roots`; at most `budget` bytes of remote objects stay
    /// in memory.
    #[must_use]
    pub fn new(roots: Roots, budget: u64) -> Self {
        Self { roots, fetched: Fetched::new(budget), archives: Arc::default() }
    }

    fn archive(&self, path: &str, open: impl FnOnce() -> Opened) -> Opened {
        let archives = || self.archives.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = recent(&mut archives(), path, MAX_SHARED_ARCHIVES, Arc::default);
        let opened = slot.get_or_init(open).clone();
        if let Err(LocateError::Storage(_)) = opened {
            // The store may respond by the time the next split asks.
            archives().retain(|(_, other)| !Arc::ptr_eq(other, &slot));
        }
        opened
    }
}

/// Why an image has no copy plan.
#[derive(Debug, Clone)]
pub enum LocateError {
    /// The text for `materialize_error`.
    Row(String),
    /// The failure says nothing about the image: the store does not respond or rejects the
    /// credentials, or a disk is full.
    Storage(Arc<StorageError>),
}

impl From<String> for LocateError {
    fn from(text: String) -> Self {
        Self::Row(text)
    }
}

impl LocateError {
    /// For a path that cannot be opened.
    fn of_open(error: StorageError) -> Self {
        if may_open_later(&error) {
            Self::Storage(Arc::new(error))
        } else {
            Self::Row(open_error(&error))
        }
    }

    /// For an opened object that cannot be read; `text` is for the row.
    pub(crate) fn of_read(error: StorageError, text: impl FnOnce() -> String) -> Self {
        if is_of_run(&error) { Self::Storage(Arc::new(error)) } else { Self::Row(text()) }
    }
}

/// The value of `path`, moved to the front.
fn recent<T: Clone>(known: &mut Recent<T>, path: &str, most: usize, make: impl FnOnce() -> T) -> T {
    let found =
        known.iter().position(|(known, _)| known == path).and_then(|index| known.remove(index));
    let entry = found.unwrap_or_else(|| (path.to_owned(), make()));
    let value = entry.1.clone();
    known.truncate(most - 1);
    known.push_front(entry);
    value
}

/// Opens each file and each archive once, as long as rows keep their order.
#[derive(Debug)]
pub struct Locator {
    /// Limit for an image.
    pub limit: DecodeLimit,
    shared: Shared,
    /// The input files of the split, which the user named and which may therefore be links.
    inputs: HashSet<String>,
    open: OpenFiles,
    open_inputs: OpenFiles,
    /// Those that failed have the text for their rows.
    files: HashMap<String, Result<OpenFile, String>>,
    archives: Recent<Opened>,
    /// Rows of one document are adjacent, so the last TIFF is usually also the next one.
    last_tiff: Option<(String, TiffPages)>,
}

#[derive(Debug, Clone)]
struct OpenFile {
    object: Arc<dyn RangeRead>,
    is_compressed: bool,
}

impl Locator {
    #[must_use]
    pub fn new(shared: &Shared, inputs: &[String], limit: DecodeLimit) -> Self {
        Self {
            limit,
            shared: shared.clone(),
            inputs: inputs.iter().cloned().collect(),
            open: OpenFiles::below(shared.roots.clone()),
            open_inputs: OpenFiles::default(),
            files: HashMap::new(),
            archives: VecDeque::new(),
            last_tiff: None,
        }
    }

    /// # Errors
    /// See [`LocateError`].
    pub fn locate(&mut self, locator: &SourceRef) -> Result<Located, LocateError> {
        let path = locator
            .path
            .as_deref()
            .filter(|path| !path.is_empty())
            .ok_or_else(|| "missing path".to_owned())?;
        let (object, range) = match (&locator.member, locator.range()) {
            (None, _) => {
                let object = self.whole(path)?;
                let size = object.size();
                // Without a member the range is not used, but a range outside of the file was meant
                // for another file.
                if let Some(range) = locator.stated_range() {
                    checked(&*object, range, path)?;
                }
                (object, 0..size)
            }
            (Some(member), Some(range)) => {
                let file = self.file(path)?;
                if file.is_compressed {
                    self.member(path, member)?
                } else {
                    self.part(file.object, range, member)?
                }
            }
            (Some(member), None) => self.member(path, member)?,
        };
        let name = locator.member.as_deref().unwrap_or(path);
        match locator.frame_index {
            None => Ok(Located::verbatim(object, range)),
            Some(frame) => {
                let page = self
                    .page(path, object, range, frame)
                    .map_err(|error| LocateError::of_read(error, || frame_error(frame, name)))?;
                Ok(page.ok_or_else(|| frame_error(frame, name))?)
            }
        }
    }

    fn part(
        &self,
        object: Arc<dyn RangeRead>,
        range: Range<u64>,
        member: &str,
    ) -> Result<(Arc<dyn RangeRead>, Range<u64>), String> {
        let range = checked(&*object, range, member)?;
        let object = if object.is_remote() {
            self.shared.fetched.range(object, range.clone())
        } else {
            object
        };
        Ok((object, range))
    }

    fn opened(&self, path: &str) -> shardmill_storage::Result<Arc<dyn RangeRead>> {
        if self.inputs.contains(path) {
            self.open_inputs.open(path)
        } else if is_remote(path) {
            self.shared.fetched.open(path, &self.shared.roots)
        } else {
            self.open.open(path)
        }
    }

    /// A file that is itself an image.
    fn whole(&mut self, path: &str) -> Result<Arc<dyn RangeRead>, LocateError> {
        if is_remote(path) && !self.inputs.contains(path) {
            let Shared { fetched, roots, .. } = &self.shared;
            if let Some(Err(known)) = self.files.get(path) {
                return Err(known.clone().into());
            }
            // Only counted against the budget, so that any number of rows does not fill the memory.
            return fetched.whole(path, roots).map_err(|error| {
                let error = LocateError::of_open(error);
                if let LocateError::Row(text) = &error {
                    self.files.insert(path.to_owned(), Err(text.clone()));
                }
                error
            });
        }
        self.file(path).map(|file| file.object)
    }

    fn file(&mut self, path: &str) -> Result<OpenFile, LocateError> {
        let open = || -> shardmill_storage::Result<OpenFile> {
            let object = self.opened(path)?;
            let mut prefix =
                vec![0; usize::try_from(object.size().min(SNIFF_LEN)).unwrap_or_default()];
            let head = if object.is_remote() {
                self.shared.fetched.range(Arc::clone(&object), 0..prefix.len() as u64)
            } else {
                Arc::clone(&object)
            };
            head.read_at(0, &mut prefix)?;
            let is_compressed = !matches!(sniff_compression(&prefix), Compression::None);
            Ok(OpenFile { object, is_compressed })
        };
        if let Some(known) = self.files.get(path) {
            return Ok(known.clone()?);
        }
        let file = match open().map_err(LocateError::of_open) {
            Ok(file) => Ok(file),
            Err(LocateError::Row(text)) => Err(text),
            Err(error) => return Err(error),
        };
        self.files.insert(path.to_owned(), file.clone());
        Ok(file?)
    }

    fn member(
        &mut self,
        path: &str,
        member: &str,
    ) -> Result<(Arc<dyn RangeRead>, Range<u64>), LocateError> {
        let mut archives = std::mem::take(&mut self.archives);
        let open = || {
            self.opened(path).and_then(Archive::over).map(Arc::new).map_err(LocateError::of_open)
        };
        let archive = if is_remote(path) {
            self.shared.archive(path, open)
        } else {
            recent(&mut archives, path, MAX_ARCHIVES, open)
        };
        self.archives = archives;
        let archive = archive?;
        let found = match archive.find(member) {
            Found::One(_, found) => found,
            Found::None => {
                let text = archive
                    .lost_link(member)
                    .map_or_else(|| missing_member(member), |fault| lost_member(member, fault));
                return Err(text.into());
            }
            Found::Several(first, second) => {
                return Err(ambiguous_member(member, first, second).into());
            }
        };
        Ok((Arc::clone(&archive.object), found.offset..found.offset + found.size))
    }

    fn page(
        &mut self,
        path: &str,
        object: Arc<dyn RangeRead>,
        range: Range<u64>,
        frame: u64,
    ) -> shardmill_storage::Result<Option<Located>> {
        let is_last = self
            .last_tiff
            .as_ref()
            .is_some_and(|(last, pages)| last == path && pages.is_member(&range));
        if !is_last {
            self.last_tiff = Some((path.to_owned(), TiffPages::open(object, range)?));
        }
        self.last_tiff.as_ref().map_or(Ok(None), |(_, pages)| pages.page(frame))
    }
}

/// The text for a path that cannot be opened.
fn open_error(error: &StorageError) -> String {
    match error {
        StorageError::UnsupportedScheme { .. } => "failed to resolve filesystem".to_owned(),
        StorageError::OutsideRoots { .. } => OUTSIDE.to_owned(),
        _ => "failed to read path".to_owned(),
    }
}

/// The text for a path that leads outside of the directories that the user named.
pub const OUTSIDE: &str = "path outside of the input's directory and of allowed_roots";

fn checked(object: &dyn RangeRead, range: Range<u64>, member: &str) -> Result<Range<u64>, String> {
    if range.start >= object.size() {
        Err(format!("empty range read for member '{member}'"))
    } else if range.end > object.size() {
        Err(format!("short range read for member '{member}'"))
    } else {
        Ok(range)
    }
}

#[must_use]
pub fn missing_member(member: &str) -> String {
    format!("missing member '{member}'")
}

/// The text for a link that leads to no member.
#[must_use]
pub fn lost_member(member: &str, fault: &LinkFault) -> String {
    format!("{}: {fault}", missing_member(member))
}

/// The text for a name that may refer to several members.
#[must_use]
pub fn ambiguous_member(name: &str, first: &Member, second: &Member) -> String {
    format!(
        "ambiguous member '{name}': it may be '{}' at byte {} or '{}' at byte {}",
        first.name, first.offset, second.name, second.offset
    )
}

#[must_use]
pub fn frame_error(frame: u64, member: &str) -> String {
    format!("failed to extract frame {frame} from '{member}'")
}

/// Makes a failed read of a located image the error of its row.
///
/// # Errors
/// [`crate::Error::Storage`] when the failure says nothing about the image: the store does not
/// respond or denies access, or a disk is full.
pub fn note_read_error(row: &mut Row, error: StorageError) -> crate::Result<()> {
    if is_of_run(&error) {
        return Err(error.into());
    }
    let source = SourceRef::parse(row.source_ref.as_deref()).unwrap_or_default();
    row.error = Some(match &source.member {
        Some(member) => format!("range read error for member '{member}'"),
        None => "failed to read path".to_owned(),
    });
    Ok(())
}

/// Whether a path that cannot be opened may be there and intact, by the rule of [`is_of_run`].
fn may_open_later(error: &StorageError) -> bool {
    // Without the permission to list, a store denies access to objects that do not exist.
    let is_of_path = match error {
        StorageError::OutsideRoots { .. }
        | StorageError::Refused { refusal: Refusal::Permission | Refusal::Gated, .. } => true,
        StorageError::Open { source, .. } => source.kind() == ErrorKind::PermissionDenied,
        _ => false,
    };
    is_of_run(error) && !is_of_path
}

/// The same for an input of a split, which may need a temporary file to be opened.
pub(crate) fn may_input_open_later(error: &StorageError) -> bool {
    matches!(error, StorageError::Stage { .. }) || may_open_later(error)
}

/// Whether a failed read says nothing about the object, and a later run may succeed: the store does
/// not respond or denies access, or the disk for temporary files is full. A row that was dropped
/// for this would never be read again. A path outside of the roots is refused each time.
pub(crate) fn is_of_run(error: &StorageError) -> bool {
    if matches!(error, StorageError::OutsideRoots { .. }) {
        return false;
    }
    error.is_outage()
        || matches!(
            error.io_kind(),
            Some(ErrorKind::PermissionDenied | ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
        )
}
