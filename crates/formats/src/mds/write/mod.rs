//! Writes rows to shards, which are split where MosaicML's writer splits them.

mod arrays;
mod values;
mod way;

pub(super) use way::can_encode;

use super::config::ShardConfig;
use super::{Columns, Compression, Error, FileEntry, HashAlgorithm, ShardEntry};
use arrow_array::RecordBatch;
use values::Values;

/// The default of MosaicML's writer.
const DEFAULT_SIZE_LIMIT: u32 = 1 << 26;
/// Samples are collected in pieces of about this size: one that grew with the shard would be
/// copied, in fresh memory each time.
const PIECE_BYTES: usize = 1 << 20;

/// How shards are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardOptions {
    /// Maximal size of an uncompressed shard; `None` and 0 mean only the limit
    /// of the format, 4 GiB.
    pub size_limit: Option<u32>,
    pub compression: Option<Compression>,
    pub hashes: Vec<HashAlgorithm>,
    /// Number in the name of the first shard.
    pub first_number: u32,
}

impl Default for ShardOptions {
    fn default() -> Self {
        Self {
            size_limit: Some(DEFAULT_SIZE_LIMIT),
            compression: None,
            hashes: Vec::new(),
            first_number: 0,
        }
    }
}

impl ShardOptions {
    /// Parses options given by name: `zstd:7`, `sha1`.
    ///
    /// # Errors
    /// [`Error::Option`] for an invalid name.
    pub fn parse(
        size_limit: Option<u32>,
        compression: Option<&str>,
        hashes: &[&str],
    ) -> Result<Self, Error> {
        let algorithm = |name: &&str| {
            let refused = || Error::Option {
                option: "hashes",
                value: (*name).to_owned(),
                reason: "there is no such algorithm",
            };
            HashAlgorithm::parse(name).ok_or_else(refused)
        };
        Ok(Self {
            size_limit,
            compression: compression.map(Compression::parse).transpose()?,
            hashes: hashes.iter().map(algorithm).collect::<Result<_, _>>()?,
            first_number: 0,
        })
    }
}

/// A finished shard, which has not been written anywhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedShard {
    /// Name of the file to write, such as `shard.00000.mds.zstd`.
    pub basename: String,
    /// Content of the file to write.
    pub bytes: Vec<u8>,
    /// For the index.
    pub entry: ShardEntry,
}

/// As [`EncodedShard`], with the content in pieces, so that samples are not copied once more.
#[derive(Debug)]
pub struct ShardPieces {
    pub basename: String,
    pub pieces: Vec<Vec<u8>>,
    pub entry: ShardEntry,
}

/// A complete shard that is neither compressed nor hashed yet, which any thread may do.
#[derive(Debug)]
pub struct UnsealedShard {
    number: u64,
    config: ShardConfig,
    hashes: Vec<HashAlgorithm>,
    config_text: String,
    sizes: Vec<u32>,
    samples: Vec<Vec<u8>>,
}

/// Collects samples and splits them into shards. After an error it must be discarded.
#[derive(Debug)]
pub struct ShardEncoder {
    config: ShardConfig,
    hashes: Vec<HashAlgorithm>,
    config_text: String,
    variable: usize,
    number: u64,
    rows: u64,
    /// Exact size of the file for the samples so far.
    running: u64,
    sizes: Vec<u32>,
    samples: Vec<Vec<u8>>,
}

impl ShardEncoder {
    #[must_use]
    pub fn new(columns: Columns, options: ShardOptions) -> Self {
        let mut hashes = options.hashes;
        hashes.sort_unstable_by_key(|algorithm| algorithm.name());
        hashes.dedup();
        let config = ShardConfig {
            columns,
            compression: options.compression,
            hashes: hashes.iter().map(|algorithm| algorithm.name().to_owned()).collect(),
            size_limit: options.size_limit.filter(|limit| *limit > 0).map(u64::from),
        };
        let config_text = config.to_json();
        let variable =
            config.columns.iter().filter(|column| column.encoding.size().is_none()).count();
        let running = empty_size(&config_text);
        Self {
            config,
            hashes,
            config_text,
            variable,
            number: u64::from(options.first_number),
            rows: 0,
            running,
            sizes: Vec::new(),
            samples: Vec::new(),
        }
    }

    #[must_use]
    pub fn columns(&self) -> &Columns {
        &self.config.columns
    }

    /// Number of rows pushed.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Adds all rows of `batch` and returns the shards that are full. Columns that the data set
    /// lacks are ignored.
    ///
    /// # Errors
    /// For a missing column, a null, a value that its encoding cannot hold, and a row that is too
    /// large for a shard; errors name column and row, counted from the first row of the data set.
    pub fn push(&mut self, batch: &RecordBatch) -> Result<Vec<EncodedShard>, Error> {
        self.push_unsealed(batch)?.into_iter().map(UnsealedShard::seal).collect()
    }

    /// As [`ShardEncoder::push`], but leaves hashing and compression to the caller's threads.
    ///
    /// # Errors
    /// As [`ShardEncoder::push`].
    pub fn push_unsealed(&mut self, batch: &RecordBatch) -> Result<Vec<UnsealedShard>, Error> {
        let columns = self.config.columns.clone();
        let mut values = Vec::with_capacity(columns.len());
        for column in columns.iter() {
            let array = batch
                .column_by_name(&column.name)
                .ok_or_else(|| Error::MissingColumn { column: column.name.clone() })?;
            values.push((column.encoding.size().is_none(), Values::new(column, array, self.rows)?));
        }
        let mut full = Vec::new();
        for row in 0..batch.num_rows() {
            let mut piece = self.samples.pop().unwrap_or_default();
            if piece.capacity() == 0 || piece.len() >= PIECE_BYTES {
                self.samples.extend((!piece.is_empty()).then_some(piece));
                piece = Vec::with_capacity(PIECE_BYTES + PIECE_BYTES / 8);
            }
            let start = piece.len();
            append_sample(&values, self.variable, row, self.rows, &mut piece)?;
            let bytes = (piece.len() - start) as u64;
            let limit = self.config.size_limit;
            if limit
                .is_some_and(|limit| limit < self.running.saturating_add(bytes).saturating_add(4))
            {
                let tail = piece.split_off(start);
                self.samples.push(piece);
                full.push(self.cut());
                piece = tail;
            }
            self.samples.push(piece);
            self.running = self.running.saturating_add(bytes).saturating_add(4);
            let too_large = |_above| Error::ShardTooLarge { row: self.rows, bytes: self.running };
            u32::try_from(self.running).map_err(too_large)?;
            self.sizes.push(u32::try_from(bytes).map_err(too_large)?);
            self.rows += 1;
        }
        Ok(full)
    }

    /// The last shard, if it has rows.
    ///
    /// # Errors
    /// When it cannot be compressed.
    pub fn finish(self) -> Result<Vec<EncodedShard>, Error> {
        self.finish_unsealed().into_iter().map(UnsealedShard::seal).collect()
    }

    /// As [`ShardEncoder::finish`], but leaves hashing and compression to the caller's threads.
    #[must_use]
    pub fn finish_unsealed(mut self) -> Option<UnsealedShard> {
        (!self.sizes.is_empty()).then(|| self.cut())
    }

    /// As if the shard already had this many bytes.
    #[cfg(test)]
    pub(super) fn pretend_size(&mut self, bytes: u64) {
        self.running = bytes;
    }

    fn cut(&mut self) -> UnsealedShard {
        let number = self.number;
        self.number += 1;
        self.running = empty_size(&self.config_text);
        UnsealedShard {
            number,
            config: self.config.clone(),
            hashes: self.hashes.clone(),
            config_text: self.config_text.clone(),
            sizes: std::mem::take(&mut self.sizes),
            samples: std::mem::take(&mut self.samples),
        }
    }
}

fn empty_size(config_text: &str) -> u64 {
    8 + config_text.len() as u64
}

/// Appends the lengths of the values of variable size, then all values. `row` counts within the
/// batch, `number` from the first row of the data set.
fn append_sample(
    values: &[(bool, Values<'_>)],
    variable: usize,
    row: usize,
    number: u64,
    samples: &mut Vec<u8>,
) -> Result<(), Error> {
    let mut length_at = samples.len();
    samples.resize(length_at + 4 * variable, 0);
    for (is_variable, values) in values {
        let start = samples.len();
        values.append(row, number, samples)?;
        if *is_variable {
            let bytes = samples.len() - start;
            let len = u32::try_from(bytes)
                .map_err(|_above| Error::ShardTooLarge { row: number, bytes: bytes as u64 })?;
            if let Some(place) = samples.get_mut(length_at..length_at + 4) {
                place.copy_from_slice(&len.to_le_bytes());
            }
            length_at += 4;
        }
    }
    Ok(())
}

impl UnsealedShard {
    /// Number of rows in it.
    #[must_use]
    pub fn samples(&self) -> usize {
        self.sizes.len()
    }

    /// Lays the file out, hashes and compresses it.
    ///
    /// # Errors
    /// When it cannot be compressed.
    pub fn seal(self) -> Result<EncodedShard, Error> {
        let ShardPieces { basename, pieces, entry } = self.seal_in_pieces()?;
        Ok(EncodedShard { basename, bytes: pieces.concat(), entry })
    }

    /// As [`UnsealedShard::seal`], without a copy of the samples where they are not compressed.
    ///
    /// # Errors
    /// When it cannot be compressed.
    pub fn seal_in_pieces(mut self) -> Result<ShardPieces, Error> {
        let samples = self.sizes.len() as u64;
        let basename = format!("shard.{:05}.mds", self.number);
        let mut raw = vec![self.head()];
        raw.append(&mut self.samples);
        let entry_of = |basename: &str, pieces: &[Vec<u8>]| FileEntry {
            basename: basename.to_owned(),
            bytes: pieces.iter().map(|piece| piece.len() as u64).sum(),
            hashes: self
                .hashes
                .iter()
                .map(|algorithm| (algorithm.name().to_owned(), algorithm.hex_of(pieces)))
                .collect(),
        };
        let raw_data = entry_of(&basename, &raw);
        let Some(compression) = &self.config.compression else {
            return Ok(ShardPieces {
                basename,
                pieces: raw,
                entry: ShardEntry { config: self.config, raw_data, zip_data: None, samples },
            });
        };
        let failed = |source| Error::Compress {
            basename: basename.clone(),
            compression: compression.name().to_owned(),
            source,
        };
        let pieces = vec![compression.compress(&raw.concat()).map_err(failed)?];
        let basename = format!("{basename}.{}", compression.extension());
        let zip_data = Some(entry_of(&basename, &pieces));
        Ok(ShardPieces {
            basename,
            pieces,
            entry: ShardEntry { config: self.config, raw_data, zip_data, samples },
        })
    }

    /// What comes before the samples.
    fn head(&self) -> Vec<u8> {
        let len = 4 * (self.sizes.len() + 2) + self.config_text.len();
        let mut head = Vec::with_capacity(len);
        // The total was checked against 32 bits for every sample.
        let word = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        head.extend_from_slice(&word(self.sizes.len()).to_le_bytes());
        let mut offset = word(len);
        head.extend_from_slice(&offset.to_le_bytes());
        for size in &self.sizes {
            offset = offset.saturating_add(*size);
            head.extend_from_slice(&offset.to_le_bytes());
        }
        head.extend_from_slice(self.config_text.as_bytes());
        head
    }
}
