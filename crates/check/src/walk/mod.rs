//! The walk of one file: opening it, then its members, rows or blocks in order.
//!
//! The walk reports what cannot be read, and tells the visitor what it finds.

mod arrayrecord;
mod mds;
mod parquet;
mod table;
mod tar;

use crate::files::{FileFormat, directory_of};
use crate::image_header::{Header, ImageHeader, faults};
use crate::options::CheckOptions;
use crate::problem::{Problem, Rule};
use crate::visitor::{FileSummary, Visitor};
use shardmill_documents::Result;
use shardmill_documents::image_bytes::ImageBytes;
use shardmill_engine::Cancel;
use shardmill_load::Format;
use shardmill_storage::{AnyStore, RangeRead, Store};
use std::error::Error;
use std::sync::Arc;

const UNKNOWN: &str = "not a tar, Parquet, ORC, CSV, JSONL, ArrayRecord, MDS, Megatron or \
                       datatrove file, and not an image; files of tokens without a header need \
                       their dtype";

struct Walk<'a, V> {
    path: &'a str,
    object: Arc<dyn RangeRead>,
    options: &'a CheckOptions,
    cancel: &'a Cancel,
    visitor: V,
}

/// Passes through the file on the calling thread.
///
/// # Errors
/// Cancellation, and when a temporary copy cannot be written.
pub(crate) fn walk<'a, V: Visitor<'a>>(
    path: &'a str,
    options: &'a CheckOptions,
    cancel: &'a Cancel,
) -> Result<V> {
    let opened = AnyStore.open(path);
    let format_of =
        |object: &Arc<dyn RangeRead>| FileFormat::of(&**object, options.dtype.is_some());
    let (format, bytes) = opened
        .as_ref()
        .map_or_else(|_| Default::default(), |object| (format_of(object), object.size()));
    let mut visitor = V::new(
        FileSummary { path: path.to_owned(), format, bytes, ..FileSummary::default() },
        options,
    );
    match opened {
        Ok(object) => Walk { path, object, options, cancel, visitor }.run(format),
        Err(error) => {
            visitor.problem(Problem::unreadable(&error));
            Ok(visitor)
        }
    }
}

impl<'a, V: Visitor<'a>> Walk<'a, V> {
    fn run(mut self, format: FileFormat) -> Result<V> {
        match format {
            FileFormat::Tar => self.tar()?,
            FileFormat::Parquet => self.parquet()?,
            FileFormat::ArrayRecord => self.arrayrecord()?,
            FileFormat::Mds => {
                let name = self.path.rsplit('/').next().unwrap_or(self.path);
                self.shard(Arc::clone(&self.object), None, name)?;
            }
            FileFormat::MdsIndex => self.mds_index(directory_of(self.path))?,
            FileFormat::JsonlIndex => self.text_index(directory_of(self.path))?,
            FileFormat::Megatron => self.table(self.path, Format::Megatron, None)?,
            FileFormat::Datatrove => self.table(self.path, Format::Datatrove, None)?,
            FileFormat::Bin => self.table(self.path, Format::Bin, None)?,
            FileFormat::Npy => self.table(self.path, Format::Npy, None)?,
            FileFormat::Orc => self.table(self.path, Format::Orc, None)?,
            FileFormat::Csv => self.table(self.path, Format::Csv, None)?,
            FileFormat::Jsonl => self.table(self.path, Format::Jsonl, None)?,
            FileFormat::Image => {
                let header =
                    Self::header(ImageBytes::Member(&*self.object, &(0..self.object.size())));
                self.visitor.image_file(&header);
                faults(&header)
                    .for_each(|what| self.visitor.problem(Problem::new(Rule::Image, what)));
            }
            FileFormat::Unknown => self.visitor.problem(Problem::new(Rule::Readable, UNKNOWN)),
        }
        Ok(self.visitor)
    }

    /// Returns `None` and reports a problem when the file, or a part of it, cannot be read.
    fn readable<T, E: Error + 'static>(&mut self, read: std::result::Result<T, E>) -> Option<T> {
        read.map_err(|error| self.visitor.problem(Problem::unreadable(&error))).ok()
    }

    fn header(bytes: ImageBytes<'_>) -> Header {
        ImageHeader::read(bytes, V::IS_THOROUGH)
    }
}
