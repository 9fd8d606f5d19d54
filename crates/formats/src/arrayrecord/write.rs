//! Assembles files from chunks: inserts block headers, and adds footer, padding and postscript.
//!
//! Compression is separate ([`ChunkEncoder`]), so that threads can share it. The invariant: the
//! output depends only on the records and the options.

use super::block::{BLOCK, BLOCK_HEADER, CHUNK_HEADER, block_header, chunk_end};
use super::chunk::{ChunkHeader, PADDING, SIGNATURE, SIMPLE, TRANSPOSED};
use super::decode::MAX_DECODED_BYTES;
use super::encoder::Compressor;
use super::index::{ChunkEntry, Metadata, write_postscript};
use super::{Compression, Error, Fault, WriterOptions, simple, transposed};
use std::io::{self, Write};

const POSTSCRIPT_COPIES: usize = 3;

/// Chunks that are ready to be written, one after another.
#[derive(Debug, Default)]
pub struct EncodedChunks {
    /// Header and data of each.
    bytes: Vec<u8>,
    headers: Vec<ChunkHeader>,
}

impl EncodedChunks {
    /// A chunk without records.
    fn of(kind: u8, data: &[u8]) -> Self {
        let header = ChunkHeader::of(kind, 0, 0, data);
        Self { bytes: [header.to_bytes().as_slice(), data].concat(), headers: vec![header] }
    }

    /// With capacity for this many bytes.
    #[must_use]
    pub fn with_capacity(bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes), headers: Vec::new() }
    }
}

type Encode =
    fn(&[u64], &[u8], &mut Compressor, &mut (Vec<u8>, Vec<u8>), &mut Vec<u8>) -> Result<(), Fault>;

/// Encodes chunks of records. Each thread has its own encoder.
#[derive(Debug)]
pub struct ChunkEncoder {
    compressor: Compressor,
    is_transposed: bool,
    scratch: (Vec<u8>, Vec<u8>),
}

impl ChunkEncoder {
    /// # Errors
    /// When the codec rejects its settings.
    pub fn new(options: &WriterOptions) -> Result<Self, Fault> {
        let is_transposed = options.transpose_bucket_size.is_some();
        Ok(Self {
            compressor: Compressor::new(options.compression)?,
            is_transposed,
            scratch: Default::default(),
        })
    }

    /// Appends a chunk to `out`. `values` are its concatenated records.
    ///
    /// # Errors
    /// When the data is too large for the codec; `out` must then be discarded.
    pub fn encode(
        &mut self,
        lengths: &[u64],
        values: &[u8],
        out: &mut EncodedChunks,
    ) -> Result<(), Fault> {
        let (kind, encode) = if self.is_transposed {
            (TRANSPOSED, transposed::encode as Encode)
        } else {
            (SIMPLE, simple::encode as Encode)
        };
        // The readers of this crate would reject it.
        if values.len() as u64 > MAX_DECODED_BYTES {
            return Err(Fault::TooLarge {
                what: "size of the records of a chunk",
                value: values.len() as u64,
                limit: MAX_DECODED_BYTES,
            });
        }
        let begin = out.bytes.len();
        out.bytes.extend_from_slice(&[0; 40]);
        encode(lengths, values, &mut self.compressor, &mut self.scratch, &mut out.bytes)?;
        let (place, data) = out
            .bytes
            .get_mut(begin..)
            .and_then(<[u8]>::split_first_chunk_mut::<40>)
            .ok_or(Fault::Malformed("no header"))?;
        let header = ChunkHeader::of(kind, lengths.len() as u64, values.len() as u64, data);
        *place = header.to_bytes();
        out.headers.push(header);
        Ok(())
    }
}

/// A file that is being written.
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
    /// Starts a file in `out`, which is empty. `path` is used in messages.
    ///
    /// # Errors
    /// When `out` fails.
    pub fn new(out: W, path: &str, options: WriterOptions) -> Result<Self, Error> {
        let mut writer = Self {
            out,
            path: path.to_owned(),
            options,
            position: 0,
            entries: Vec::new(),
            num_records: 0,
        };
        writer.write(&EncodedChunks::of(SIGNATURE, &[]), false)?;
        Ok(writer)
    }

    #[must_use]
    pub fn num_records(&self) -> u64 {
        self.num_records
    }

    /// # Errors
    /// When `out` fails.
    pub fn append(&mut self, chunks: &EncodedChunks) -> Result<(), Error> {
        self.write(chunks, true)
    }

    /// Writes the footer and returns `out`.
    ///
    /// # Errors
    /// When `out` fails.
    pub fn finish(mut self) -> Result<W, Error> {
        let footer_offset = self.position;
        let footer = self.footer()?;
        self.write(&footer, false)?;
        self.pad()?;
        let (mut lengths, mut values) = (Vec::new(), Vec::new());
        for _ in 0..POSTSCRIPT_COPIES {
            let start = values.len();
            write_postscript(footer_offset, &mut values);
            lengths.push((values.len() - start) as u64);
        }
        let postscript = self.encode(Compression::None, &lengths, &values)?;
        self.write(&postscript, false)?;
        self.pad()?;
        Ok(self.out)
    }

    fn footer(&self) -> Result<EncodedChunks, Error> {
        let (mut lengths, mut values) = (Vec::with_capacity(self.entries.len() + 1), Vec::new());
        let metadata = Metadata {
            num_chunks: self.entries.len() as u64,
            num_records: self.num_records,
            writer_options: Some(self.options.recorded()),
        };
        metadata.write(&mut values);
        lengths.push(values.len() as u64);
        for entry in &self.entries {
            let start = values.len();
            entry.write(&mut values);
            lengths.push((values.len() - start) as u64);
        }
        self.encode(self.options.compression, &lengths, &values)
    }

    fn encode(
        &self,
        compression: Compression,
        lengths: &[u64],
        values: &[u8],
    ) -> Result<EncodedChunks, Error> {
        let mut chunks = EncodedChunks::default();
        ChunkEncoder::new(&WriterOptions {
            compression,
            transpose_bucket_size: None,
            ..self.options.clone()
        })
        .and_then(|mut encoder| encoder.encode(lengths, values, &mut chunks))
        .map_err(|fault| Error::Encode {
            path: self.path.clone(),
            chunk: self.entries.len() as u64,
            fault,
        })?;
        Ok(chunks)
    }

    /// Writes zeros up to the next block, as a separate chunk.
    fn pad(&mut self) -> Result<(), Error> {
        let into_block = self.position % BLOCK;
        if into_block == 0 {
            return Ok(());
        }
        let to_boundary = BLOCK - into_block;
        // A block that begins inside of the padding takes its header from it.
        let len = if to_boundary < CHUNK_HEADER {
            to_boundary + BLOCK - BLOCK_HEADER
        } else {
            to_boundary
        };
        let zeros = vec![0; usize::try_from(len - CHUNK_HEADER).unwrap_or_default()];
        self.write(&EncodedChunks::of(PADDING, &zeros), false)
    }

    /// The footer lists content chunks only.
    fn write(&mut self, chunks: &EncodedChunks, is_content: bool) -> Result<(), Error> {
        // Bytes between two block headers are written in one piece, whether they belong to one
        // chunk or many.
        let (mut piece, mut behind) = (0, 0);
        for header in &chunks.headers {
            let begin = self.position;
            let too_long = || self.failed(io::Error::other("a file has at most 2^64 bytes"));
            let end =
                chunk_end(begin, header.data_size, header.num_records).ok_or_else(too_long)?;
            if is_content {
                self.entries.push(ChunkEntry {
                    offset: begin,
                    decoded_size: header.decoded_size,
                    num_records: header.num_records,
                });
                self.num_records += header.num_records;
            }
            let mut left = usize::try_from(header.data_size + CHUNK_HEADER).unwrap_or(usize::MAX);
            while left > 0 {
                if self.position.is_multiple_of(BLOCK) {
                    self.put(chunks.bytes.get(piece..behind).unwrap_or_default())?;
                    piece = behind;
                    self.put_block_header(begin, end)?;
                }
                let part = left.min(self.to_boundary());
                self.position += part as u64;
                behind += part;
                left -= part;
            }
            let must_pad = is_content && self.options.pad_to_block_boundary;
            if self.position < end || must_pad {
                self.put(chunks.bytes.get(piece..behind).unwrap_or_default())?;
                piece = behind;
                self.put_zeros(begin, end)?;
            }
            if must_pad {
                self.pad()?;
            }
        }
        self.put(chunks.bytes.get(piece..behind).unwrap_or_default())
    }

    /// A chunk has a position for each of its records, even if that is more than its data needs.
    fn put_zeros(&mut self, begin: u64, end: u64) -> Result<(), Error> {
        let zeros = [0; 4096];
        while self.position < end {
            if self.position.is_multiple_of(BLOCK) {
                self.put_block_header(begin, end)?;
            }
            let len = usize::try_from(end.saturating_sub(self.position))
                .unwrap_or(usize::MAX)
                .min(self.to_boundary())
                .min(zeros.len());
            self.put(zeros.get(..len).unwrap_or_default())?;
            self.position += len as u64;
        }
        Ok(())
    }

    fn put_block_header(&mut self, begin: u64, end: u64) -> Result<(), Error> {
        self.put(&block_header(self.position, begin, end))?;
        self.position += BLOCK_HEADER;
        Ok(())
    }

    fn to_boundary(&self) -> usize {
        usize::try_from(BLOCK - self.position % BLOCK).unwrap_or(usize::MAX)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.out.write_all(bytes).map_err(|source| self.failed(source))
    }

    fn failed(&self, source: io::Error) -> Error {
        Error::Write { path: self.path.clone(), offset: self.position, source }
    }
}
