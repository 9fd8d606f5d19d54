//! Any bytes as an ORC file: it is refused, or every block has as many rows as it states.
//!
//! The decoder has panics of its own, which `formats::orc` catches; so a panic counts here only when it gets through to the top. Hangs and allocations
//! beyond the limit count always.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shardmill_formats::orc::OrcFile;
use shardmill_formats::table::TableFile;
use shardmill_storage::{Error, Identity, RangeRead};
use std::sync::Arc;

#[derive(Debug)]
struct Memory(Vec<u8>);

impl RangeRead for Memory {
    fn path(&self) -> &str {
        "memory"
    }

    fn identity(&self) -> Identity {
        Identity { size: self.0.len() as u64, modified_ns: 0 }
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        let short = || Error::ShortRead { path: "memory".to_owned(), offset, len: buffer.len(), end: offset };
        let start = usize::try_from(offset).map_err(|_| short())?;
        let end = start.checked_add(buffer.len()).ok_or_else(short)?;
        buffer.copy_from_slice(self.0.get(start..end).ok_or_else(short)?);
        Ok(())
    }
}

fuzz_target!(
    init: {
        if std::env::var_os("SHARDMILL_FUZZ_VERBOSE").is_none() {
            std::panic::set_hook(Box::new(|_caught_or_fatal| {}));
        }
    },
    |bytes: &[u8]| {
        let Ok(file) = OrcFile::open(Arc::new(Memory(bytes.to_vec()))) else { return };
        let columns: Vec<usize> = (0..file.schema().fields().len()).collect();
        for column in &columns {
            file.statistics(*column);
        }
        for (block, stated) in file.blocks().iter().enumerate() {
            if let Ok(rows) = file.read(block, &columns, None) {
                assert_eq!(rows.num_rows() as u64, stated.rows);
            }
        }
    }
);
