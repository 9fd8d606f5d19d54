//! Objects in stores over a network: S3, Google Cloud Storage, Azure, HTTP, the Hugging Face Hub, and file systems that others serve.
//!
//! Paths enter as `scheme://bucket/key`; what is read comes from one version of an object, which its first answer pins. Threads of the caller wait here;
//! requests run on a small runtime that belongs to the process. The invariant: bytes of two versions are never mixed, a request that failed is repeated
//! until its deadline and not longer, and no credential is shown by `Debug` or in an error.

mod answer;
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
mod limiter;
mod location;
mod object;
mod options;
mod process;
mod profile;
mod providers;
mod read_only;
mod registry;
mod runtime;
mod shared;
mod staged;
mod store;
mod token;
mod version;

pub use disk::RemoteDisk;
pub use options::StorageOptions;
pub use providers::{CredentialSource, Credentials, FsspecFile, FsspecFiles};
pub use registry::{configure, is_reached_with, options_of, pinned_revisions, request_counts};
pub use store::{RemoteStore, RequestCounts};

pub(crate) use location::is_remote;
pub(crate) use registry::is_named;

use crate::{Result, Store};
use std::sync::Arc;

pub(crate) fn store(path: &str) -> Result<Arc<dyn Store>> {
    Ok(Arc::new(shared::Shared(registry::remote_store(path)?)))
}
