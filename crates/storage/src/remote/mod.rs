//! Objects in stores over a network: S3, Google Cloud Storage, Azure, HTTP, the Hugging Face Hub,
//! and fsspec file systems.
//!
//! Paths are `scheme://bucket/key`. All bytes of an object come from one version, which its first
//! response pins. Caller threads wait here; requests run on a small runtime per process. The
//! invariant: bytes of two versions are never mixed, a failed request is retried until its deadline
//! and not longer, and credentials never appear in `Debug` output or in an error.

mod azure;
mod client;
mod conditional;
mod connector;
mod credentials;
mod disk;
mod failure;
mod fetch;
mod fsspec;
mod google;
mod hub;
mod keys;
mod limiter;
mod location;
mod object;
mod options;
mod profile;
mod providers;
mod read_only;
mod registry;
mod retry;
mod runtime;
mod service;
mod shared;
mod staged;
mod store;
mod token;
mod version;

pub use disk::RemoteDisk;
pub use options::StorageOptions;
pub use providers::{CredentialSource, Credentials, FsspecFile, FsspecFiles};
pub use registry::{
    configure, is_reached_with, options_of, pinned_revisions, request_counts, total_request_counts,
};
pub use store::{RemoteStore, RequestCounts};

pub(crate) use location::is_remote;
pub(crate) use registry::{is_named, store_of};
pub(crate) use service::Service;

/// Whether the object of a listed path cannot be requested: its key starts or ends with a slash, or
/// has `.`, `..` or a control character.
#[must_use]
pub fn is_unreadable(path: &str) -> bool {
    location::Location::parse(path)
        .is_ok_and(|place| place.service != Service::Http && keys::is_unreadable(&place.key))
}
