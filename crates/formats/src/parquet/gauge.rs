//! Checks the pages of a read against a limit and their checksums before they are decompressed, and
//! decompresses those of Brotli.
//!
//! A page header states the decompressed size of the page, and the decoder trusts it. For gzip,
//! Brotli and LZ4 frames, the decoder ignores it. Brotli has no maximal ratio, so each page would
//! be decompressed twice; instead, the decoder is told that these pages are not compressed
//! (`footer::for_pages`). The invariant: the pages that are decoded together, and the values of
//! nested columns, stay within the budget. The budget is the limit, or the size stated in the
//! footer if the stored bytes make it plausible.

use super::thrift::PageFacts;
use crate::limit::{DecodeLimit, TooLarge};
use brotlic::BrotliDecoder;
use brotlic::decode::DecoderInfo;
use bytes::Bytes;
use flate2::bufread::MultiGzDecoder;
use parquet::basic::{Compression, Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::ColumnChunkMetaData;
use std::collections::HashMap;
use std::io::{self, Read};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Deflate and LZ4 cannot exceed this ratio.
const GZIP_RATIO: u64 = 1032;
const LZ4_RATIO: u64 = 255;

/// Pages up to this size are decompressed without a check, if their codec bounds the ratio.
const UNSEEN_BYTES: u64 = 256 << 20;

const LZ4_FRAME: [u8; 4] = [0x04, 0x22, 0x4d, 0x18];

/// The columns of a read, and the bytes of their pages so far.
#[derive(Debug)]
pub(super) struct Gauge {
    path: String,
    limit: DecodeLimit,
    budget: u64,
    chunks: Vec<Chunk>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct Chunk {
    bytes: Range<u64>,
    row_group: usize,
    column: String,
    codec: Compression,
    /// Size in memory of a value in a column whose number of values is not bounded
    /// by the number of rows.
    value_bytes: u64,
}

#[derive(Debug, Default)]
struct State {
    /// Page bodies that follow the headers read so far, by offset.
    pages: HashMap<u64, PageFacts>,
    spent: u64,
    refused: Option<TooLarge>,
}

impl Gauge {
    /// # Errors
    /// When a single value is too large because of its type.
    pub(super) fn new<'a>(
        path: &str,
        limit: DecodeLimit,
        chunks: impl Iterator<Item = (usize, &'a ColumnChunkMetaData)>,
    ) -> Result<Self, TooLarge> {
        let (mut stated, mut stored, mut found) = (0u64, 0u64, Vec::new());
        for (row_group, chunk) in chunks {
            let width = value_width(chunk);
            let place =
                || format!("row group {row_group}, column `{}`", chunk.column_path().string());
            limit.check(path, width, "its type has values of", place)?;
            let (start, len) = (
                unsigned(
                    chunk.dictionary_page_offset().unwrap_or_else(|| chunk.data_page_offset()),
                ),
                unsigned(chunk.compressed_size()),
            );
            let value_bytes = if chunk.column_descr().max_rep_level() > 0 { width + 4 } else { 0 };
            let values = unsigned(chunk.num_values()).saturating_mul(value_bytes);
            stated =
                stated.saturating_add(unsigned(chunk.uncompressed_size())).saturating_add(values);
            stored = stored.saturating_add(len);
            found.push(Chunk {
                bytes: start..start.saturating_add(len),
                row_group,
                column: chunk.column_path().string(),
                codec: chunk.compression(),
                value_bytes,
            });
        }
        found.sort_by_key(|chunk| chunk.bytes.start);
        let budget = limit.bytes().max(stated.min(limit.of_stored(stored)));
        Ok(Self { path: path.to_owned(), limit, budget, chunks: found, state: Mutex::default() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn chunk_at(&self, offset: u64) -> Option<&Chunk> {
        let after = self.chunks.partition_point(|chunk| chunk.bytes.start <= offset);
        self.chunks.get(after.checked_sub(1)?).filter(|chunk| chunk.bytes.contains(&offset))
    }

    /// Frees the budget of earlier pages: their batch was handed out.
    pub(super) fn begin_batch(&self) {
        self.state().spent = 0;
    }

    /// The reason for which the decoder was stopped; the decoder itself only passes on text.
    pub(super) fn refused(&self) -> Option<TooLarge> {
        self.state().refused.clone()
    }

    fn refuse(&self, offset: u64, what: &'static str, stated: u64, limit: u64) -> TooLarge {
        let place = match self.chunk_at(offset) {
            Some(chunk) => {
                format!("row group {}, column `{}`, byte {offset}", chunk.row_group, chunk.column)
            }
            None => format!("byte {offset}"),
        };
        TooLarge { path: self.path.clone(), place, what, stated, limit }
    }

    pub(super) fn stop(&self, refusal: &TooLarge) {
        self.state().refused = Some(refusal.clone());
    }

    /// Records a page header at `offset`, which is followed by its page.
    pub(super) fn announce(&self, offset: u64, facts: PageFacts) -> Result<(), TooLarge> {
        if facts.page_len > self.limit.bytes() {
            return Err(self.refuse(offset, "a page states", facts.page_len, self.limit.bytes()));
        }
        self.state().pages.insert(offset.saturating_add(facts.header_len), facts);
        Ok(())
    }

    /// The page at `offset` as the decoder gets it; a page of Brotli is decompressed. Bytes without
    /// a recorded header are not a page.
    ///
    /// # Errors
    /// When the page is too large or damaged.
    pub(super) fn enter(&self, offset: u64, stored: Bytes) -> Result<Bytes, ParquetError> {
        let refused = |what, stated, limit| {
            let refusal = self.refuse(offset, what, stated, limit);
            self.stop(&refusal);
            ParquetError::External(Box::new(refusal))
        };
        let chunk = self.chunk_at(offset);
        let codec = chunk.map_or(Compression::UNCOMPRESSED, |chunk| chunk.codec);
        let is_brotli = matches!(codec, Compression::BROTLI(_));
        let facts = self.state().pages.remove(&offset);
        let Some(facts) = facts else {
            return if is_brotli {
                Err(damaged("Page of Brotli without a valid header"))
            } else {
                Ok(stored)
            };
        };
        let values = facts.values.saturating_mul(chunk.map_or(0, |chunk| chunk.value_bytes));
        let spent = {
            let mut state = self.state();
            state.spent = state.spent.saturating_add(facts.page_len).saturating_add(values);
            state.spent
        };
        if spent > self.budget {
            return Err(refused("the pages that are decoded together have", spent, self.budget));
        }
        if facts.checksum.is_some_and(|checksum| checksum != crc32fast::hash(&stored)) {
            return Err(damaged("Page CRC checksum mismatch"));
        }
        let page = if is_brotli {
            brotli_page(stored, facts)?
        } else {
            let compressed = usize::try_from(facts.plain_len)
                .ok()
                .and_then(|plain| stored.get(plain..))
                .unwrap_or_default();
            let is_longer =
                is_longer(codec, compressed, facts.page_len.saturating_sub(facts.plain_len));
            (!is_longer).then_some(stored)
        };
        page.ok_or_else(|| {
            refused(
                "a page decompresses to more than the stated",
                facts.page_len,
                self.limit.bytes(),
            )
        })
    }
}

fn damaged(what: &str) -> ParquetError {
    ParquetError::General(what.to_owned())
}

/// The decompressed page; `None` if it is longer than stated.
fn brotli_page(stored: Bytes, facts: PageFacts) -> Result<Option<Bytes>, ParquetError> {
    if facts.plain_len == u64::MAX {
        return Ok(Some(stored));
    }
    let mut page = vec![0; usize::try_from(facts.page_len)?];
    let plain = usize::try_from(facts.plain_len)?;
    let parts = page.split_at_mut_checked(plain).zip(stored.split_at_checked(plain));
    let ((levels, values), (stored_levels, compressed)) =
        parts.ok_or_else(|| damaged("Page of Brotli with levels beyond its end"))?;
    levels.copy_from_slice(stored_levels);
    // Without values, there may be no stream.
    if !values.is_empty() {
        let found = BrotliDecoder::new()
            .decompress(compressed, values)
            .map_err(|error| damaged(&format!("Page of Brotli: {error}")))?;
        match found.info {
            DecoderInfo::NeedsMoreOutput => return Ok(None),
            DecoderInfo::Finished if found.bytes_written == values.len() => {}
            DecoderInfo::Finished | DecoderInfo::NeedsMoreInput => {
                return Err(damaged("Page of Brotli that is shorter than stated"));
            }
        }
    }
    Ok(Some(page.into()))
}

/// Whether a page decompresses to far more than stated, if the decoder
/// would only notice afterwards.
fn is_longer(codec: Compression, stored: &[u8], stated: u64) -> bool {
    let most = |ratio: u64| (stored.len() as u64).saturating_mul(ratio);
    let end = stated.saturating_add(1);
    // The decoder rejects data that cannot be decompressed.
    let counted = |reader: &mut dyn Read| {
        io::copy(&mut reader.take(end), &mut io::sink()).is_ok_and(|len| len == end)
    };
    match codec {
        Compression::GZIP(_) if most(GZIP_RATIO) > UNSEEN_BYTES => {
            counted(&mut MultiGzDecoder::new(stored))
        }
        Compression::LZ4 if stored.starts_with(&LZ4_FRAME) && most(LZ4_RATIO) > UNSEEN_BYTES => {
            counted(&mut lz4_flex::frame::FrameDecoder::new(stored))
        }
        _ => false,
    }
}

/// Size in memory of one value. Texts are views or offsets into a page.
pub(super) fn value_width(chunk: &ColumnChunkMetaData) -> u64 {
    match chunk.column_type() {
        Type::BOOLEAN => 1,
        Type::INT32 | Type::FLOAT => 4,
        Type::INT64 | Type::DOUBLE => 8,
        Type::INT96 => 12,
        Type::BYTE_ARRAY => 16,
        Type::FIXED_LEN_BYTE_ARRAY => {
            u64::try_from(chunk.column_descr().type_length()).unwrap_or_default()
        }
    }
}

/// A damaged footer may contain negative sizes.
pub(super) fn unsigned(value: i64) -> u64 {
    u64::try_from(value).unwrap_or_default()
}
