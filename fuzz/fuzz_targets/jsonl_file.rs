//! Any bytes as a JSON Lines file: types are found, and every block has as many rows as it states, or an error says where it does not.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shardmill_formats::jsonl::{JsonlFile, JsonlOptions, infer};
use shardmill_formats::records::BadLines;
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

fuzz_target!(|bytes: &[u8]| {
    let object: Arc<dyn RangeRead> = Arc::new(Memory(bytes.to_vec()));
    for bad_lines in [BadLines::Error, BadLines::Skip, BadLines::Null] {
        let options = JsonlOptions { bad_lines };
        let Ok(schema) = infer(&[Arc::clone(&object)], &options) else { continue };
        let Ok(file) = JsonlFile::open(Arc::clone(&object), &schema, options) else { continue };
        let columns: Vec<usize> = (0..schema.fields().len()).collect();
        for (block, stated) in file.blocks().iter().enumerate() {
            match file.read(block, &columns, None) {
                Ok(rows) => assert_eq!(rows.num_rows() as u64, stated.rows),
                Err(error) => assert!(bad_lines == BadLines::Error, "{error}"),
            }
        }
    }
});
