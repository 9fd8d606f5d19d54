//! Any bytes as an MDS shard, plain and compressed, and as an index: rows, each block with as many as it states, or an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shardmill_formats::mds::{Index, MdsFile, MdsOptions};
use shardmill_formats::table::TableFile;
use shardmill_storage::{Error, Identity, RangeRead};
use std::sync::Arc;

#[derive(Debug)]
struct Memory(&'static str, Vec<u8>);

impl RangeRead for Memory {
    fn path(&self) -> &str {
        self.0
    }

    fn identity(&self) -> Identity {
        Identity { size: self.1.len() as u64, modified_ns: 0 }
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        let short = || Error::ShortRead { path: self.0.to_owned(), offset, len: buffer.len(), end: offset };
        let start = usize::try_from(offset).map_err(|_| short())?;
        let end = start.checked_add(buffer.len()).ok_or_else(short)?;
        buffer.copy_from_slice(self.1.get(start..end).ok_or_else(short)?);
        Ok(())
    }
}

fuzz_target!(|bytes: &[u8]| {
    if let Ok(index) = Index::parse("index.json", bytes) {
        let text = index.to_json();
        assert_eq!(Index::parse("index.json", text.as_bytes()).expect("what was written is read"), index);
    }
    for path in ["x.mds", "x.mds.br", "x.mds.bz2", "x.mds.gz", "x.mds.snappy", "x.mds.zstd"] {
        let options = MdsOptions { has_pickle_bytes: true, ..MdsOptions::default() };
        let Ok(file) = MdsFile::open(Arc::new(Memory(path, bytes.to_vec())), &options) else { continue };
        let is_sound = file.verify().is_ok();
        let columns: Vec<usize> = (0..file.schema().fields().len()).collect();
        for (block, stated) in file.blocks().iter().enumerate() {
            match file.read(block, &columns, None) {
                Ok(rows) => assert!(is_sound && rows.num_rows() as u64 == stated.rows),
                Err(error) => assert!(!error.to_string().is_empty()),
            }
        }
    }
});
