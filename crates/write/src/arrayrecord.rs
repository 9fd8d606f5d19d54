//! One ArrayRecord file: records are gathered to chunks, threads compress them, they are written in order.

use crate::encoded::Encoded;
use crate::staged::{Finished, StagedFile};
use crate::{Error, Gather, Result};
use shardmill_formats::arrayrecord::{ChunkEncoder, EncodedChunks, Error as FormatError, Fault, FileWriter, WriterOptions};
use shardmill_storage::Replace;
use std::io::BufWriter;
use std::sync::{Arc, Mutex, PoisonError};

/// Pieces of nearly a block pass it by.
const BUFFER_BYTES: usize = 32 << 10;
/// About what a chunk has besides its records.
const CHUNK_BYTES: usize = 64;
/// Records of one job, together: some milliseconds of compression.
const JOB_BYTES: usize = 512 << 10;
const JOB_RECORDS: usize = 4096;

/// A file in the making; it has its final name once [`ArrayRecordWriter::close`] has returned.
#[derive(Debug)]
pub struct ArrayRecordWriter {
    path: String,
    process: u32,
    group_size: usize,
    /// `None` once it was closed or has failed.
    file: Option<FileWriter<BufWriter<StagedFile>>>,
    gathered: Gathered,
    encoders: Encoders,
    encoded: Option<Encoded<EncodedJob>>,
}

type EncodedJob = std::result::Result<EncodedChunks, Fault>;

/// Records that no thread has yet, from the begin of a chunk on.
#[derive(Debug, Default)]
struct Gathered {
    lengths: Vec<u64>,
    values: Vec<u8>,
}

/// Encoders that no thread uses at the moment.
#[derive(Debug, Clone)]
struct Encoders {
    options: WriterOptions,
    idle: Arc<Mutex<Vec<ChunkEncoder>>>,
}

impl ArrayRecordWriter {
    /// With one thread, or none, the caller compresses.
    ///
    /// # Errors
    /// When the folder cannot be written, or the codec refuses its settings.
    pub fn create(path: &str, options: WriterOptions, threads: usize) -> Result<Self> {
        let staged = StagedFile::create(path)?;
        let encoders = Encoders { options: options.clone(), idle: Arc::default() };
        let group_size = usize::try_from(options.group_size).unwrap_or(usize::MAX).max(1);
        let file = FileWriter::new(BufWriter::with_capacity(BUFFER_BYTES, staged), path, options)?;
        Ok(Self {
            path: path.to_owned(),
            process: std::process::id(),
            group_size,
            file: Some(file),
            gathered: Gathered::default(),
            encoders,
            encoded: (threads > 1).then(|| Encoded::new(threads * 2)),
        })
    }

    /// Writes what is missing and gives the file its name, in place of one that is there.
    ///
    /// # Errors
    /// As [`ArrayRecordWriter::flush`]; when the name cannot be given.
    pub fn close(&mut self) -> Result<()> {
        self.finish()?.publish(Replace::Atomically)
    }

    /// Writes what is missing and syncs it. The file has no name yet.
    ///
    /// # Errors
    /// As [`ArrayRecordWriter::flush`].
    pub fn finish(&mut self) -> Result<Finished> {
        let result = self.check().and_then(|()| {
            self.encode_gathered()?;
            self.write_encoded(true)
        });
        self.fail_on_error(result)?;
        let file = self.file.take().ok_or_else(|| self.closed())?;
        let rows = file.num_records();
        Finished::of(file.finish()?, &self.path, rows)
    }

    /// Leaves nothing behind.
    pub fn abandon(&mut self) {
        self.file = None;
        self.encoded = None;
        self.gathered = Gathered::default();
    }

    fn check(&self) -> Result<()> {
        if self.process != std::process::id() {
            return Err(Error::Forked { path: self.path.clone() });
        }
        if self.file.is_none() { Err(self.closed()) } else { Ok(()) }
    }

    fn closed(&self) -> Error {
        Error::Closed { path: self.path.clone() }
    }

    fn fail_on_error(&mut self, result: Result<()>) -> Result<()> {
        if result.is_err() && self.process == std::process::id() {
            self.abandon();
        }
        result
    }

    fn encode_gathered(&mut self) -> Result<()> {
        if self.gathered.lengths.is_empty() {
            return Ok(());
        }
        let capacity = self.gathered.values.len();
        let gathered = std::mem::replace(
            &mut self.gathered,
            Gathered { lengths: Vec::new(), values: Vec::with_capacity(capacity.min(JOB_BYTES + (JOB_BYTES >> 3))) },
        );
        let (encoders, group_size) = (self.encoders.clone(), self.group_size);
        let job = move || encoders.encode(&gathered, group_size);
        match &mut self.encoded {
            Some(encoded) => encoded.give(job),
            None => self.write(job()),
        }
    }

    fn write_encoded(&mut self, all: bool) -> Result<()> {
        while let Some(chunks) = self.encoded.as_mut().map(|encoded| encoded.take(all)).transpose()?.flatten() {
            self.write(chunks)?;
        }
        Ok(())
    }

    fn write(&mut self, chunks: EncodedJob) -> Result<()> {
        let Some(file) = &mut self.file else { return Err(Error::Closed { path: self.path.clone() }) };
        let chunks = chunks.map_err(|fault| FormatError::Encode { path: self.path.clone(), chunk: file.num_records(), fault })?;
        file.append(&chunks)?;
        Ok(())
    }
}

impl Gather for ArrayRecordWriter {
    fn gather(&mut self, record: &[u8]) -> Result<bool> {
        if self.file.is_none() {
            return Err(self.closed());
        }
        self.gathered.lengths.push(record.len() as u64);
        self.gathered.values.extend_from_slice(record);
        let records = self.gathered.lengths.len();
        Ok(records.is_multiple_of(self.group_size) && (self.gathered.values.len() >= JOB_BYTES || records >= JOB_RECORDS))
    }

    fn flush(&mut self) -> Result<()> {
        let result = self.check().and_then(|()| {
            self.encode_gathered()?;
            self.write_encoded(false)
        });
        self.fail_on_error(result)
    }
}

impl Drop for ArrayRecordWriter {
    fn drop(&mut self) {
        // The file belongs to the parent: closing it there is the parent's affair.
        if self.process != std::process::id() {
            std::mem::forget(self.file.take());
        }
    }
}

impl Encoders {
    fn encode(&self, gathered: &Gathered, group_size: usize) -> EncodedJob {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut encoder = idle.map_or_else(|| ChunkEncoder::new(&self.options), Ok)?;
        let mut rest = gathered.values.as_slice();
        let mut chunks = EncodedChunks::with_capacity(
            gathered.values.len() + gathered.values.len() / 8 + CHUNK_BYTES * gathered.lengths.len().div_ceil(group_size),
        );
        for lengths in gathered.lengths.chunks(group_size) {
            let len = lengths.iter().sum::<u64>();
            let (values, behind) = usize::try_from(len).ok().and_then(|len| rest.split_at_checked(len)).unwrap_or((rest, &[]));
            encoder.encode(lengths, values, &mut chunks)?;
            rest = behind;
        }
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(encoder);
        Ok(chunks)
    }
}
