//! Opens files of tokens, each with the files that belong to it.

use super::Format;
use super::objects::Objects;
use super::token_pairs::{documents_of, index_of};
use crate::tokenize::{CountsDirectory, FileKey};
use shardmill_formats::table::{TableError, TableFile};
use shardmill_formats::token_files::{
    DatatroveFiles, FlatFile, Separator, TokenOptions, TokenTable,
};
use shardmill_storage::{Error as StorageError, RangeRead};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use xxhash_rust::xxh3::Xxh3Default;

/// Parts of a file that tell it from others of its size, and the bytes of each.
const SAMPLES: u64 = 64;
const SAMPLE_BYTES: u64 = 4 << 10;

/// How files of tokens are read.
#[derive(Debug, Clone, Default)]
pub struct TokenFileOptions {
    pub tokens: TokenOptions,
    /// Where lengths of rows are kept if a whole file must be read to find them.
    pub kept: Option<Arc<CountsDirectory>>,
    /// Files, directories and globs of masks: one file for each file of tokens, in their order.
    pub label_masks: Vec<String>,
}

#[derive(Debug)]
pub(super) struct TokenOpener {
    format: Format,
    objects: Objects,
    options: TokenFileOptions,
    /// By the path of the tokens.
    masks: HashMap<String, String>,
}

type Opened = Result<Arc<dyn TableFile>, TableError>;

impl TokenOpener {
    pub(super) fn new(format: Format, objects: Objects, options: TokenFileOptions) -> Self {
        Self { format, objects, options, masks: HashMap::new() }
    }

    pub(super) fn with_masks(self, masks: HashMap<String, String>) -> Self {
        Self { masks, ..self }
    }

    pub(super) fn format(&self) -> Format {
        self.format
    }

    pub(super) fn options(&self) -> &TokenOptions {
        &self.options.tokens
    }

    pub(super) fn open(&self, object: Arc<dyn RangeRead>) -> Opened {
        match self.format {
            Format::Datatrove => self.datatrove(object),
            Format::Bin => self.flat(object),
            Format::Npy => self.npy(object),
            _ => {
                let path = object.path();
                let index = index_of(path).unwrap_or_else(|| format!("{path}.idx"));
                let index = self.objects.open(&index)?;
                Ok(Arc::new(TokenTable::megatron(object, index, self.options())?))
            }
        }
    }

    fn datatrove(&self, object: Arc<dyn RangeRead>) -> Opened {
        let path = object.path();
        let files = DatatroveFiles {
            index: self.objects.open(&format!("{path}.index"))?,
            loss: self.beside(&format!("{path}.loss"))?,
            metadata: self.beside(&format!("{path}.metadata"))?,
        };
        Ok(Arc::new(TokenTable::datatrove(object, files, self.options())?))
    }

    /// A file that need not exist.
    fn beside(&self, path: &str) -> Result<Option<Arc<dyn RangeRead>>, TableError> {
        match self.objects.open(path) {
            Ok(object) => Ok(Some(object)),
            Err(StorageError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn npy(&self, object: Arc<dyn RangeRead>) -> Opened {
        let path = object.path().to_owned();
        let file = FlatFile::plain(object, self.options().dtype)?;
        let csv = self.objects.open(&documents_of(&path))?;
        let mask = self.masks.get(&path).map(|mask| self.objects.open(mask)).transpose()?;
        Ok(Arc::new(TokenTable::npy(file, &*csv, mask, self.options())?))
    }

    /// Rows of a file that was read before are known.
    fn flat(&self, object: Arc<dyn RangeRead>) -> Opened {
        let options = self.options();
        let (file, separator) = (FlatFile::open(object, options.dtype)?, options.separator);
        let opened = |lengths: &[u32]| TokenTable::flat(file.clone(), lengths, separator, options);
        let kept = match separator {
            Separator::Every(_) => None,
            _ => self.options.kept.as_deref(),
        };
        let Some(kept) = kept else {
            return Ok(Arc::new(opened(&file.row_lengths(separator)?)?));
        };
        let key = self.key(&**file.object())?;
        if let Ok(known) = opened(&kept.lengths(&key)) {
            return Ok(Arc::new(known));
        }
        let lengths = file.row_lengths(separator)?;
        kept.keep(&key, file.object().path(), &lengths);
        Ok(Arc::new(opened(&lengths)?))
    }

    /// From parts of the file: rows are compared with their counts when they are read.
    fn key(&self, object: &dyn RangeRead) -> Result<FileKey, TableError> {
        let size = object.size();
        let step = (size / SAMPLES).max(SAMPLE_BYTES);
        let starts = (0..SAMPLES).map(|sample| sample * step).filter(|start| *start < size);
        let end = size.saturating_sub(SAMPLE_BYTES);
        let sample = |start: u64| start..size.min(start + SAMPLE_BYTES);
        let samples: Vec<Range<u64>> = starts.chain([end]).map(sample).collect();
        let mut digest = Xxh3Default::new();
        digest.update(
            format!("{:?} {:?}", self.options().separator, self.options().dtype).as_bytes(),
        );
        for bytes in object.read_ranges(&samples)? {
            digest.update(&bytes);
        }
        Ok(FileKey { size, digest: digest.digest128().to_le_bytes() })
    }
}
