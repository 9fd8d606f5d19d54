//! Objects in stores over a network: S3, Google Cloud Storage, Azure, HTTP, the Hugging Face Hub, and file systems that others serve.
//!
//! Paths enter as `scheme://bucket/key`; what is read comes from one version of an object, which its first answer pins. Threads of the caller wait here;
//! requests run on a small runtime that belongs to the process. The invariant: bytes of two versions are never mixed, a request that failed is repeated
//! until its deadline and not longer, and no credential is shown by `Debug` or in an error.

mod azure;
mod client;
mod connector;
mod credentials;
mod disk;
mod failure;
mod fetch;
mod foreign;
mod gate;
mod given;
mod google;
mod hub;
mod location;
mod object;
mod options;
mod process;
mod profile;
mod read_only;
mod runtime;
mod staged;
mod store;
mod token;
mod version;

pub use disk::RemoteDisk;
pub use given::{CredentialSource, Credentials, ForeignFile, ForeignFiles};
pub use options::{StorageOptions, configure, is_reached_with, options_of, pinned_revisions};
pub use store::{RemoteStore, RequestCounts, request_counts};

pub(crate) use location::is_remote;
pub(crate) use options::is_named;

use crate::{Result, Store};
use std::sync::Arc;

pub(crate) fn store(path: &str) -> Result<Arc<dyn Store>> {
    Ok(Arc::new(store::Shared(RemoteStore::of(path)?)))
}
