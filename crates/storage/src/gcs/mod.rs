//! Objects of Google Cloud Storage, read by `gs://bucket/object`.
//!
//! Opening is one GET of the object's tail, whose answer tells the size. The tail stays in memory and serves what lies in it; what lies before it costs
//! one GET for each run of near ranges. An open object is one version over one connection: an answer about another version is an error, never data.
//!
//! Single objects are read here, with a token of the environment or of an emulator. Listing and writing, and buckets that options were given for, are the
//! business of [`crate::RemoteStore`].

mod connection;
mod content_range;
mod object;
mod site;

#[cfg(test)]
mod tests;

use crate::{Error, RangeRead, Result, Staged, Store, Unpublished};
use object::GcsObject;
use site::Site;
use std::io;
use std::sync::Arc;

pub(crate) const SCHEME: &str = "gs";

/// Holds the footers of most formats; upstream readers of ArrayRecord ask for as much.
const DEFAULT_TAIL_BYTES: u64 = 1 << 20;

/// The buckets that the environment gives access to.
#[derive(Debug, Default, Clone)]
pub struct GcsStore {}

impl Store for GcsStore {
    fn open(&self, path: &str) -> Result<Arc<dyn RangeRead>> {
        self.open_with_tail(path, DEFAULT_TAIL_BYTES)
    }

    fn open_with_tail(&self, path: &str, tail_bytes: u64) -> Result<Arc<dyn RangeRead>> {
        let site = Site::from_environment().map_err(|source| Error::Open { path: path.to_owned(), source })?;
        Ok(Arc::new(GcsObject::open(path, tail_bytes, &site)?))
    }

    fn list(&self, path: &str) -> Result<Vec<String>> {
        Err(Error::List {
            path: path.to_owned(),
            source: unsupported("buckets are listed with storage_options alone; their objects can be read one by one"),
        })
    }

    fn stage(&self, path: &str, _unpublished: &Unpublished) -> Result<Box<dyn Staged>> {
        Err(Error::Stage { path: path.to_owned(), source: unsupported("buckets are written to with storage_options alone") })
    }

    fn stage_as(&self, path: &str, _hidden: &str, unpublished: &Unpublished) -> Result<Box<dyn Staged>> {
        self.stage(path, unpublished)
    }
}

fn unsupported(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, what)
}
