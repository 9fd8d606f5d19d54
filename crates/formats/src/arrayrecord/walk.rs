//! Walks all chunks of a file, including those without records, for tools
//! that check or describe a file.
//!
//! The index is not needed. The invariant: one chunk is in memory at a time, and a chunk that
//! claims to be longer than the file is not read.

use super::block::{
    CHUNK_HEADER, block_header, chunk_end, data_end, has_boundary, take_out_headers,
};
use super::chunk::{ChunkHeader, PADDING, SIGNATURE, SIMPLE, TRANSPOSED};
use super::codec::room;
use super::decode::{Framed, Verify};
use super::index::FIRST_CHUNK;
use super::{Codec, Fault, Records, Scratch};
use crate::limit::DecodeLimit;
use shardmill_storage::{Error as StorageError, RangeRead};
use std::sync::Arc;

/// File metadata of Riegeli, which is not a user's record.
const METADATA: u8 = b'm';

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChunkKind {
    Signature,
    Metadata,
    Padding,
    /// Of the user, or the footer or the postscript.
    Records {
        codec: Codec,
        is_transposed: bool,
    },
    Unknown,
}

/// The content of a chunk.
#[derive(Debug, Clone, Copy)]
pub struct WalkedChunk {
    pub begin: u64,
    pub end: u64,
    pub kind: ChunkKind,
    pub num_records: u64,
    pub decoded_size: u64,
}

/// Why a chunk cannot be read.
#[derive(Debug)]
pub struct Damage {
    pub begin: u64,
    /// Begin of the following chunk, if the header states it.
    pub end: Option<u64>,
    pub fault: Fault,
}

/// The result at one position.
pub type Walked = Result<WalkedChunk, Damage>;

#[derive(Debug)]
pub struct ChunkWalk {
    object: Arc<dyn RangeRead>,
    scratch: Scratch,
}

impl ChunkWalk {
    #[must_use]
    pub fn new(object: Arc<dyn RangeRead>) -> Self {
        Self { object, scratch: Scratch::default() }
    }

    /// Reads the chunk at `begin`, verifies all of its hashes, decodes its records, and calls
    /// `each` with them.
    ///
    /// # Errors
    /// When the bytes cannot be read. Damage is returned as a value.
    pub fn read(
        &mut self,
        begin: u64,
        each: impl FnOnce(Records<'_>),
    ) -> Result<Walked, StorageError> {
        let header = match self.header(begin)? {
            Ok(header) => header,
            Err(fault) => return Ok(Err(Damage { begin, end: None, fault })),
        };
        let file_size = self.object.size();
        let end =
            chunk_end(begin, header.data_size, header.num_records).filter(|end| *end <= file_size);
        let Some((end, len)) = end.and_then(|end| Some((end, usize::try_from(end - begin).ok()?)))
        else {
            let fault = Fault::TooLarge {
                what: "size of the chunk's data",
                value: header.data_size,
                limit: file_size - begin,
            };
            return Ok(Err(Damage { begin, end: None, fault }));
        };
        let Scratch { raw, decoder } = &mut self.scratch;
        let raw = room(raw, len);
        self.object.read_at(begin, raw)?;
        let result = check_blocks(begin, raw, end).and_then(|()| {
            let framed = Framed {
                begin,
                raw,
                file_size,
                verify: Verify::Full,
                limit: DecodeLimit::default(),
            };
            let (_header, data) = framed.open(&mut decoder.stripped)?;
            let kind = kind_of(&header, data)?;
            if matches!(kind, ChunkKind::Records { .. }) {
                each(framed.records(None, decoder)?);
            }
            Ok(kind)
        });
        self.scratch.shrink();
        let ChunkHeader { num_records, decoded_size, .. } = header;
        Ok(match result {
            Ok(kind) => Ok(WalkedChunk { begin, end, kind, num_records, decoded_size }),
            Err(fault) => Err(Damage { begin, end: Some(end), fault }),
        })
    }

    fn header(&mut self, begin: u64) -> Result<Result<ChunkHeader, Fault>, StorageError> {
        let file_size = self.object.size();
        let Some(end) = data_end(begin, CHUNK_HEADER).filter(|end| *end <= file_size) else {
            return Ok(Err(Fault::Truncated {
                what: "chunk header",
                needed: CHUNK_HEADER,
                found: file_size.saturating_sub(begin),
            }));
        };
        let raw = room(&mut self.scratch.raw, usize::try_from(end - begin).unwrap_or_default());
        self.object.read_at(begin, raw)?;
        let stripped = &mut self.scratch.decoder.stripped;
        stripped.clear();
        // Block headers are checked later: once the chunk's own hash is verified, the position of
        // the next chunk is known.
        let taken = take_out_headers(begin, raw, false, |part| stripped.extend_from_slice(part));
        Ok(taken.and_then(|_end| {
            ChunkHeader::parse(
                stripped.first_chunk::<40>().ok_or(Fault::Malformed("chunk header"))?,
                true,
            )
        }))
    }
}

/// Whether `bytes` begin as every file does: with the header of the first block
/// and the signature chunk.
#[must_use]
pub fn is_signature(bytes: &[u8]) -> bool {
    let end = FIRST_CHUNK;
    let block = block_header(0, 0, end);
    bytes
        .strip_prefix(&block)
        .is_some_and(|rest| rest.starts_with(&ChunkHeader::of(SIGNATURE, 0, 0, &[]).to_bytes()))
}

/// Block headers also occur after the data, where records need more positions than their bytes.
fn check_blocks(begin: u64, raw: &[u8], end: u64) -> Result<(), Fault> {
    if !has_boundary(begin, end) {
        return Ok(());
    }
    match take_out_headers(begin, raw, true, |_content| {})? {
        Some(stated) if stated != end => {
            Err(Fault::Malformed("header of a block disagrees with the chunk about its end"))
        }
        _ => Ok(()),
    }
}

fn kind_of(header: &ChunkHeader, data: &[u8]) -> Result<ChunkKind, Fault> {
    match header.kind {
        SIMPLE | TRANSPOSED => {
            let codec = Codec::of(*data.first().ok_or(Fault::Malformed("chunk without data"))?)?;
            Ok(ChunkKind::Records { codec, is_transposed: header.kind == TRANSPOSED })
        }
        SIGNATURE => Ok(ChunkKind::Signature),
        PADDING => Ok(ChunkKind::Padding),
        METADATA => Ok(ChunkKind::Metadata),
        _ => Ok(ChunkKind::Unknown),
    }
}
