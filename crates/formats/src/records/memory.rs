//! A file in memory, for tests.

use shardmill_storage::{Error, Identity, RangeRead};
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Memory {
    path: String,
    bytes: Vec<u8>,
}

pub(crate) fn memory(path: &str, bytes: impl AsRef<[u8]>) -> Arc<dyn RangeRead> {
    Arc::new(Memory { path: path.to_owned(), bytes: bytes.as_ref().to_vec() })
}

impl RangeRead for Memory {
    fn path(&self) -> &str {
        &self.path
    }

    fn identity(&self) -> Identity {
        Identity { size: self.bytes.len() as u64, modified_ns: 0 }
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        let len = buffer.len();
        let short = || Error::ShortRead {
            path: self.path.clone(),
            offset,
            len,
            end: self.bytes.len() as u64,
        };
        let start = usize::try_from(offset).map_err(|_| short())?;
        let end = start.checked_add(len).ok_or_else(short)?;
        buffer.copy_from_slice(self.bytes.get(start..end).ok_or_else(short)?);
        Ok(())
    }
}
