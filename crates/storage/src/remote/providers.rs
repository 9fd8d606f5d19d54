//! User-supplied parts of a store: renewable credentials, and whole file systems.
//!
//! Both are Python objects. They are called on threads of the runtime, never on a thread that a
//! caller waits on.

use bytes::Bytes;
use std::collections::BTreeMap;
use std::fmt::{self, Debug};
use std::io;
use std::ops::Range;
use std::time::SystemTime;

/// Supplies credentials; called again before they expire.
pub trait CredentialSource: Send + Sync + Debug {
    /// Identifies it among the sources of this process.
    fn id(&self) -> usize;

    /// # Errors
    /// When it cannot supply credentials.
    fn fetch(&self) -> io::Result<Credentials>;
}

/// Keys by name: `access_key_id`, `secret_access_key`, `token`, `access_key`, `sas_token`.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Credentials {
    pub keys: BTreeMap<String, String>,
    pub expires: Option<SystemTime>,
}

impl Debug for Credentials {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Credentials")
            .field("expires", &self.expires)
            .finish_non_exhaustive()
    }
}

/// A file system without a client in this crate.
///
/// Timeouts and connection errors are retried; [`io::ErrorKind::NotFound`] and
/// [`io::ErrorKind::PermissionDenied`] keep their meaning.
pub trait FsspecFiles: Send + Sync + Debug {
    /// Identifies it among the file systems of this process.
    fn id(&self) -> usize;

    /// The file at `path`; `None` for a directory, and when it does not exist.
    ///
    /// # Errors
    /// When the file system cannot determine it.
    fn info(&self, path: &str) -> io::Result<Option<FsspecFile>>;

    /// All files at or below a path.
    ///
    /// # Errors
    /// When the file system cannot list them.
    fn find(&self, path: &str) -> io::Result<Vec<FsspecFile>>;

    /// # Errors
    /// When the file system cannot read it.
    fn read(&self, path: &str, range: Range<u64>) -> io::Result<Bytes>;
}

/// One file of a [`FsspecFiles`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FsspecFile {
    /// As the user would write it.
    pub path: String,
    pub size: u64,
    /// Differs between versions, if the file system provides such a mark.
    pub mark: Option<String>,
}
