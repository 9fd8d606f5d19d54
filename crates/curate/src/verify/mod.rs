//! Checks whole files of every format that a data set reads, and image files.
//!
//! Called by the binding and by tests of the writers. The invariants: damage is a problem in the result, never an error; a file passes exactly if all
//! of it can be read and every checksum matches; interleaved documents must also follow the rules of their layout; memory is bounded by one JSON or
//! one block.

mod arrayrecord;
mod document_order;
mod mds;
mod parquet;
mod problem;
mod table;
mod tar;

use crate::Result;
use crate::archive::Archive;
use crate::error::reason;
use crate::file_format::FileFormat;
use crate::image_header::{Depth, ImageBytes, ImageHeader};
use crate::source::keys::{SampleKeys, read_object};
use serde::{Deserialize, Serialize};
use shardmill_engine::{Cancel, Run, run_in_order};
use shardmill_formats::limit::DecodeLimit;
use shardmill_load::Format;
use shardmill_storage::store_of;
use std::ops::ControlFlow;

pub(crate) use parquet::holds_documents;
pub use problem::{FileCheck, ModalityRows, Problem, Rule};
pub(crate) use table::open_alone;

/// Number of samples that are checked for the layout of documents.
const SAMPLES_ASKED: usize = 16;
pub(crate) const UNKNOWN: &str = "not a tar, Parquet, ORC, CSV, JSONL, ArrayRecord or MDS file, and not an image";

/// The rules that a tar must follow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// `Written` if one of the first samples begins with the keys that the sink writes first.
    #[default]
    Auto,
    /// Any shard that can be a source: entries may be opaque, and other members may exist.
    Source,
    /// As written by the sink: `sample_id`, lists of equal length, each image member named by one entry of its own sample.
    Written,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct VerifyOptions {
    pub layout: Layout,
    /// A filter ran: positions must be exactly 0..n−1, without duplicates.
    pub is_renumbered: bool,
    /// Maximal number of problems listed per file; all are counted.
    pub max_problems: usize,
    /// Read concatenated tars to their last member.
    pub ignore_zeros: bool,
    pub keys: SampleKeys,
}

impl Default for VerifyOptions {
    fn default() -> Self {
        Self { layout: Layout::Auto, is_renumbered: false, max_problems: 100, ignore_zeros: false, keys: SampleKeys::default() }
    }
}

impl VerifyOptions {
    /// # Errors
    /// [`crate::Error::Spec`] for text that does not describe these options.
    pub fn parse(text: &str) -> Result<Self> {
        Ok(serde_json::from_str(text)?)
    }
}

/// Checks all files on `workers` threads; results are in the order of the files.
///
/// # Errors
/// When no thread can be started.
pub fn verify_files(files: Vec<String>, options: VerifyOptions, workers: usize, cancel: &Cancel) -> Result<Run<Result<FileCheck>>> {
    let stop = cancel.clone();
    Ok(run_in_order(files.len(), workers, cancel, move |index| {
        let path = files.get(index).map_or("", String::as_str);
        ControlFlow::Continue(verify_file(path, &options, &stop))
    })?)
}

/// Checks one file on the calling thread.
///
/// # Errors
/// Cancellation, and when a temporary copy cannot be written.
pub fn verify_file(path: &str, options: &VerifyOptions, cancel: &Cancel) -> Result<FileCheck> {
    let object = match store_of(path).and_then(|store| store.open(path)) {
        Ok(object) => object,
        Err(error) => {
            let mut check = FileCheck::new(path, FileFormat::Unknown, options.max_problems);
            check.report(Problem::new(Rule::Readable, reason(&error)));
            return Ok(check);
        }
    };
    let format = FileFormat::of(&*object);
    let mut check = FileCheck::new(path, format, options.max_problems);
    check.bytes = object.size();
    match format {
        FileFormat::Tar if is_plain_webdataset(path, options) => table::verify_table(path, Format::WebDataset, cancel, &mut check)?,
        FileFormat::Tar => tar::verify_tar(path, options, cancel, &mut check)?,
        FileFormat::Orc => table::verify_table(path, Format::Orc, cancel, &mut check)?,
        FileFormat::Csv => table::verify_table(path, Format::Csv, cancel, &mut check)?,
        FileFormat::Jsonl => table::verify_table(path, Format::Jsonl, cancel, &mut check)?,
        FileFormat::Parquet => parquet::verify_parquet(&object, options, cancel, &mut check)?,
        FileFormat::ArrayRecord => arrayrecord::verify_arrayrecord(object, cancel, &mut check)?,
        FileFormat::MdsIndex => mds::verify_index(path, cancel, &mut check)?,
        FileFormat::JsonlIndex => table::verify_text_index(path, cancel, &mut check)?,
        FileFormat::Mds => {
            let name = path.rsplit('/').next().unwrap_or(path);
            mds::verify_shard(object, None, name, cancel, &mut check)?;
        }
        FileFormat::Image => {
            let whole = 0..object.size();
            report_image(ImageBytes::Member(&*object, &whole), &mut check, |problem| problem);
        }
        FileFormat::Unknown => check.report(Problem::new(Rule::Readable, UNKNOWN)),
    }
    Ok(check)
}

/// Whether a tar is a WebDataset of plain samples: none of its first JSON members has the texts or images of a document. If the caller names a
/// layout, or damage hides all members, the tar is treated as documents.
fn is_plain_webdataset(path: &str, options: &VerifyOptions) -> bool {
    if options.layout != Layout::Auto || options.is_renumbered {
        return false;
    }
    let Ok(archive) = Archive::open(path) else { return false };
    if archive.members.is_empty() {
        // Nothing is read from this compression; the reader of rows says so.
        return archive.is_compressed && archive.damage.is_some();
    }
    let samples = options.keys.documents(&archive, DecodeLimit::default()).into_iter().take(SAMPLES_ASKED);
    let samples = samples.filter_map(|index| archive.members.get(index));
    let objects: Vec<_> = samples.map(|member| read_object(&archive, member, DecodeLimit::default()).ok()).collect();
    objects.is_empty() || objects.iter().any(Option::is_some) && !objects.iter().flatten().any(|object| options.keys.has_lists(object))
}

/// Checks one image and returns the number of its pages; `place` adds the position to a problem.
fn report_image(bytes: ImageBytes<'_>, check: &mut FileCheck, place: impl Fn(Problem) -> Problem) -> Option<usize> {
    match ImageHeader::read(bytes, Depth::Copies) {
        Ok(header) => {
            let broken = header.pages.iter().filter_map(|page| page.as_ref().err()).chain(&header.broken_chain);
            for what in broken {
                check.report(place(Problem::new(Rule::Image, what)));
            }
            Some(header.pages.len())
        }
        Err(what) => {
            check.report(place(Problem::new(Rule::Image, what)));
            None
        }
    }
}
