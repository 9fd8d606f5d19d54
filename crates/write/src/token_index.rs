//! The index of a file of Megatron-LM: collected row by row, written when the file ends.

use crate::Result;
use crate::staged::{Finished, StagedFile};
use shardmill_formats::token_files::{Dtype, megatron_header};
use std::io::{BufWriter, Write};

const BUFFER_BYTES: usize = 1 << 20;

/// The sequences of documents; none for files without an index.
#[derive(Debug, Default)]
pub(crate) struct TokenIndex {
    /// Number of sequences of each document.
    pub(crate) sequences: Vec<u32>,
    /// Number of tokens of each sequence.
    pub(crate) lengths: Vec<u32>,
    /// Of each sequence, as they are stored; or none.
    pub(crate) modes: Vec<u8>,
}

impl TokenIndex {
    /// Removes those of the first `documents`.
    pub(crate) fn take(&mut self, documents: usize) -> Self {
        let sequences = front(&mut self.sequences, documents);
        let count = sequences.iter().map(|count| *count as usize).sum();
        Self {
            sequences,
            lengths: front(&mut self.lengths, count),
            modes: front(&mut self.modes, count),
        }
    }

    pub(crate) fn append(&mut self, mut other: Self) {
        self.sequences.append(&mut other.sequences);
        self.lengths.append(&mut other.lengths);
        self.modes.append(&mut other.modes);
    }

    pub(crate) fn write(&self, dtype: Dtype, path: &str) -> Result<Finished> {
        let mut file = BufWriter::with_capacity(BUFFER_BYTES, StagedFile::create(path)?);
        self.write_to(dtype, &mut file).map_err(|source| StagedFile::failed(path, source))?;
        Finished::of(file, path, self.lengths.len() as u64)
    }

    fn write_to(&self, dtype: Dtype, file: &mut impl Write) -> std::io::Result<()> {
        let documents = self.sequences.len() as u64;
        file.write_all(&megatron_header(dtype, self.lengths.len() as u64, documents))?;
        for length in &self.lengths {
            file.write_all(&length.to_le_bytes())?;
        }
        let mut start = 0_u64;
        for length in &self.lengths {
            file.write_all(&start.to_le_bytes())?;
            start += u64::from(*length) * dtype.width();
        }
        let mut first = 0_u64;
        file.write_all(&first.to_le_bytes())?;
        for count in &self.sequences {
            first += u64::from(*count);
            file.write_all(&first.to_le_bytes())?;
        }
        file.write_all(&self.modes)
    }
}

fn front<T>(values: &mut Vec<T>, count: usize) -> Vec<T> {
    let rest = values.split_off(count.min(values.len()));
    std::mem::replace(values, rest)
}
