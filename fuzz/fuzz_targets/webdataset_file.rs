//! Any bytes as an archive of samples, plain or compressed: every block has as many rows as it states, or an error says which member is at fault.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shardmill_formats::table::TableFile;
use shardmill_formats::tar::samples::WebDatasetFile;
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

fuzz_target!(|bytes: &[u8]| {
    let object: Arc<dyn RangeRead> = Arc::new(Memory(bytes.to_vec()));
    let Ok(file) = WebDatasetFile::open(object) else { return };
    for column in 0..file.schema().fields().len() {
        for (block, stated) in file.blocks().iter().enumerate() {
            if let Ok(rows) = file.read(block, &[column], None) {
                assert_eq!(rows.num_rows() as u64, stated.rows);
            }
        }
    }
});
