//! Everything that can go wrong between a path and its bytes.

use std::io;

pub type Result<T> = std::result::Result<T, Error>;

#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The path, or every file a glob could match, is missing.
    #[error("No file at `{path}`")]
    NotFound { path: String },
    /// The path exists and cannot be opened.
    #[error("Failed to open `{path}`")]
    Open {
        path: String,
        #[source]
        source: io::Error,
    },
    /// An object store wants to know who asks, or does not let that one read.
    #[error("No permission to read `{path}` (HTTP status {status})")]
    Denied { path: String, status: u16 },
    /// An object was replaced after it was opened.
    #[error("`{path}` was replaced while it was being read")]
    Changed { path: String },
    /// A directory cannot be listed, or a glob cannot be parsed.
    #[error("Failed to list `{path}`")]
    List {
        path: String,
        #[source]
        source: io::Error,
    },
    /// The device failed while reading.
    #[error("Failed to read {len} bytes at {offset} of `{path}`")]
    Read {
        path: String,
        offset: u64,
        len: usize,
        #[source]
        source: io::Error,
    },
    /// The object ended early: it was cut, or it shrank after it was listed.
    #[error("`{path}` ends before byte {end} (asked for {len} bytes at {offset})")]
    ShortRead { path: String, offset: u64, len: usize, end: u64 },
    /// The output folder cannot take a new file.
    #[error("Failed to start writing `{path}`")]
    Stage {
        path: String,
        #[source]
        source: io::Error,
    },
    /// Content could not be written: a full disk, mostly.
    #[error("Failed to write `{path}`")]
    Write {
        path: String,
        #[source]
        source: io::Error,
    },
    /// Content was written but could not be synced or renamed.
    #[error("Failed to publish `{path}`")]
    Publish {
        path: String,
        #[source]
        source: io::Error,
    },
    /// The final name is taken and must not be replaced.
    #[error("`{path}` exists already")]
    AlreadyExists { path: String },
    #[error("No store serves the scheme `{scheme}` of `{path}`")]
    UnsupportedScheme { path: String, scheme: String },
}

impl Error {
    /// What the user can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NotFound { path } if path.contains("://") => Some("check the bucket's and the object's name; case counts"),
            Self::NotFound { .. } => Some("check the spelling; relative paths start at the working directory"),
            Self::ShortRead { .. } => Some("the file was cut or is still being written; run `shardmill verify` on it"),
            Self::AlreadyExists { .. } => Some("choose another output folder, or mode=\"overwrite\""),
            Self::UnsupportedScheme { .. } => Some("local paths and gs:// objects are served; copy the data to a local folder first"),
            Self::Denied { .. } => {
                Some("set GOOGLE_OAUTH_ACCESS_TOKEN to a fresh token of an account that may read it: `gcloud auth print-access-token`")
            }
            Self::Changed { .. } => Some("open it again, when nobody writes it any more"),
            Self::List { source, .. } if source.kind() == io::ErrorKind::Unsupported => {
                Some("name each object, or copy the folder to a local one first")
            }
            Self::Stage { source, .. } if source.kind() == io::ErrorKind::Unsupported => Some("write to a local folder and upload it"),
            Self::Write { source, .. } | Self::Publish { source, .. } | Self::Stage { source, .. } => match source.kind() {
                io::ErrorKind::StorageFull => Some("the disk is full; nothing partial was left under a final name"),
                io::ErrorKind::PermissionDenied => Some("the output folder is not writable for this user"),
                _ => None,
            },
            _ => None,
        }
    }

    /// The operating system's reason, where there is one.
    #[must_use]
    pub fn io_kind(&self) -> Option<io::ErrorKind> {
        match self {
            Self::Open { source, .. }
            | Self::List { source, .. }
            | Self::Read { source, .. }
            | Self::Stage { source, .. }
            | Self::Write { source, .. }
            | Self::Publish { source, .. } => Some(source.kind()),
            Self::NotFound { .. } => Some(io::ErrorKind::NotFound),
            Self::AlreadyExists { .. } => Some(io::ErrorKind::AlreadyExists),
            Self::ShortRead { .. } => Some(io::ErrorKind::UnexpectedEof),
            Self::Denied { .. } => Some(io::ErrorKind::PermissionDenied),
            Self::UnsupportedScheme { .. } | Self::Changed { .. } => None,
        }
    }
}
