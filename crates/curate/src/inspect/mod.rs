//! Summarizes the content of a file: samples, rows, sizes, first texts.
//!
//! Called by the binding. The invariants: of a tar, only headers and JSON are read; of a Parquet file, the image column is only read up to
//! [`InspectOptions::measure_bytes`]; damage is reported in the result, never raised.

mod arrayrecord;
mod mds;
mod parquet;
mod summary;
mod table;
mod tar;

use crate::Result;
use crate::error::reason;
use crate::file_format::FileFormat;
use crate::image_header::{Depth, ImageBytes, ImageHeader};
use crate::source::keys::SampleKeys;
use crate::verify::UNKNOWN;
use serde::{Deserialize, Serialize};
use shardmill_engine::{Cancel, Run, run_in_order};
use shardmill_load::Format;
use shardmill_storage::store_of;
use std::ops::ControlFlow;
use summary::Measures;

pub use arrayrecord::ArrayRecordSummary;
pub use summary::{ColumnSummary, DamageSummary, FirstText, ImageSizes, Inspection, RowGroupSummary, Spread};

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct InspectOptions {
    /// Number of first texts and image names in the result.
    pub first: usize,
    /// Texts are truncated to this many characters.
    pub text_len: usize,
    /// Approximate number of bytes of a Parquet image column that are read to measure images.
    pub measure_bytes: u64,
    /// Read concatenated tars to their last member.
    pub ignore_zeros: bool,
    pub keys: SampleKeys,
}

impl Default for InspectOptions {
    fn default() -> Self {
        Self { first: 3, text_len: 200, measure_bytes: 64 << 20, ignore_zeros: false, keys: SampleKeys::default() }
    }
}

impl InspectOptions {
    /// # Errors
    /// [`crate::Error::Spec`] for text that does not describe these options.
    pub fn parse(text: &str) -> Result<Self> {
        Ok(serde_json::from_str(text)?)
    }
}

/// Inspects all files on `workers` threads; results are in the order of the files.
///
/// # Errors
/// When no thread can be started.
pub fn inspect_files(files: Vec<String>, options: InspectOptions, workers: usize, cancel: &Cancel) -> Result<Run<Result<Inspection>>> {
    let stop = cancel.clone();
    Ok(run_in_order(files.len(), workers, cancel, move |index| {
        let path = files.get(index).map_or("", String::as_str);
        ControlFlow::Continue(inspect_file(path, &options, &stop))
    })?)
}

/// Inspects one file on the calling thread.
///
/// # Errors
/// Cancellation, and when a temporary copy cannot be written.
pub fn inspect_file(path: &str, options: &InspectOptions, cancel: &Cancel) -> Result<Inspection> {
    let object = match store_of(path).and_then(|store| store.open(path)) {
        Ok(object) => object,
        Err(error) => {
            let mut inspection = Inspection::new(path, FileFormat::Unknown, 0);
            inspection.damaged(reason(&error));
            return Ok(inspection);
        }
    };
    let format = FileFormat::of(&*object);
    let mut inspection = Inspection::new(path, format, object.size());
    match format {
        FileFormat::Tar => tar::inspect_tar(&object, options, cancel, &mut inspection)?,
        FileFormat::Parquet => parquet::inspect_parquet(object, options, cancel, &mut inspection)?,
        FileFormat::ArrayRecord => arrayrecord::inspect_arrayrecord(object, options, cancel, &mut inspection)?,
        FileFormat::Mds => mds::inspect_shard(object, &mut inspection),
        FileFormat::MdsIndex => mds::inspect_index(path, &mut inspection),
        FileFormat::JsonlIndex => table::inspect_text_index(path, cancel, &mut inspection),
        FileFormat::Orc => table::inspect_table(path, Format::Orc, cancel, &mut inspection),
        FileFormat::Csv => table::inspect_table(path, Format::Csv, cancel, &mut inspection),
        FileFormat::Jsonl => table::inspect_table(path, Format::Jsonl, cancel, &mut inspection),
        FileFormat::Image => {
            let mut measures = Measures::default();
            let header = ImageHeader::read(ImageBytes::Member(&*object, &(0..object.size())), Depth::Sizes);
            measures.file(&header);
            match header {
                Ok(header) => {
                    inspection.content_type(header.format.mime());
                    header.pages.iter().for_each(|page| measures.image(page.as_ref().ok().copied()));
                    let broken: Vec<String> = header.pages.into_iter().filter_map(std::result::Result::err).chain(header.broken_chain).collect();
                    broken.into_iter().for_each(|what| inspection.damaged(what));
                }
                Err(what) => inspection.damaged(what),
            }
            inspection.images = measures.finish();
            inspection.bytes_by_modality.image = object.size();
        }
        FileFormat::Unknown => inspection.damaged(UNKNOWN),
    }
    Ok(inspection)
}

/// The first characters of a text, with a mark at its end if it was truncated.
fn cut(text: &str, len: usize) -> String {
    match text.char_indices().nth(len) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}
