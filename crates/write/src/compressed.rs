//! Files compressed as a whole, as one stream: equal content gives equal files.

use crate::staged::{Finished, StagedFile};
use crate::{Error, Result};
use flate2::{Compression as GzipLevel, GzBuilder, write::GzEncoder};
use std::io::{BufWriter, Write};
use std::str::FromStr;

const BUFFER_BYTES: usize = 1 << 20;
const GZIP_LEVEL: u32 = 6;
const ZSTD_LEVEL: i32 = 3;

/// Compression of a file of text or members.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FileCompression {
    #[default]
    None,
    Gzip(u32),
    Zstd(i32),
}

impl FromStr for FileCompression {
    type Err = Error;

    /// `none`, `gz` or `zstd`, the latter two optionally with a level: `zstd:7`.
    fn from_str(name: &str) -> Result<Self> {
        let unknown = || Error::UnknownCompression { name: name.to_owned() };
        let (codec, level) = match name.split_once(':') {
            Some((codec, level)) => {
                (codec, Some(level.parse::<i32>().map_err(|_no_number| unknown())?))
            }
            None => (name, None),
        };
        match (codec, level) {
            ("none", None) => Ok(Self::None),
            ("gz", level) => {
                let level = level.map_or(Ok(GZIP_LEVEL), |level| {
                    u32::try_from(level).map_err(|_negative| unknown())
                })?;
                if level <= 9 { Ok(Self::Gzip(level)) } else { Err(unknown()) }
            }
            ("zstd", level) => {
                let level = level.unwrap_or(ZSTD_LEVEL);
                if (1..=22).contains(&level) { Ok(Self::Zstd(level)) } else { Err(unknown()) }
            }
            _ => Err(unknown()),
        }
    }
}

impl FileCompression {
    /// The extension of such files, after that of their format.
    #[must_use]
    pub fn extension(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Gzip(_) => ".gz",
            Self::Zstd(_) => ".zst",
        }
    }
}

/// A file that is being written.
pub(crate) enum CompressedFile {
    Plain(BufWriter<StagedFile>),
    Gzip(Box<GzEncoder<BufWriter<StagedFile>>>),
    Zstd(Box<zstd::Encoder<'static, BufWriter<StagedFile>>>),
}

impl CompressedFile {
    pub(crate) fn create(path: &str, compression: FileCompression) -> Result<Self> {
        let staged = BufWriter::with_capacity(BUFFER_BYTES, StagedFile::create(path)?);
        Ok(match compression {
            FileCompression::None => Self::Plain(staged),
            // Without a name and a time stamp, equal content gives equal files.
            FileCompression::Gzip(level) => {
                Self::Gzip(Box::new(GzBuilder::new().write(staged, GzipLevel::new(level))))
            }
            FileCompression::Zstd(level) => {
                let mut encoder = zstd::Encoder::new(staged, level)
                    .map_err(|source| StagedFile::failed(path, source))?;
                encoder
                    .include_checksum(true)
                    .map_err(|source| StagedFile::failed(path, source))?;
                Self::Zstd(Box::new(encoder))
            }
        })
    }

    pub(crate) fn append(&mut self, bytes: &[u8], path: &str) -> Result<()> {
        match self {
            Self::Plain(file) => file.write_all(bytes),
            Self::Gzip(file) => file.write_all(bytes),
            Self::Zstd(file) => file.write_all(bytes),
        }
        .map_err(|source| StagedFile::failed(path, source))
    }

    /// Says before anything is written that [`Self::replace_start`] will be called.
    pub(crate) fn hold_start(&mut self) {
        if let Self::Plain(file) = self {
            file.get_mut().hold_start();
        }
    }

    /// Replaces the first bytes of a file that is not compressed.
    pub(crate) fn replace_start(&mut self, bytes: &[u8], path: &str) -> Result<()> {
        let replaced = match self {
            Self::Plain(file) => file.flush().and_then(|()| file.get_mut().replace_start(bytes)),
            Self::Gzip(_) | Self::Zstd(_) => Err(std::io::ErrorKind::Unsupported.into()),
        };
        replaced.map_err(|source| StagedFile::failed(path, source))
    }

    pub(crate) fn finish(self, path: &str, rows: u64) -> Result<Finished> {
        let file = match self {
            Self::Plain(file) => Ok(file),
            Self::Gzip(file) => file.finish(),
            Self::Zstd(file) => file.finish(),
        };
        Finished::of(file.map_err(|source| StagedFile::failed(path, source))?, path, rows)
    }
}
