//! Retries reads of remote files whose bytes may have been damaged in transit.
//!
//! Data that cannot be decoded is fetched once more, bypassing all caches: a bit flip on the
//! network or on a disk costs a request, and damage in the store is still an error.

use shardmill_formats::table::{Around, TableError, TableFile, Wrapped};
use shardmill_storage::{is_remote, with_fresh_bytes};
use std::sync::Arc;

#[derive(Debug)]
struct Refetched;

/// Opens a file, and reads from it, with one retry if it is remote.
pub(super) fn refetched<E: From<TableError>>(
    path: &str,
    open: impl Fn() -> Result<Arc<dyn TableFile>, TableError>,
) -> Result<Arc<dyn TableFile>, E> {
    if !is_remote(path) {
        return Ok(open()?);
    }
    Ok(Arc::new(Wrapped::new(twice(open)?, Refetched)))
}

fn twice<T>(mut read: impl FnMut() -> Result<T, TableError>) -> Result<T, TableError> {
    // Requests rejected by the store were already retried.
    match read() {
        Err(error) if error.of_store().is_none() => with_fresh_bytes(read),
        read => read,
    }
}

impl Around for Refetched {
    fn read<T>(
        &self,
        _file: &dyn TableFile,
        _block: usize,
        read: impl FnMut() -> Result<T, TableError>,
    ) -> Result<T, TableError> {
        twice(read)
    }
}
