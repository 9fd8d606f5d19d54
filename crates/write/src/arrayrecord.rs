//! Writes an ArrayRecord file: records are collected to chunks, threads compress them, and they are
//! written in order.

use crate::encoded::Encoded;
use crate::staged::{Finished, StagedFile};
use crate::{Error, Gather, Result};
use shardmill_formats::arrayrecord::{
    ChunkEncoder, EncodedChunks, Error as FormatError, Fault, FileWriter, WriterOptions,
};
use shardmill_storage::Replace;
use std::io::BufWriter;
use std::sync::{Arc, Mutex, PoisonError};

/// Larger pieces bypass the buffer.
const BUFFER_BYTES: usize = 32 << 10;
/// Approximate overhead of a chunk.
const CHUNK_BYTES: usize = 64;
/// Total size of the records of one job: some milliseconds of compression.
const JOB_BYTES: usize = 512 << 10;
const JOB_RECORDS: usize = 4096;

/// A file that is being written; it has its final name once
/// [`ArrayRecordWriter::close`] has returned.
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

/// Records that are not passed to a thread yet, from the start of a chunk on.
#[derive(Debug, Default)]
struct Gathered {
    lengths: Vec<u64>,
    values: Vec<u8>,
}

/// Idle encoders.
#[derive(Debug, Clone)]
struct Encoders {
    options: WriterOptions,
    idle: Arc<Mutex<Vec<ChunkEncoder>>>,
}

impl ArrayRecordWriter {
    /// With one thread, or none, the caller compresses.
    ///
    /// # Errors
    /// When the directory is not writable, or the codec rejects its settings.
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

    /// Writes remaining data and publishes the file, replacing an existing one.
    ///
    /// # Errors
    /// As [`ArrayRecordWriter::flush`]; when the file cannot be renamed.
    pub fn close(&mut self) -> Result<()> {
        self.finish()?.publish(Replace::Atomically)
    }

    /// Writes remaining data and syncs the file. It has no final name yet.
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

    /// Removes the file and stops all jobs.
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
            Gathered {
                lengths: Vec::new(),
                values: Vec::with_capacity(capacity.min(JOB_BYTES + (JOB_BYTES >> 3))),
            },
        );
        let (encoders, group_size) = (self.encoders.clone(), self.group_size);
        let job = move || encoders.encode(&gathered, group_size);
        match &mut self.encoded {
            Some(encoded) => encoded.give(job),
            None => self.write(job()),
        }
    }

    fn write_encoded(&mut self, all: bool) -> Result<()> {
        while let Some(chunks) =
            self.encoded.as_mut().map(|encoded| encoded.take(all)).transpose()?.flatten()
        {
            self.write(chunks)?;
        }
        Ok(())
    }

    fn write(&mut self, chunks: EncodedJob) -> Result<()> {
        let Some(file) = &mut self.file else {
            return Err(Error::Closed { path: self.path.clone() });
        };
        let chunks = chunks.map_err(|fault| FormatError::Encode {
            path: self.path.clone(),
            chunk: file.num_records(),
            fault,
        })?;
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
        Ok(records.is_multiple_of(self.group_size)
            && (self.gathered.values.len() >= JOB_BYTES || records >= JOB_RECORDS))
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
        // The file belongs to the parent process, which closes it.
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
            gathered.values.len()
                + gathered.values.len() / 8
                + CHUNK_BYTES * gathered.lengths.len().div_ceil(group_size),
        );
        for lengths in gathered.lengths.chunks(group_size) {
            let len = lengths.iter().sum::<u64>();
            let (values, left) = usize::try_from(len)
                .ok()
                .and_then(|len| rest.split_at_checked(len))
                .unwrap_or((rest, &[]));
            encoder.encode(lengths, values, &mut chunks)?;
            rest = left;
        }
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(encoder);
        Ok(chunks)
    }
}
