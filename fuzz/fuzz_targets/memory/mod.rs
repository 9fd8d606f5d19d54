//! An input as a file, and what holds of any file that is read as a table.
#![allow(dead_code, reason = "each target uses a part of it")]

use shardmill_formats::table::TableFile;
use shardmill_storage::{Error, Identity, RangeRead};
use std::sync::Arc;

/// What a value may unpack to: far less than the memory that a run has.
pub const LIMIT: u64 = 64 << 20;

#[derive(Debug)]
pub struct Memory {
    pub path: &'static str,
    pub bytes: Vec<u8>,
}

pub fn file(bytes: &[u8]) -> Arc<Memory> {
    Arc::new(Memory { path: "memory", bytes: bytes.to_vec() })
}

/// Reads every block, which has as many rows as it states, or an error where there may be one.
/// Gives how many could be read.
pub fn read_blocks(file: &dyn TableFile, columns: &[usize], may_fail: bool) -> usize {
    let mut count = 0;
    for (block, stated) in file.blocks().iter().enumerate() {
        match file.read(block, columns, None) {
            Ok(rows) => assert_eq!(rows.num_rows() as u64, stated.rows),
            Err(error) => {
                assert!(may_fail, "{error}");
                continue;
            }
        }
        count += 1;
    }
    count
}

pub fn all_columns(file: &dyn TableFile) -> Vec<usize> {
    (0..file.schema().fields().len()).collect()
}

/// Panics that a decoder has of its own and that `formats` catches are not printed.
pub fn silence_panics() {
    if std::env::var_os("SHARDMILL_FUZZ_VERBOSE").is_none() {
        std::panic::set_hook(Box::new(|_caught_or_fatal| {}));
    }
}

impl RangeRead for Memory {
    fn path(&self) -> &str {
        self.path
    }

    fn identity(&self) -> Identity {
        Identity { size: self.bytes.len() as u64, modified_ns: 0 }
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        let short = || Error::ShortRead {
            path: self.path.to_owned(),
            offset,
            len: buffer.len(),
            end: offset,
        };
        let start = usize::try_from(offset).map_err(|_| short())?;
        let end = start.checked_add(buffer.len()).ok_or_else(short)?;
        buffer.copy_from_slice(self.bytes.get(start..end).ok_or_else(short)?);
        Ok(())
    }
}
