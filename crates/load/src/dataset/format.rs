//! Detects the format of a file by its name, or by its first bytes if the name is inconclusive.

use super::token_pairs::has_token_index;
use crate::{Error, Result};
use shardmill_formats::mds::Compression;
use shardmill_formats::signature::{SIGNATURE_BYTES, Signature};
use shardmill_storage::{AnyStore, RangeRead, Store};

/// Extensions of archives. Archives whose compression is not read are refused when they are opened,
/// not left out.
const TAR_EXTENSIONS: [&str; 10] = [
    ".tar", ".tar.gz", ".tgz", ".tar.zst", ".tzst", ".tar.bz2", ".tbz2", ".tbz", ".tar.xz", ".txz",
];
/// Extensions of compressed files, after that of their format.
const PACKED: [&str; 6] = ["gz", "zst", "zstd", "bz2", "br", "snappy"];

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    Parquet,
    Orc,
    Csv,
    Jsonl,
    ArrayRecord,
    WebDataset,
    Mds,
    Megatron,
    Datatrove,
    Bin,
    Npy,
}

impl Format {
    /// # Errors
    /// [`Error::NoSuchFormat`].
    pub fn parse(name: &str) -> Result<Self> {
        match name {
            "parquet" => Ok(Self::Parquet),
            "orc" => Ok(Self::Orc),
            "csv" => Ok(Self::Csv),
            // Both names mean one JSON document per line.
            "json" | "jsonl" => Ok(Self::Jsonl),
            "arrayrecord" | "array_record" => Ok(Self::ArrayRecord),
            "webdataset" => Ok(Self::WebDataset),
            "mds" => Ok(Self::Mds),
            "megatron" => Ok(Self::Megatron),
            "datatrove" => Ok(Self::Datatrove),
            "bin" => Ok(Self::Bin),
            "npy" => Ok(Self::Npy),
            _ => Err(Error::NoSuchFormat { name: name.to_owned() }),
        }
    }

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Parquet => "parquet",
            Self::Orc => "orc",
            Self::Csv => "csv",
            Self::Jsonl => "jsonl",
            Self::ArrayRecord => "arrayrecord",
            Self::WebDataset => "webdataset",
            Self::Mds => "mds",
            Self::Megatron => "megatron",
            Self::Datatrove => "datatrove",
            Self::Bin => "bin",
            Self::Npy => "npy",
        }
    }

    /// From the extension; `None` if it is unknown.
    #[must_use]
    pub fn of(path: &str) -> Option<Self> {
        let name = path.rsplit('/').next()?.to_ascii_lowercase();
        if TAR_EXTENSIONS.iter().any(|extension| name.ends_with(extension)) {
            return Some(Self::WebDataset);
        }
        let packed = name.strip_suffix(".gz").or_else(|| name.strip_suffix(".zst"));
        if packed.is_some_and(|name| {
            [".jsonl", ".ndjson", ".json"].iter().any(|extension| name.ends_with(extension))
        }) {
            return Some(Self::Jsonl);
        }
        if packed.is_some_and(|name| name.ends_with(".csv")) {
            return Some(Self::Csv);
        }
        let extension = name.rsplit_once('.')?.1;
        // Users number such files after the extension: `train.array_record-00000-of-00010`.
        match extension.split_once('-').map_or(extension, |(extension, _shard)| extension) {
            "array_record" | "arrayrecord" | "arecord" => return Some(Self::ArrayRecord),
            _ => {}
        }
        if extension == "mds" || Compression::of_path(path).is_some() {
            return Some(Self::Mds);
        }
        match extension {
            "parquet" | "pq" | "parq" => Some(Self::Parquet),
            "orc" => Some(Self::Orc),
            "csv" => Some(Self::Csv),
            "json" | "jsonl" | "ndjson" => Some(Self::Jsonl),
            "ds" => Some(Self::Datatrove),
            _ => None,
        }
    }

    /// Whether the extension is one of the format, although it does not say so by itself.
    #[must_use]
    pub fn may_be(self, path: &str) -> bool {
        let path = path.to_ascii_lowercase();
        match self {
            Self::Bin => path.ends_with(".bin"),
            Self::Npy => path.ends_with(".npy"),
            _ => false,
        }
    }

    /// The file name without the extensions of a format and its compression.
    /// `train.array_record-00000-of-00010` keeps the number of the shard.
    #[must_use]
    pub fn stem(path: &str) -> &str {
        let name = path.rsplit('/').next().unwrap_or_default();
        if Self::of(name).is_none() {
            return name;
        }
        let packed = name.rsplit_once('.').filter(|(_, extension)| {
            PACKED.iter().any(|packed| extension.eq_ignore_ascii_case(packed))
        });
        let unpacked = packed.map_or(name, |(unpacked, _)| unpacked);
        unpacked
            .rsplit_once('.')
            .filter(|(_, extension)| !extension.contains('-'))
            .map_or(unpacked, |(stem, _)| stem)
    }

    /// From the extension, or an index beside the file, otherwise from the first bytes, which costs
    /// a read.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn of_file(path: &str) -> Result<Option<Self>> {
        match Self::of(path) {
            Some(format) => Ok(Some(format)),
            None if has_token_index(path) => Ok(Some(Self::Megatron)),
            None => Ok(Self::of_signature(signature_of(AnyStore.open(path)?.as_ref())?)),
        }
    }

    /// Text and compressed bytes are inconclusive.
    #[must_use]
    pub fn of_signature(signature: Signature) -> Option<Self> {
        match signature {
            Signature::Parquet => Some(Self::Parquet),
            Signature::Orc => Some(Self::Orc),
            Signature::ArrayRecord => Some(Self::ArrayRecord),
            Signature::Tar => Some(Self::WebDataset),
            _ => None,
        }
    }

    /// Whether a file with these first bytes is certainly not of this format.
    /// Damage alone is inconclusive.
    pub(super) fn is_contradicted_by(self, signature: Signature) -> bool {
        match (self, signature) {
            (_, Signature::Empty)
            | (Self::Megatron | Self::Datatrove | Self::Bin | Self::Npy, _) => false,
            (Self::Csv, Signature::Text) => false,
            (Self::Csv, _) => true,
            (
                Self::Jsonl,
                Signature::Text | Signature::Json | Signature::Compressed(_) | Signature::Binary,
            ) => false,
            (_, Signature::Binary) => false,
            (Self::WebDataset | Self::Mds, Signature::Compressed(_)) => false,
            (format, signature) => Self::of_signature(signature) != Some(format),
        }
    }
}

/// The format that the first bytes of an object indicate.
///
/// # Errors
/// When they cannot be read.
pub fn signature_of(object: &dyn RangeRead) -> shardmill_storage::Result<Signature> {
    let mut head = vec![0; usize::try_from(object.size().min(SIGNATURE_BYTES)).unwrap_or_default()];
    object.read_at(0, &mut head)?;
    Ok(Signature::of(&head))
}
