//! Wraps a file whose decoder may panic.

use super::wrapped::{Around, Wrapped};
use super::{TableError, TableFile};
use crate::caught::{Panicked, caught};
use std::sync::Arc;

/// The invariant: damage in a file never causes a panic in a caller.
#[derive(Debug)]
pub struct Guarded(());

impl Guarded {
    /// # Errors
    /// Those of `open`, and [`TableError::Decoder`] when it panics.
    pub fn open(
        path: &str,
        open: impl FnOnce() -> Result<Arc<dyn TableFile>, TableError>,
    ) -> Result<Arc<dyn TableFile>, TableError> {
        let inner = caught(open).unwrap_or_else(|Panicked| {
            Err(TableError::Decoder { path: path.to_owned(), row: 0 })
        })?;
        Ok(Arc::new(Wrapped::new(inner, Self(()))))
    }
}

impl Around for Guarded {
    fn read<T>(
        &self,
        file: &dyn TableFile,
        block: usize,
        read: impl FnMut() -> Result<T, TableError>,
    ) -> Result<T, TableError> {
        caught(read).unwrap_or_else(|Panicked| {
            let row = file.blocks().iter().take(block).map(|block| block.rows).sum();
            Err(TableError::Decoder { path: file.path().to_owned(), row })
        })
    }
}
