//! What somebody else brings along to a store: credentials that are renewed, and whole file systems.
//!
//! Both are objects of a language above this one. They are asked on threads of the runtime, never on one that a caller waits on.

use bytes::Bytes;
use std::collections::BTreeMap;
use std::fmt::{self, Debug};
use std::io;
use std::ops::Range;
use std::time::SystemTime;

/// Says who asks; it is asked again when its last answer nears its end.
pub trait CredentialSource: Send + Sync + Debug {
    /// Tells it from the other sources of this process.
    fn id(&self) -> usize;

    /// # Errors
    /// When it has none to give.
    fn fetch(&self) -> io::Result<Credentials>;
}

/// Keys by the names of their kind: `access_key_id`, `secret_access_key`, `token`, `access_key`, `sas_token`.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Credentials {
    pub keys: BTreeMap<String, String>,
    pub expires: Option<SystemTime>,
}

impl Debug for Credentials {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Credentials").field("expires", &self.expires).finish_non_exhaustive()
    }
}

/// A file system that this crate has no client for: read by whoever has one.
///
/// Of its errors, those of time and of connections are worth another try; [`io::ErrorKind::NotFound`] and [`io::ErrorKind::PermissionDenied`] say so.
pub trait FsspecFiles: Send + Sync + Debug {
    /// Tells it from the other file systems of this process.
    fn id(&self) -> usize;

    /// The file that is called so; `None` for a folder, and where there is none.
    ///
    /// # Errors
    /// When the file system cannot tell.
    fn info(&self, path: &str) -> io::Result<Option<FsspecFile>>;

    /// All files at or below a path.
    ///
    /// # Errors
    /// When the file system cannot tell.
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
    /// Differs between versions, where the file system tells them apart.
    pub mark: Option<String>,
}
