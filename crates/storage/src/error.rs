//! Errors of paths, reads and writes.

use crate::secrets::shown;
use shardmill_errors::ErrorKind;
use std::io;

pub type Result<T> = std::result::Result<T, Error>;

#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The path does not exist, or a glob matches no file.
    #[error("No file at `{}`", shown(path))]
    NotFound { path: String },
    /// The path exists but cannot be opened.
    #[error("Failed to open `{}`", shown(path))]
    Open { path: String, source: io::Error },
    /// The options of a store are not valid.
    #[error("Failed to open `{}`", shown(path))]
    Options { path: String, source: io::Error },
    /// A store refuses the request, and would again.
    #[error("{} `{}`: {explanation}", refusal.what(), shown(path))]
    Refused { path: String, refusal: Refusal, explanation: String },
    /// The cache directory cannot be used.
    #[error("Failed to use the cache directory `{}`", shown(directory))]
    Cache { directory: String, source: io::Error },
    /// An object was replaced after it was opened.
    #[error("`{}` was replaced while it was being read", shown(path))]
    Changed { path: String },
    /// A directory cannot be listed, or a glob cannot be parsed.
    #[error("Failed to list `{}`", shown(path))]
    List { path: String, source: io::Error },
    /// The device failed while reading.
    #[error("Failed to read {len} bytes at {offset} of `{}`", shown(path))]
    Read { path: String, offset: u64, len: usize, source: io::Error },
    /// The object ended early: it was truncated, or it shrank after it was listed.
    #[error("`{}` ends before byte {end} (asked for {len} bytes at {offset})", shown(path))]
    ShortRead { path: String, offset: u64, len: usize, end: u64 },
    /// The output directory cannot take a new file.
    #[error("Failed to start writing `{}`", shown(path))]
    Stage { path: String, source: io::Error },
    /// Content could not be written, usually because the disk is full.
    #[error("Failed to write `{}`", shown(path))]
    Write { path: String, source: io::Error },
    /// Content was written but could not be synced or renamed.
    #[error("Failed to publish `{}`", shown(path))]
    Publish { path: String, source: io::Error },
    /// The final name exists and must not be replaced.
    #[error("`{}` already exists", shown(path))]
    AlreadyExists { path: String },
    /// A path stored in the data leads outside of the directories that the user named.
    #[error("`{}` lies outside of the directories that may be read", shown(path))]
    OutsideRoots { path: String },
    #[error("No store serves the scheme `{scheme}` of `{}`", shown(path))]
    UnsupportedScheme { path: String, scheme: String },
    /// Without this error, a URL that lost a slash would be read as a relative directory.
    #[error("`{}` has fewer than two slashes after the scheme `{scheme}`", shown(path))]
    SingleSlash { path: String, scheme: String },
    #[error("`{path}` is not a valid file URL: {reason}")]
    FileUrl { path: String, reason: &'static str },
}

/// Why a store rejected a request.
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
            Self::CredentialSource => "The credential provider returned no credentials for",
            Self::NoSuchDataset => "No such data set on the Hub, or no access to it:",
            Self::NoSuchRevision => "No such revision of the data set on the Hub:",
            Self::Gated => "Access to the data set must be requested on the Hub:",
            Self::Token => "The Hub does not accept the token for",
            Self::WholeOnly => "The server does not support range requests for",
        }
    }

    fn hint(self) -> &'static str {
        match self {
            Self::NoSuchBucket => {
                "check the bucket's name, and that the endpoint is the one of its service"
            }
            Self::Permission => {
                "request permission to read, write or list there, or pass other credentials \
                 in storage_options"
            }
            Self::Credentials => {
                "check the keys in storage_options or in the environment; a token may have expired"
            }
            Self::NoCredentials => {
                "set the variables of the service (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; \
                 GOOGLE_APPLICATION_CREDENTIALS; AZURE_STORAGE_ACCOUNT_KEY), give storage_options, \
                 or skip_signature=True for a public bucket"
            }
            Self::Expired => {
                "get new ones and open the data set again with them; a saved state continues \
                 where it stopped"
            }
            Self::Region => {
                "name the bucket's region: storage_options={\"region\": …}, or AWS_REGION"
            }
            Self::Clock => "set the clock",
            Self::CredentialSource => {
                "call the store's credential_provider directly; the exception \
                 that it raises is the reason"
            }
            Self::NoSuchDataset => {
                "check the owner and the name, hf://datasets/OWNER/NAME; for a private one set \
                 HF_TOKEN, or storage_options={\"token\": …}"
            }
            Self::NoSuchRevision => {
                "name an existing branch, tag or commit after the @, or omit it for main"
            }
            Self::Gated => {
                "accept its conditions on its page, and set HF_TOKEN, \
                 or storage_options={\"token\": …}, to a token of that account"
            }
            Self::Token => {
                "make a new one on the Hub's page of tokens, and set HF_TOKEN, \
                 or storage_options={\"token\": …}"
            }
            Self::WholeOnly => {
                "fetch the file to a local directory, or put it on a server or in a bucket \
                 that answers requests for ranges of bytes"
            }
        }
    }
}

macro_rules! served {
    ($suggestion:literal) => {
        concat!(
            $suggestion,
            "local paths, file://, s3://, gs://, az://, hf://, http:// and https:// are served; \
             for others pass an fsspec file system in storage_options, in each process"
        )
    };
}

/// The schemes that are served, and the one that was probably meant.
fn scheme_hint(scheme: &str) -> &'static str {
    const SIMILAR: [(&str, &str); 6] = [
        ("s3", served!("did you mean s3://? ")),
        ("gs", served!("did you mean gs://? ")),
        ("az", served!("did you mean az://? ")),
        ("hf", served!("did you mean hf://? ")),
        ("https", served!("did you mean https://? ")),
        ("http", served!("did you mean http://? ")),
    ];
    let scheme = scheme.to_ascii_lowercase();
    SIMILAR
        .iter()
        .find(|(known, _)| differs_by_one_letter(known, &scheme))
        .map_or(served!(""), |(_, hint)| hint)
}

/// Whether one letter was replaced, added, left out or written in capitals.
fn differs_by_one_letter(known: &str, typed: &str) -> bool {
    let same_start =
        known.bytes().zip(typed.bytes()).take_while(|(known, typed)| known == typed).count();
    let same_end = known
        .bytes()
        .rev()
        .zip(typed.bytes().rev())
        .take_while(|(known, typed)| known == typed)
        .count();
    let (shorter, longer) = (known.len().min(typed.len()), known.len().max(typed.len()));
    // Two letters have no common part if both are wrong.
    longer - shorter <= 1 && same_start + same_end + 1 >= longer && same_start + same_end > 0
}

impl Error {
    /// A path or an option that is not valid. The error shows the path without its secrets.
    pub(crate) fn refused(path: &str, what: String) -> Self {
        Self::Open { path: shown(path), source: io::Error::new(io::ErrorKind::InvalidInput, what) }
    }

    /// Blames the options that were passed. Opening a store makes no request, so nothing else can
    /// be wrong.
    pub(crate) fn of_options(self) -> Self {
        match self {
            Self::Open { path, source } => Self::Options { path, source },
            other => other,
        }
    }

    /// What the user can do about the error.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            _ if self.is_outage() => Some(
                "check the endpoint and the network; `retry_timeout` in storage_options sets \
                 how long a request is retried",
            ),
            Self::NotFound { path } if path.starts_with("http") && path.contains("://") => {
                Some("check the address; its path is case-sensitive")
            }
            Self::NotFound { path } if path.contains("://") => {
                Some("check the bucket's and the object's name; names are case-sensitive")
            }
            Self::NotFound { .. } => {
                Some("check the spelling; relative paths start at the working directory")
            }
            Self::ShortRead { .. } => Some(
                "the file is truncated or is still being written; run `shardmill verify` on it",
            ),
            Self::AlreadyExists { .. } => {
                Some("choose another output directory, or mode=\"overwrite\"")
            }
            Self::OutsideRoots { .. } => {
                Some("add its directory or bucket to allowed_roots, if you trust it")
            }
            Self::UnsupportedScheme { scheme, .. } => Some(scheme_hint(scheme)),
            Self::SingleSlash { .. } => Some(
                "give a URL as a string: pathlib.Path joins its slashes; a local directory \
                 of such a name is written ./name:/…",
            ),
            Self::FileUrl { .. } => Some("write file:///absolute/path, or the path itself"),
            Self::Refused { refusal, .. } => Some(refusal.hint()),
            Self::Cache { source, .. } => match source.kind() {
                io::ErrorKind::PermissionDenied => Some(
                    "it belongs to another user: set a directory of your own with cache_dir, \
                     or SHARDMILL_CACHE_DIR",
                ),
                io::ErrorKind::ReadOnlyFilesystem => Some(
                    "it is on a read-only file system: set another one with cache_dir, \
                     or SHARDMILL_CACHE_DIR",
                ),
                io::ErrorKind::StorageFull => Some(
                    "its disk is full: `shardmill cache clear`, a smaller cache_bytes, \
                     or another cache_dir",
                ),
                _ => Some("set another one with cache_dir, or SHARDMILL_CACHE_DIR"),
            },
            Self::Changed { .. } => Some("open it again when no other process is writing it"),
            Self::List { path, source }
                if source.kind() == io::ErrorKind::Unsupported && path.starts_with("http") =>
            {
                Some("name each file: a list of addresses is a data set too")
            }
            Self::Stage { source, .. } if source.kind() == io::ErrorKind::Unsupported => Some(
                "write to a local directory, or to a bucket of s3://, gs:// or az://, \
                 and copy it from there",
            ),
            Self::Write { source, .. }
            | Self::Publish { source, .. }
            | Self::Stage { source, .. } => match source.kind() {
                io::ErrorKind::StorageFull => {
                    Some("the disk is full; no partial file was left under a final name")
                }
                io::ErrorKind::PermissionDenied => {
                    Some("the output directory is not writable for this user")
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// What the error is to the caller.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Options { .. }
            | Self::UnsupportedScheme { .. }
            | Self::SingleSlash { .. }
            | Self::FileUrl { .. } => ErrorKind::Option,
            Self::NotFound { .. }
            | Self::Open { .. }
            | Self::Refused { .. }
            | Self::Cache { .. }
            | Self::Changed { .. }
            | Self::List { .. }
            | Self::Read { .. }
            | Self::ShortRead { .. }
            | Self::Stage { .. }
            | Self::Write { .. }
            | Self::Publish { .. }
            | Self::AlreadyExists { .. }
            | Self::OutsideRoots { .. } => match self.io_kind() {
                Some(io::ErrorKind::NotFound) => ErrorKind::NotFound,
                Some(io::ErrorKind::PermissionDenied) => ErrorKind::PermissionDenied,
                Some(io::ErrorKind::AlreadyExists) => ErrorKind::OutputExists,
                _ => ErrorKind::Storage,
            },
        }
    }

    /// Whether a store did not respond within the retry timeout.
    #[must_use]
    pub fn is_outage(&self) -> bool {
        matches!(self.io_kind(), Some(io::ErrorKind::TimedOut | io::ErrorKind::ConnectionRefused))
    }

    /// The operating system's reason, if any.
    #[must_use]
    pub fn io_kind(&self) -> Option<io::ErrorKind> {
        match self {
            Self::Open { source, .. }
            | Self::Options { source, .. }
            | Self::List { source, .. }
            | Self::Read { source, .. }
            | Self::Stage { source, .. }
            | Self::Write { source, .. }
            | Self::Cache { source, .. }
            | Self::Publish { source, .. } => Some(source.kind()),
            Self::NotFound { .. } => Some(io::ErrorKind::NotFound),
            Self::AlreadyExists { .. } => Some(io::ErrorKind::AlreadyExists),
            Self::ShortRead { .. } => Some(io::ErrorKind::UnexpectedEof),
            Self::OutsideRoots { .. } => Some(io::ErrorKind::PermissionDenied),
            Self::Refused {
                refusal: Refusal::NoSuchBucket | Refusal::NoSuchDataset | Refusal::NoSuchRevision,
                ..
            } => Some(io::ErrorKind::NotFound),
            Self::Refused { refusal: Refusal::WholeOnly, .. } => Some(io::ErrorKind::Unsupported),
            Self::Refused { .. } => Some(io::ErrorKind::PermissionDenied),
            Self::UnsupportedScheme { .. }
            | Self::SingleSlash { .. }
            | Self::FileUrl { .. }
            | Self::Changed { .. } => None,
        }
    }
}
