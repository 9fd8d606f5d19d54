//! Formats whose rows are stored one after another: threads encode batches, then whole rows are
//! written to files, in order.
//!
//! The invariant: the end of a file depends only on the rows: it is before the row that would
//! exceed the limit.

use crate::columns::{select, with_schema};
use crate::compressed::{CompressedFile, FileCompression};
use crate::encoded::Encoded;
use crate::file_set::FileSet;
use crate::follower::{Follower, Messages, Outcome};
use crate::pending_files::PendingFiles;
use crate::staged::Finished;
use crate::token_index::TokenIndex;
use crate::token_layout::{StoredTokens, TokenKind, TokenLayout};
use crate::weight::weight;
use crate::{Error, Result};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use shardmill_formats::jsonl::encode_lines;
use shardmill_formats::tar::{MemberStamp, SampleEncoder, end_of_archive, end_of_archive_len};
use std::sync::Arc;

/// Size in memory of the rows of one job.
const JOB_BYTES: u64 = 1 << 20;
/// Maximal number of pieces that wait for the disk.
const WAITING_PIECES: usize = 4;

/// The encoding of rows.
#[derive(Debug, Clone)]
pub(crate) enum Framing {
    Lines,
    Samples(SampleEncoder),
    Tokens(TokenLayout),
}

/// Whole rows.
#[derive(Debug, Default)]
struct Frames {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    first_row: u64,
    /// Of the first and the last sample.
    keys: Option<(String, String)>,
    /// Of tokens.
    index: TokenIndex,
}

/// What a file gets.
enum Piece {
    /// Bytes with the number of their rows.
    Rows(Vec<u8>, u64),
    /// Bytes in place of the first ones.
    Start(Vec<u8>),
}

pub(crate) struct FramedFiles {
    framing: Arc<Framing>,
    compression: FileCompression,
    schema: Option<SchemaRef>,
    queue: Option<Encoded<Result<Frames>>>,
    open: Option<OpenFile>,
    last_key: Option<String>,
}

struct OpenFile {
    path: String,
    sink: Sink,
    rows: u64,
    /// Size before compression.
    bytes: u64,
    /// Size of the header.
    header: u64,
    index: TokenIndex,
}

enum Sink {
    Thread(Follower<Piece, Finished>),
    Caller(CompressedFile),
}

impl Framing {
    pub(crate) fn samples(stamp: &MemberStamp, first_key: u64) -> Self {
        Self::Samples(SampleEncoder::new(stamp, first_key))
    }

    fn encode(&self, rows: &RecordBatch, first_row: u64) -> Result<Frames> {
        let mut frames = Frames { first_row, ..Frames::default() };
        let capacity = usize::try_from(weight(rows)).unwrap_or_default();
        match self {
            Self::Lines => {
                frames.bytes.reserve(capacity + rows.num_rows() * 16);
                encode_lines(rows, first_row, &mut frames.bytes, &mut frames.ends)
                    .map_err(Error::NoJson)?;
            }
            Self::Samples(encoder) => {
                frames.bytes.reserve(capacity + rows.num_rows() * rows.num_columns() * 1024);
                frames.keys = encoder
                    .encode(rows, first_row, &mut frames.bytes, &mut frames.ends)
                    .map_err(Error::NoSample)?;
            }
            Self::Tokens(layout) => {
                let StoredTokens { bytes, ends, index } = layout.encode(rows, first_row)?;
                return Ok(Frames { bytes, ends, index, first_row, keys: None });
            }
        }
        Ok(frames)
    }

    /// The bytes after the last row of a file of this size.
    fn tail(&self, bytes: u64) -> Vec<u8> {
        match self {
            Self::Lines | Self::Tokens(_) => Vec::new(),
            Self::Samples(_) => end_of_archive(bytes),
        }
    }

    /// The header of a file of this size, whose first bytes have room for it.
    fn header(&self, bytes: u64, path: &str) -> Result<Vec<u8>> {
        match self {
            Self::Lines | Self::Samples(_) => Ok(Vec::new()),
            Self::Tokens(layout) => layout.header(bytes, path),
        }
    }

    /// The type of tokens.
    fn entry(&self) -> Option<String> {
        match self {
            Self::Lines | Self::Samples(_) => None,
            Self::Tokens(layout) => Some(layout.dtype().name().to_owned()),
        }
    }

    /// The size of a file with rows of this size.
    fn whole(&self, bytes: u64) -> u64 {
        match self {
            Self::Lines | Self::Tokens(_) => bytes,
            Self::Samples(_) => bytes.saturating_add(end_of_archive_len(bytes)),
        }
    }
}

impl FramedFiles {
    pub(crate) fn new(framing: Framing, compression: FileCompression, threads: usize) -> Self {
        let queue = (threads > 1).then(|| Encoded::new(threads * 2));
        Self {
            framing: Arc::new(framing),
            compression,
            schema: None,
            queue,
            open: None,
            last_key: None,
        }
    }

    fn append_ready(&mut self, all: bool, pending: &mut PendingFiles) -> Result<()> {
        while let Some(frames) =
            self.queue.as_mut().map(|queue| queue.take(all)).transpose()?.flatten()
        {
            self.append(frames?, pending)?;
        }
        Ok(())
    }

    fn append(&mut self, frames: Frames, pending: &mut PendingFiles) -> Result<()> {
        if let Some((first, last)) = frames.keys {
            if self.last_key.as_ref() == Some(&first) {
                return Err(Error::NoSample(SampleEncoder::repeated_key(frames.first_row, first)));
            }
            self.last_key = Some(last);
        }
        let size_limit = pending.size_limit();
        let (mut start, mut rest) = (0, frames.ends.as_slice());
        let (mut bytes, mut index) = (frames.bytes, frames.index);
        while !rest.is_empty() {
            let framing = Arc::clone(&self.framing);
            let open = self.open(pending)?;
            let before = open.bytes;
            // Rows without bytes go with the ones before them.
            let fits = |end: &usize| {
                *end == start || framing.whole(before + (*end - start) as u64) <= size_limit
            };
            // A row that is larger than the limit gets a separate file.
            let is_empty = before == open.header;
            let least = if is_empty { rest.partition_point(|end| *end == start) + 1 } else { 0 };
            let count = rest.partition_point(fits).max(least).min(rest.len());
            let (taken, left) = rest.split_at_checked(count).unwrap_or((rest, &[]));
            if let Some(end) = taken.last() {
                let remaining = bytes.split_off((*end - start).min(bytes.len()));
                open.write(std::mem::replace(&mut bytes, remaining), taken.len() as u64)?;
                open.index.append(index.take(taken.len()));
                framing.header(open.bytes, &open.path)?;
                start = *end;
            }
            rest = left;
            if !rest.is_empty() {
                self.end_file(pending)?;
            }
        }
        Ok(())
    }

    fn open(&mut self, pending: &mut PendingFiles) -> Result<&mut OpenFile> {
        let open = match self.open.take() {
            Some(open) => open,
            None => OpenFile::create(pending, self.compression, &self.framing)?,
        };
        Ok(self.open.insert(open))
    }

    fn end_file(&mut self, pending: &mut PendingFiles) -> Result<()> {
        let Some(mut open) = self.open.take() else { return Ok(()) };
        open.write(self.framing.tail(open.bytes), 0)?;
        let header = self.framing.header(open.bytes, &open.path)?;
        if !header.is_empty() {
            open.give(Piece::Start(header))?;
        }
        match open.sink {
            Sink::Caller(file) => {
                let file = file.finish(&open.path, open.rows)?;
                pending.keep_whole(file.with_entry(self.framing.entry()))?;
            }
            Sink::Thread(file) => pending.keep(file.end())?,
        }
        match &*self.framing {
            Framing::Tokens(layout) if layout.kind == TokenKind::Megatron => {
                let (index, path, dtype) = (open.index, pending.next_path(), layout.dtype());
                pending.keep(Outcome::of(move || index.write(dtype, &path))?)
            }
            _ => Ok(()),
        }
    }
}

impl FileSet for FramedFiles {
    fn write(
        &mut self,
        rows: &RecordBatch,
        first_row: u64,
        pending: &mut PendingFiles,
    ) -> Result<()> {
        // Rows of one output have the same columns, even if the format would allow others.
        let schema = rows.schema();
        let ordered;
        let rows = match &self.schema {
            Some(known) if known.fields() != schema.fields() => {
                let names: Vec<String> =
                    known.fields().iter().map(|field| field.name().clone()).collect();
                if names.len() != rows.num_columns()
                    || names.iter().any(|name| schema.index_of(name).is_err())
                {
                    return Err(Error::OtherColumns { path: pending.path().to_owned() });
                }
                ordered = select(rows, &names)?;
                with_schema(known, &ordered, pending.path())?;
                &ordered
            }
            Some(_) => rows,
            None => {
                if let Framing::Tokens(layout) = Arc::make_mut(&mut self.framing) {
                    layout.settle(&schema)?;
                }
                self.schema = Some(schema);
                rows
            }
        };
        let (count, bytes) = (rows.num_rows(), weight(rows).max(1));
        let jobs =
            usize::try_from(bytes.div_ceil(JOB_BYTES)).unwrap_or(usize::MAX).clamp(1, count.max(1));
        let step = count.div_ceil(jobs).max(1);
        for start in (0..count).step_by(step) {
            let part = rows.slice(start, step.min(count - start));
            let (framing, first_row) = (Arc::clone(&self.framing), first_row + start as u64);
            let job = move || framing.encode(&part, first_row);
            match &mut self.queue {
                Some(queue) => queue.give(job)?,
                None => {
                    let frames = job()?;
                    self.append(frames, pending)?;
                }
            }
            self.append_ready(false, pending)?;
        }
        Ok(())
    }

    fn end(&mut self, pending: &mut PendingFiles) -> Result<()> {
        self.append_ready(true, pending)?;
        if pending.made() == 0 {
            self.open(pending)?;
        }
        self.end_file(pending)
    }

    fn forget(&mut self) {
        std::mem::forget(self.open.take());
        std::mem::forget(self.queue.take());
    }
}

impl OpenFile {
    fn create(
        pending: &mut PendingFiles,
        compression: FileCompression,
        framing: &Framing,
    ) -> Result<Self> {
        let path = pending.next_path();
        let mut file = CompressedFile::create(&path, compression)?;
        let (header, entry) = (framing.header(0, &path)?, framing.entry());
        if !header.is_empty() {
            file.hold_start();
        }
        let sink = if pending.threads > 1 {
            let path = path.clone();
            Sink::Thread(Follower::start(WAITING_PIECES, move |pieces: &Messages<Piece>| {
                let (mut file, mut rows) = (file, 0);
                while let Some(piece) = pieces.next()? {
                    rows += piece.put(&mut file, &path)?;
                }
                file.finish(&path, rows).map(|file| file.with_entry(entry))
            })?)
        } else {
            Sink::Caller(file)
        };
        let (size, index) = (header.len() as u64, TokenIndex::default());
        let mut open = Self { path, sink, rows: 0, bytes: 0, header: size, index };
        open.write(header, 0)?;
        Ok(open)
    }

    fn write(&mut self, bytes: Vec<u8>, rows: u64) -> Result<()> {
        self.rows += rows;
        self.bytes += bytes.len() as u64;
        self.give(Piece::Rows(bytes, rows))
    }

    fn give(&mut self, piece: Piece) -> Result<()> {
        match &mut self.sink {
            Sink::Thread(file) => file.send(piece),
            Sink::Caller(file) => piece.put(file, &self.path).map(drop),
        }
    }
}

impl Piece {
    /// Returns the number of rows.
    fn put(self, file: &mut CompressedFile, path: &str) -> Result<u64> {
        match self {
            Self::Rows(bytes, rows) => file.append(&bytes, path).map(|()| rows),
            Self::Start(bytes) => file.replace_start(&bytes, path).map(|()| 0),
        }
    }
}

impl std::fmt::Debug for FramedFiles {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("FramedFiles")
            .field("compression", &self.compression)
            .finish_non_exhaustive()
    }
}
