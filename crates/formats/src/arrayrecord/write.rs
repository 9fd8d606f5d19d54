//! Files from chunks: headers of blocks between their bytes, then footer, padding and postscript.
//!
//! Compression is apart ([`ChunkEncoder`]), so that threads can share it. The invariant: what is written depends on the records and the options alone.

use super::block::{BLOCK, BLOCK_HEADER, CHUNK_HEADER, block_header, chunk_end};
use super::chunk::{ChunkHeader, PADDING, SIGNATURE, SIMPLE, TRANSPOSED};
use super::encoder::Compressor;
use super::index::{ChunkEntry, Metadata, write_postscript};
use super::{Compression, Error, Fault, WriterOptions, simple, transposed};
use std::io::{self, Write};

const POSTSCRIPT_COPIES: usize = 3;

/// A chunk that is ready to be written.
#[derive(Debug)]
pub struct EncodedChunk {
    header: ChunkHeader,
    data: Vec<u8>,
}

type Encode = fn(&[u64], &[u8], &mut Compressor, &mut (Vec<u8>, Vec<u8>), &mut Vec<u8>) -> Result<(), Fault>;

/// Makes chunks of records. Each thread has one of its own.
#[derive(Debug)]
pub struct ChunkEncoder {
    compressor: Compressor,
    is_transposed: bool,
    scratch: (Vec<u8>, Vec<u8>),
}

impl ChunkEncoder {
    /// # Errors
    /// When the codec refuses its settings.
    pub fn new(options: &WriterOptions) -> Result<Self, Fault> {
        let is_transposed = options.transpose_bucket_size.is_some();
        Ok(Self { compressor: Compressor::new(options.compression)?, is_transposed, scratch: Default::default() })
    }

    /// `values` are the records, one behind the other.
    ///
    /// # Errors
    /// When the codec cannot hold so much data.
    pub fn encode(&mut self, lengths: &[u64], values: &[u8]) -> Result<EncodedChunk, Fault> {
        let mut data = Vec::with_capacity(values.len() + values.len() / 8 + 64);
        let (kind, encode) = if self.is_transposed { (TRANSPOSED, transposed::encode as Encode) } else { (SIMPLE, simple::encode as Encode) };
        encode(lengths, values, &mut self.compressor, &mut self.scratch, &mut data)?;
        Ok(EncodedChunk { header: ChunkHeader::of(kind, lengths.len() as u64, values.len() as u64, &data), data })
    }
}

/// Where a file stands that is being written.
#[derive(Debug)]
pub struct FileWriter<W> {
    out: W,
    path: String,
    options: WriterOptions,
    position: u64,
    entries: Vec<ChunkEntry>,
    num_records: u64,
}

impl<W: Write> FileWriter<W> {
    /// Begins a file in `out`, which is empty. `path` is for messages.
    ///
    /// # Errors
    /// When `out` fails.
    pub fn new(out: W, path: &str, options: WriterOptions) -> Result<Self, Error> {
        let mut writer = Self { out, path: path.to_owned(), options, position: 0, entries: Vec::new(), num_records: 0 };
        writer.write_chunk(&ChunkHeader::of(SIGNATURE, 0, 0, &[]), &[])?;
        Ok(writer)
    }

    #[must_use]
    pub fn num_records(&self) -> u64 {
        self.num_records
    }

    /// # Errors
    /// When `out` fails.
    pub fn append(&mut self, chunk: &EncodedChunk) -> Result<(), Error> {
        let ChunkHeader { num_records, decoded_size, .. } = chunk.header;
        self.entries.push(ChunkEntry { offset: self.position, decoded_size, num_records });
        self.num_records += num_records;
        self.write_chunk(&chunk.header, &chunk.data)?;
        if self.options.pad_to_block_boundary {
            self.pad()?;
        }
        Ok(())
    }

    /// Writes what makes the file readable, and gives `out` back.
    ///
    /// # Errors
    /// When `out` fails.
    pub fn finish(mut self) -> Result<W, Error> {
        let footer_offset = self.position;
        let footer = self.footer()?;
        self.write_chunk(&footer.header, &footer.data)?;
        self.pad()?;
        let (mut lengths, mut values) = (Vec::new(), Vec::new());
        for _ in 0..POSTSCRIPT_COPIES {
            let start = values.len();
            write_postscript(footer_offset, &mut values);
            lengths.push((values.len() - start) as u64);
        }
        let postscript = self.encode(Compression::None, &lengths, &values)?;
        self.write_chunk(&postscript.header, &postscript.data)?;
        self.pad()?;
        Ok(self.out)
    }

    fn footer(&self) -> Result<EncodedChunk, Error> {
        let (mut lengths, mut values) = (Vec::with_capacity(self.entries.len() + 1), Vec::new());
        let metadata =
            Metadata { num_chunks: self.entries.len() as u64, num_records: self.num_records, writer_options: Some(self.options.recorded()) };
        metadata.write(&mut values);
        lengths.push(values.len() as u64);
        for entry in &self.entries {
            let start = values.len();
            entry.write(&mut values);
            lengths.push((values.len() - start) as u64);
        }
        self.encode(self.options.compression, &lengths, &values)
    }

    fn encode(&self, compression: Compression, lengths: &[u64], values: &[u8]) -> Result<EncodedChunk, Error> {
        ChunkEncoder::new(&WriterOptions { compression, transpose_bucket_size: None, ..self.options.clone() })
            .and_then(|mut encoder| encoder.encode(lengths, values))
            .map_err(|fault| Error::Encode { path: self.path.clone(), chunk: self.entries.len() as u64, fault })
    }

    /// Zeros up to the next block, as a chunk of their own.
    fn pad(&mut self) -> Result<(), Error> {
        let into_block = self.position % BLOCK;
        if into_block == 0 {
            return Ok(());
        }
        let to_boundary = BLOCK - into_block;
        // A block that begins inside of the padding takes its header from it.
        let len = if to_boundary < CHUNK_HEADER { to_boundary + BLOCK - BLOCK_HEADER } else { to_boundary };
        let zeros = vec![0; usize::try_from(len - CHUNK_HEADER).unwrap_or_default()];
        self.write_chunk(&ChunkHeader::of(PADDING, 0, 0, &zeros), &zeros)
    }

    fn write_chunk(&mut self, header: &ChunkHeader, data: &[u8]) -> Result<(), Error> {
        let too_long = || io::Error::other("a file has at most 2^64 bytes");
        let begin = self.position;
        let end = chunk_end(begin, data.len() as u64, header.num_records).ok_or_else(too_long);
        let result = end.and_then(|end| {
            self.write_framed(&header.to_bytes(), begin, end)?;
            self.write_framed(data, begin, end)?;
            // A chunk has a position for each of its records, also where that is more than its data needs.
            while self.position < end {
                let zeros = [0; 4096];
                let to_boundary = BLOCK - self.position % BLOCK;
                let room = end - self.position - if self.position.is_multiple_of(BLOCK) { BLOCK_HEADER.min(end - self.position) } else { 0 };
                let len = usize::try_from(room.min(to_boundary)).unwrap_or(zeros.len()).min(zeros.len());
                self.write_framed(zeros.get(..len).unwrap_or_default(), begin, end)?;
            }
            Ok(())
        });
        result.map_err(|source| Error::Write { path: self.path.clone(), offset: self.position, source })
    }

    /// Bytes of the chunk from `begin` to `end`, with the headers of the blocks that begin among them.
    fn write_framed(&mut self, mut bytes: &[u8], begin: u64, end: u64) -> io::Result<()> {
        while !bytes.is_empty() {
            if self.position.is_multiple_of(BLOCK) {
                self.out.write_all(&block_header(self.position, begin, end))?;
                self.position += BLOCK_HEADER;
            }
            let to_boundary = usize::try_from(BLOCK - self.position % BLOCK).unwrap_or(usize::MAX);
            let (part, rest) = bytes.split_at(to_boundary.min(bytes.len()));
            self.out.write_all(part)?;
            self.position += part.len() as u64;
            bytes = rest;
        }
        Ok(())
    }
}
