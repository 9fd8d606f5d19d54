//! Helpers to write and read files in memory.

mod codecs;
mod files;
mod walk;

use super::*;
use shardmill_storage::{Identity, RangeRead};
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct Memory(pub Vec<u8>);

impl RangeRead for Memory {
    fn path(&self) -> &str {
        "memory"
    }

    fn identity(&self) -> Identity {
        Identity { size: self.0.len() as u64, modified_ns: 0 }
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> shardmill_storage::Result<()> {
        let short = || shardmill_storage::Error::ShortRead {
            path: "memory".to_owned(),
            offset,
            len: buffer.len(),
            end: offset,
        };
        let start = usize::try_from(offset).map_err(|_| short())?;
        let end = start.checked_add(buffer.len()).ok_or_else(short)?;
        buffer.copy_from_slice(self.0.get(start..end).ok_or_else(short)?);
        Ok(())
    }
}

pub(super) fn write(records: &[Vec<u8>], options: &WriterOptions) -> Vec<u8> {
    let mut writer = FileWriter::new(Vec::new(), "memory", options.clone()).unwrap();
    let mut encoder = ChunkEncoder::new(options).unwrap();
    for group in records.chunks(options.group_size as usize) {
        let lengths: Vec<u64> = group.iter().map(|record| record.len() as u64).collect();
        let mut chunks = EncodedChunks::default();
        encoder.encode(&lengths, &group.concat(), &mut chunks).unwrap();
        writer.append(&chunks).unwrap();
    }
    writer.finish().unwrap()
}

pub(super) fn open(bytes: Vec<u8>) -> Result<ArrayRecordFile, Error> {
    ArrayRecordFile::open(Arc::new(Memory(bytes)), Verify::Full)
}

pub(super) fn read_all(file: &ArrayRecordFile) -> Result<Vec<Vec<u8>>, Error> {
    let mut scratch = Scratch::default();
    let mut records = Vec::new();
    for chunk in 0..file.num_chunks() {
        records.extend(file.read_chunk(chunk, &mut scratch)?.iter().map(<[u8]>::to_vec));
    }
    Ok(records)
}
