//! An input as a file.

use shardmill_storage::{Error, Identity, RangeRead};

/// What a value may unpack to: far less than the memory that a run has.
pub const LIMIT: u64 = 64 << 20;

#[derive(Debug)]
pub struct Memory {
    pub path: &'static str,
    pub bytes: Vec<u8>,
}

impl RangeRead for Memory {
    fn path(&self) -> &str {
        self.path
    }

    fn identity(&self) -> Identity {
        Identity { size: self.bytes.len() as u64, modified_ns: 0 }
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        let short = || Error::ShortRead { path: self.path.to_owned(), offset, len: buffer.len(), end: offset };
        let start = usize::try_from(offset).map_err(|_| short())?;
        let end = start.checked_add(buffer.len()).ok_or_else(short)?;
        buffer.copy_from_slice(self.bytes.get(start..end).ok_or_else(short)?);
        Ok(())
    }
}
