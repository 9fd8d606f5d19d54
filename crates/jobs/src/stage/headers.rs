//! Filters on the sizes of images, which are read from their headers.

use crate::Result;
use crate::report::SplitReport;
use serde::{Deserialize, Serialize};
use shardmill_documents::locate::note_read_error;
use shardmill_documents::payload::HeaderError;
use shardmill_documents::settle::apply_verdict;
use shardmill_documents::{Chunk, Modality, Row};
use shardmill_images::ImageSize;

/// Keeps images whose aspect ratio is in a closed range.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AspectRatioFilter {
    pub min: f64,
    pub max: f64,
    pub drop_invalid_rows: bool,
}

/// Keeps images that are neither too small nor too large.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SizeFilter {
    /// Of the shorter side.
    pub min_side: Option<u32>,
    pub max_pixels: Option<u64>,
    pub drop_invalid_rows: bool,
}

enum Verdict {
    Keep,
    Drop,
    NoSize,
}

impl AspectRatioFilter {
    pub(crate) fn apply(&self, chunk: &mut Chunk, report: &mut SplitReport) -> Result<()> {
        let is_kept = |size: ImageSize| {
            size.aspect_ratio().is_some_and(|ratio| (self.min..=self.max).contains(&ratio))
        };
        apply("aspect ratio out of range", self.drop_invalid_rows, is_kept, chunk, report)
    }
}

impl SizeFilter {
    pub(crate) fn apply(&self, chunk: &mut Chunk, report: &mut SplitReport) -> Result<()> {
        let is_kept = |size: ImageSize| {
            let pixels = u64::from(size.width) * u64::from(size.height);
            self.min_side.is_none_or(|least| size.width.min(size.height) >= least)
                && self.max_pixels.is_none_or(|most| pixels <= most)
        };
        apply("image size out of range", self.drop_invalid_rows, is_kept, chunk, report)
    }
}

/// Drops the images that are not kept, and counts them under `reason`.
fn apply(
    reason: &'static str,
    drop_invalid_rows: bool,
    is_kept: impl Fn(ImageSize) -> bool,
    chunk: &mut Chunk,
    report: &mut SplitReport,
) -> Result<()> {
    let (mut dropped, mut no_size) = (0, 0);
    let keep = chunk.rows.iter_mut().map(|row| {
        Ok(match judge(row, &is_kept)? {
            Verdict::Keep => true,
            Verdict::Drop => {
                dropped += 1;
                false
            }
            Verdict::NoSize => {
                no_size += 1;
                false
            }
        })
    });
    let keep = keep.collect::<Result<_>>()?;
    report.ledger.drop_rows(reason, dropped);
    report.ledger.drop_rows("image header unreadable", no_size);
    apply_verdict(chunk, keep, drop_invalid_rows, &mut report.ledger);
    Ok(())
}

fn judge(row: &mut Row, is_kept: impl Fn(ImageSize) -> bool) -> Result<Verdict> {
    // An image without bytes is not judged; the error policy applies to such rows.
    if row.modality != Modality::Image || row.error.is_some() || row.payload.is_absent() {
        return Ok(Verdict::Keep);
    }
    Ok(match row.payload.image_size(|| row.frame()) {
        Ok(size) => {
            row.payload.note_size(size);
            if is_kept(size) { Verdict::Keep } else { Verdict::Drop }
        }
        Err(HeaderError::Storage(error)) => {
            note_read_error(row, error)?;
            Verdict::Keep
        }
        Err(HeaderError::Image(_) | HeaderError::EndsEarly) => Verdict::NoSize,
    })
}
