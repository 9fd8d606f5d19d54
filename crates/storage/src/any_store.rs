//! Local files and objects of network stores behind one `Store`; each path is routed to the store
//! that serves it.

use crate::{LocalStore, RangeRead, Replace, Result, Staged, Store, Unpublished};
use crate::{local_path, remote, secrets};
use std::sync::Arc;

/// Serves every kind of path.
#[derive(Debug, Clone, Copy)]
pub struct AnyStore;

/// The store that serves `path`.
///
/// # Errors
/// As [`local_path`].
fn store_of(path: &str) -> Result<Arc<dyn Store>> {
    if path.contains(['@', '?', '#']) {
        secrets::hide_in_url(path);
    }
    if local_path(path)?.is_some() {
        return Ok(Arc::new(LocalStore::default()));
    }
    remote::store_of(path)
}

/// Each step also fails as [`local_path`] does.
impl Store for AnyStore {
    fn open(&self, path: &str) -> Result<Arc<dyn RangeRead>> {
        store_of(path)?.open(path)
    }

    fn open_with_tail(&self, path: &str, tail_bytes: u64) -> Result<Arc<dyn RangeRead>> {
        store_of(path)?.open_with_tail(path, tail_bytes)
    }

    fn list(&self, path: &str) -> Result<Vec<String>> {
        store_of(path)?.list(path)
    }

    fn directories_in(&self, directory: &str, names: &[&str]) -> Result<Vec<bool>> {
        store_of(directory)?.directories_in(directory, names)
    }

    fn stage(&self, path: &str, unpublished: &Unpublished) -> Result<Box<dyn Staged>> {
        store_of(path)?.stage(path, unpublished)
    }

    fn stage_as(
        &self,
        path: &str,
        hidden: &str,
        unpublished: &Unpublished,
    ) -> Result<Box<dyn Staged>> {
        store_of(path)?.stage_as(path, hidden, unpublished)
    }

    fn publish(&self, path: &str, content: &[u8], replace: Replace) -> Result<()> {
        store_of(path)?.publish(path, content, replace)
    }
}
