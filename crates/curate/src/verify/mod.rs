//! Checks whole files: all of a tar, a Parquet file, an ArrayRecord file or the shards of an MDS index, the header of an image.
//!
//! A path enters, a [`FileCheck`] leaves; called by the binding and by tests of the writers. The invariants: damage is a problem in the result, never
//! an error; every member and every row is looked at; memory is bounded by one JSON or one record batch.

mod arrayrecord;
mod document_order;
mod mds;
mod parquet;
mod problem;
mod tar;

use crate::Result;
use crate::error::reason;
use crate::file_format::FileFormat;
use crate::image_header::{Depth, ImageBytes, ImageHeader};
use crate::source::keys::SampleKeys;
use serde::{Deserialize, Serialize};
use shardmill_engine::{Cancel, Run, run_in_order};
use shardmill_storage::store_of;
use std::ops::ControlFlow;

pub use problem::{FileCheck, ModalityRows, Problem, Rule};

/// Which rules a tar must keep.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// Written, when one of the first samples begins with the keys that the sink writes first.
    #[default]
    Auto,
    /// Any shard that can be a source: entries may be opaque, other members may lie around.
    Source,
    /// As the sink writes: `sample_id`, lists of equal length, each image member named by one entry of its own sample.
    Written,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct VerifyOptions {
    pub layout: Layout,
    /// A filter ran: positions must be exactly 0..n−1, and no two rows share one.
    pub is_renumbered: bool,
    /// Problems that are kept of each file; all are counted.
    pub max_problems: usize,
    pub keys: SampleKeys,
}

impl Default for VerifyOptions {
    fn default() -> Self {
        Self { layout: Layout::Auto, is_renumbered: false, max_problems: 100, keys: SampleKeys::default() }
    }
}

impl VerifyOptions {
    /// # Errors
    /// [`crate::Error::Spec`] for text that is no such options.
    pub fn parse(text: &str) -> Result<Self> {
        Ok(serde_json::from_str(text)?)
    }
}

/// Checks all files on `workers` threads; results come in the order of the files.
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

/// Checks one file, on the calling thread.
///
/// # Errors
/// Cancellation, and a temporary copy that cannot be written.
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
        FileFormat::Tar => tar::verify_tar(path, options, cancel, &mut check)?,
        FileFormat::Parquet => parquet::verify_parquet(object, options, cancel, &mut check)?,
        FileFormat::ArrayRecord => arrayrecord::verify_arrayrecord(object, cancel, &mut check)?,
        FileFormat::MdsIndex => mds::verify_index(path, cancel, &mut check)?,
        FileFormat::Mds => {
            let name = path.rsplit('/').next().unwrap_or(path);
            mds::verify_shard(object, None, name, &mut check);
        }
        FileFormat::Image => {
            let whole = 0..object.size();
            report_image(ImageBytes::Member(&*object, &whole), &mut check, |problem| problem);
        }
        FileFormat::Unknown => check.report(Problem::new(Rule::Readable, "neither a tar nor Parquet nor ArrayRecord nor MDS nor an image")),
    }
    Ok(check)
}

/// Checks one image and gives the number of its pages; `place` says where a problem lies.
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
