//! Everything that can go wrong between a path and its bytes.

use crate::secrets::shown;
use std::io;

pub type Result<T> = std::result::Result<T, Error>;

#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The path, or every file a glob could match, is missing.
    #[error("No file at `{}`", shown(path))]
    NotFound { path: String },
    /// The path exists and cannot be opened.
    #[error("Failed to open `{}`", shown(path))]
    Open {
        path: String,
        #[source]
        source: io::Error,
    },
    /// An object store wants to know who asks, or does not let that one read.
    #[error("No permission to read `{}` (HTTP status {status})", shown(path))]
    Denied { path: String, status: u16 },
    /// A store refuses the request, and would again.
    #[error("{} `{}`: {explanation}", refusal.what(), shown(path))]
    Refused { path: String, refusal: Refusal, explanation: String },
    /// The folder that keeps what was fetched cannot be used.
    #[error("Failed to use the cache folder `{}`", shown(folder))]
    Cache {
        folder: String,
        #[source]
        source: io::Error,
    },
    /// An object was replaced after it was opened.
    #[error("`{}` was replaced while it was being read", shown(path))]
    Changed { path: String },
    /// A directory cannot be listed, or a glob cannot be parsed.
    #[error("Failed to list `{}`", shown(path))]
    List {
        path: String,
        #[source]
        source: io::Error,
    },
    /// The device failed while reading.
    #[error("Failed to read {len} bytes at {offset} of `{}`", shown(path))]
    Read {
        path: String,
        offset: u64,
        len: usize,
        #[source]
        source: io::Error,
    },
    /// The object ended early: it was cut, or it shrank after it was listed.
    #[error("`{}` ends before byte {end} (asked for {len} bytes at {offset})", shown(path))]
    ShortRead { path: String, offset: u64, len: usize, end: u64 },
    /// The output folder cannot take a new file.
    #[error("Failed to start writing `{}`", shown(path))]
    Stage {
        path: String,
        #[source]
        source: io::Error,
    },
    /// Content could not be written: a full disk, mostly.
    #[error("Failed to write `{}`", shown(path))]
    Write {
        path: String,
        #[source]
        source: io::Error,
    },
    /// Content was written but could not be synced or renamed.
    #[error("Failed to publish `{}`", shown(path))]
    Publish {
        path: String,
        #[source]
        source: io::Error,
    },
    /// The final name is taken and must not be replaced.
    #[error("`{}` exists already", shown(path))]
    AlreadyExists { path: String },
    /// A path that stands in data leads to a place that the user did not name.
    #[error("`{}` lies outside of the directories that may be read", shown(path))]
    OutsideRoots { path: String },
    #[error("No store serves the scheme `{scheme}` of `{}`", shown(path))]
    UnsupportedScheme { path: String, scheme: String },
    /// Without this error, a URL that lost a slash would mean a relative directory.
    #[error("`{}` has fewer than two slashes after the scheme `{scheme}`", shown(path))]
    SingleSlash { path: String, scheme: String },
    #[error("`{path}` is not a valid file URL: {reason}")]
    FileUrl { path: String, reason: &'static str },
}

/// Why a store refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    NoSuchBucket,
    Permission,
    Credentials,
    NoCredentials,
    Expired,
    Region,
    Clock,
    CredentialSource,
    NoSuchDataset,
    NoSuchRevision,
    Gated,
    Token,
    WholeOnly,
}

impl Refusal {
    fn what(self) -> &'static str {
        match self {
            Self::NoSuchBucket => "No such bucket:",
            Self::Permission => "No permission for",
            Self::Credentials => "The credentials are not accepted for",
            Self::NoCredentials => "No credentials were found for",
            Self::Expired => "The credentials have expired for",
            Self::Region => "The bucket lies in another region than was asked:",
            Self::Clock => "The clock of this machine is too far from the store's for",
            Self::CredentialSource => "The credential provider has none to give for",
            Self::NoSuchDataset => "No such data set on the Hub, or none that you may see:",
            Self::NoSuchRevision => "No such revision of the data set on the Hub:",
            Self::Gated => "Access to the data set has to be asked for on the Hub:",
            Self::Token => "The Hub does not accept the token for",
            Self::WholeOnly => "Parts cannot be read of",
        }
    }

    fn hint(self) -> &'static str {
        match self {
            Self::NoSuchBucket => "check the bucket's name, and the endpoint: another service knows other buckets",
            Self::Permission => "ask for the right to read, write or list there, or name other credentials in storage_options",
            Self::Credentials => "check the keys in storage_options, or in the environment; a token that was given may have ended",
            Self::NoCredentials => {
                "set the variables of the service (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; GOOGLE_APPLICATION_CREDENTIALS; AZURE_STORAGE_ACCOUNT_KEY), give storage_options, or skip_signature=True for a public bucket"
            }
            Self::Expired => "get new ones and open the data set again with them; a state that was saved goes on where it was",
            Self::Region => "name the bucket's region: storage_options={\"region\": …}, or AWS_REGION",
            Self::Clock => "set the clock",
            Self::CredentialSource => "call the store's credential_provider by itself: what it raises is the reason",
            Self::NoSuchDataset => {
                "check the owner and the name, hf://datasets/OWNER/NAME; for a private one set HF_TOKEN, or storage_options={\"token\": …}"
            }
            Self::NoSuchRevision => "name a branch, a tag or a commit of it behind the @, or none for main",
            Self::Gated => "accept its conditions on its page, and set HF_TOKEN, or storage_options={\"token\": …}, to a token of that account",
            Self::Token => "make a new one on the Hub's page of tokens, and set HF_TOKEN, or storage_options={\"token\": …}",
            Self::WholeOnly => "fetch the file to a local folder, or put it on a server or in a bucket that answers requests for ranges of bytes",
        }
    }
}

impl Error {
    /// A path or an option that is not valid. What the path may show is left of it.
    pub(crate) fn refused(path: &str, what: String) -> Self {
        Self::Open { path: shown(path), source: io::Error::new(io::ErrorKind::InvalidInput, what) }
    }

    /// What the user can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            _ if self.is_outage() => {
                Some("check the endpoint and the network; `retry_timeout` in storage_options says for how long a request is made again")
            }
            Self::NotFound { path } if path.contains("://") => Some("check the bucket's and the object's name; case counts"),
            Self::NotFound { .. } => Some("check the spelling; relative paths start at the working directory"),
            Self::ShortRead { .. } => Some("the file was cut or is still being written; run `shardmill verify` on it"),
            Self::AlreadyExists { .. } => Some("choose another output folder, or mode=\"overwrite\""),
            Self::OutsideRoots { .. } => Some("name its directory or bucket by allowed_roots, if you trust it"),
            Self::UnsupportedScheme { .. } => Some(
                "local paths, file://, s3://, gs://, az://, hf://, http:// and https:// are served; others by storage_options with a file system of fsspec, in each process",
            ),
            Self::SingleSlash { .. } => {
                Some("give a URL as a string: pathlib.Path joins its slashes; a local directory of such a name is written ./name:/…")
            }
            Self::FileUrl { .. } => Some("write file:///absolute/path, or the path itself"),
            Self::Refused { refusal, .. } => Some(refusal.hint()),
            Self::Denied { .. } => {
                Some("set GOOGLE_OAUTH_ACCESS_TOKEN to a fresh token of an account that may read it: `gcloud auth print-access-token`")
            }
            Self::Cache { source, .. } => match source.kind() {
                io::ErrorKind::PermissionDenied => Some("it belongs to another user: name a folder of your own by cache_dir, or SHARDMILL_CACHE_DIR"),
                io::ErrorKind::ReadOnlyFilesystem => {
                    Some("it lies on a file system that is read only: name another one by cache_dir, or SHARDMILL_CACHE_DIR")
                }
                io::ErrorKind::StorageFull => Some("its disk is full: `shardmill cache clear`, a smaller cache_bytes, or another cache_dir"),
                _ => Some("name another one by cache_dir, or SHARDMILL_CACHE_DIR"),
            },
            Self::Changed { .. } => Some("open it again, when nobody writes it any more"),
            Self::List { path, source } if source.kind() == io::ErrorKind::Unsupported && path.starts_with("http") => {
                Some("name each file: a list of addresses is a data set too")
            }
            Self::Stage { source, .. } if source.kind() == io::ErrorKind::Unsupported => {
                Some("write to a local folder, or to a bucket of s3://, gs:// or az://, and copy it from there")
            }
            Self::Write { source, .. } | Self::Publish { source, .. } | Self::Stage { source, .. } => match source.kind() {
                io::ErrorKind::StorageFull => Some("the disk is full; nothing partial was left under a final name"),
                io::ErrorKind::PermissionDenied => Some("the output folder is not writable for this user"),
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether a store did not answer for as long as it was asked.
    #[must_use]
    pub fn is_outage(&self) -> bool {
        matches!(self.io_kind(), Some(io::ErrorKind::TimedOut | io::ErrorKind::ConnectionRefused))
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
            | Self::Cache { source, .. }
            | Self::Publish { source, .. } => Some(source.kind()),
            Self::NotFound { .. } => Some(io::ErrorKind::NotFound),
            Self::AlreadyExists { .. } => Some(io::ErrorKind::AlreadyExists),
            Self::ShortRead { .. } => Some(io::ErrorKind::UnexpectedEof),
            Self::Denied { .. } | Self::OutsideRoots { .. } => Some(io::ErrorKind::PermissionDenied),
            Self::Refused { refusal: Refusal::NoSuchBucket | Refusal::NoSuchDataset | Refusal::NoSuchRevision, .. } => Some(io::ErrorKind::NotFound),
            Self::Refused { refusal: Refusal::WholeOnly, .. } => Some(io::ErrorKind::Unsupported),
            Self::Refused { .. } => Some(io::ErrorKind::PermissionDenied),
            Self::UnsupportedScheme { .. } | Self::SingleSlash { .. } | Self::FileUrl { .. } | Self::Changed { .. } => None,
        }
    }
}
