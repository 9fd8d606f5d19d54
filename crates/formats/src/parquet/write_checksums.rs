//! Adds page checksums, which the writer of the `parquet` crate omits.
//!
//! The crate passes each page to a [`PageStore`] as a header and then its data. This store hashes
//! the data and inserts the checksum into the header. The crate counted the shorter header, so
//! sizes and offsets of the column chunk are corrected before it is written. The invariant: footer
//! and offset index describe the written bytes; a header of unknown shape is an error, never a file
//! without checksums.

use bytes::{Buf, Bytes};
use parquet::arrow::arrow_writer::{
    ArrowColumnChunk, PageKey, PageStore, PageStoreArgs, PageStoreFactory,
};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::writer::SerializedRowGroupWriter;
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An `i32` in the field directly after the preceding one, in Thrift's compact protocol.
const NEXT_I32: u8 = 0x15;
const STRUCT: u8 = 0x0c;
/// `PageType::DICTIONARY_PAGE` as a zigzag number.
const DICTIONARY: u8 = 4;

/// Creates the stores of one file, and hands out their content.
#[derive(Debug, Default)]
pub(super) struct ChecksumStores {
    made: Mutex<Vec<(usize, ChunkPages)>>,
}

/// The pages of one column chunk, shared with the encoder that fills it.
#[derive(Debug, Clone, Default)]
pub(super) struct ChunkPages(Arc<Mutex<Pages>>);

#[derive(Debug, Default)]
struct Pages {
    /// Header and data of each page in turn, in encoding order.
    parts: Vec<Bytes>,
    resident: usize,
    /// Growth of the headers of data pages, in order.
    growth: Vec<usize>,
    /// Index of the dictionary's header, and its growth.
    dictionary: Option<(usize, usize)>,
}

impl ChecksumStores {
    /// The stores created since the last call, in column order.
    pub(super) fn take(&self) -> Vec<ChunkPages> {
        let mut made = std::mem::take(&mut *locked(&self.made));
        made.sort_by_key(|(column, _)| *column);
        made.into_iter().map(|(_, pages)| pages).collect()
    }
}

impl PageStoreFactory for ChecksumStores {
    fn create(&self, args: &PageStoreArgs<'_>) -> Result<Box<dyn PageStore>> {
        let pages = ChunkPages::default();
        locked(&self.made).push((args.column_index(), pages.clone()));
        Ok(Box::new(pages))
    }
}

impl PageStore for ChunkPages {
    fn put(&mut self, value: Bytes) -> Result<PageKey> {
        let mut pages = locked(&self.0);
        let index = pages.parts.len();
        pages.resident += value.len();
        if index % 2 == 1 {
            pages.seal(&value)?;
        }
        pages.parts.push(value);
        Ok(PageKey::new(index as u64))
    }

    fn take(&mut self, key: PageKey) -> Result<Bytes> {
        let mut pages = locked(&self.0);
        let part = usize::try_from(key.get())
            .ok()
            .and_then(|index| pages.parts.get_mut(index))
            .map(std::mem::take);
        let part =
            part.ok_or_else(|| ParquetError::General("a page that was not stored".to_owned()))?;
        pages.resident = pages.resident.saturating_sub(part.len());
        Ok(part)
    }

    fn memory_size(&self) -> usize {
        locked(&self.0).resident
    }
}

impl Pages {
    /// Inserts the checksum of `data` into the last header.
    fn seal(&mut self, data: &[u8]) -> Result<()> {
        let index = self.parts.len() - 1;
        let Some(header) = self.parts.last_mut() else { return Ok(()) };
        let (sealed, is_dictionary) =
            with_checksum(header, crc32fast::hash(data)).ok_or_else(foreign_header)?;
        let growth = sealed.len() - header.len();
        *header = sealed.into();
        self.resident += growth;
        if is_dictionary {
            self.dictionary = Some((index, growth));
        } else {
            self.growth.push(growth);
        }
        Ok(())
    }

    /// Corrects sizes and the offsets of data pages for the inserted checksums.
    fn correct(&self, close: &mut ColumnCloseResult) -> Result<()> {
        let growth =
            self.growth.iter().sum::<usize>() + self.dictionary.map_or(0, |(_, growth)| growth);
        close.bytes_written += growth as u64;
        let growth = i64::try_from(growth)?;
        let (compressed, uncompressed) = (
            close.metadata.compressed_size() + growth,
            close.metadata.uncompressed_size() + growth,
        );
        let builder = close.metadata.clone().into_builder();
        close.metadata = builder
            .set_total_compressed_size(compressed)
            .set_total_uncompressed_size(uncompressed)
            .build()?;
        if let Some(index) = &mut close.offset_index {
            if index.page_locations.len() != self.growth.len() {
                return Err(ParquetError::General(
                    "the offset index does not list the pages".to_owned(),
                ));
            }
            let mut moved = 0;
            for (place, growth) in index.page_locations.iter_mut().zip(&self.growth) {
                place.offset += moved;
                place.compressed_page_size += i32::try_from(*growth)?;
                moved += i64::try_from(*growth)?;
            }
        }
        Ok(())
    }

    /// All pages, with the dictionary first.
    fn take_parts(&mut self, dictionary: usize) -> Parts {
        self.resident = 0;
        let mut parts = std::mem::take(&mut self.parts);
        let end = (dictionary + 2).min(parts.len());
        parts.get_mut(..end).unwrap_or_default().rotate_right(2.min(end));
        Parts(parts)
    }
}

/// A column chunk in pieces. Joining them would copy all pages again.
struct Parts(Vec<Bytes>);

impl Length for Parts {
    fn len(&self) -> u64 {
        self.0.iter().map(|part| part.len() as u64).sum()
    }
}

impl ChunkReader for Parts {
    type T = PartsRead;

    fn get_read(&self, start: u64) -> Result<PartsRead> {
        let mut skipped = usize::try_from(start)?;
        let mut parts = VecDeque::from(self.0.clone());
        while let Some(first) = parts.front_mut() {
            let step = skipped.min(first.len());
            first.advance(step);
            skipped -= step;
            if !first.is_empty() {
                break;
            }
            parts.pop_front();
        }
        Ok(PartsRead(parts))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        let mut bytes = vec![0; length];
        self.get_read(start)?.read_exact(&mut bytes)?;
        Ok(bytes.into())
    }
}

struct PartsRead(VecDeque<Bytes>);

impl Read for PartsRead {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let mut filled = 0;
        while let (Some(first), Some(rest)) =
            (self.0.front_mut(), into.get_mut(filled..).filter(|rest| !rest.is_empty()))
        {
            let len = rest.len().min(first.len());
            first.split_to(len).copy_to_slice(rest.get_mut(..len).unwrap_or_default());
            filled += len;
            if first.is_empty() {
                self.0.pop_front();
            }
        }
        Ok(filled)
    }
}

impl ChunkPages {
    /// Appends the chunk encoded into this store to the row group.
    pub(super) fn append<W: Write + Send>(
        &self,
        mut chunk: ArrowColumnChunk,
        row_group: &mut SerializedRowGroupWriter<'_, W>,
    ) -> Result<()> {
        let mut pages = locked(&self.0);
        pages.correct(chunk.close_mut())?;
        let Some((dictionary, _)) = pages.dictionary else {
            drop(pages);
            return chunk.append_to_row_group(row_group);
        };
        // The chunk counted its dictionary without the checksum, and would
        // misplace all pages after it.
        let dictionary_len = pages.parts.iter().skip(dictionary).take(2).map(Bytes::len).sum();
        let close = chunk.close().clone().update_dictionary_location(dictionary_len)?;
        let parts = pages.take_parts(dictionary);
        drop(pages);
        row_group.append_column(&parts, close)
    }
}

/// The header with the checksum as its field 4, and whether it belongs to a dictionary.
///
/// Fields 1 to 3 (type, two sizes) are always present. The next field is the structure for the page
/// type, whose number is encoded as the difference to the preceding field.
fn with_checksum(header: &[u8], checksum: u32) -> Option<(Vec<u8>, bool)> {
    let mut at = 0;
    for _ in 0..3 {
        if header.get(at) != Some(&NEXT_I32) {
            return None;
        }
        let number = header.get(at + 1..)?;
        at += 2 + number.iter().position(|byte| *byte < 0x80)?;
    }
    let next = *header.get(at)?;
    let distance =
        (next >> 4).checked_sub(1).filter(|distance| *distance > 0 && next & 0x0f == STRUCT)?;
    let mut sealed = Vec::with_capacity(header.len() + 6);
    sealed.extend_from_slice(header.get(..at)?);
    sealed.push(NEXT_I32);
    // The checksum as a signed number, in zigzag encoding.
    let mut number = (checksum << 1) ^ if checksum >> 31 == 1 { u32::MAX } else { 0 };
    loop {
        let [low, ..] = number.to_le_bytes();
        number >>= 7;
        if number == 0 {
            sealed.push(low & 0x7f);
            break;
        }
        sealed.push(low | 0x80);
    }
    sealed.push(distance << 4 | STRUCT);
    sealed.extend_from_slice(header.get(at + 1..)?);
    Some((sealed, header.get(1) == Some(&DICTIONARY)))
}

fn foreign_header() -> ParquetError {
    ParquetError::General("a page header without room for a checksum".to_owned())
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
