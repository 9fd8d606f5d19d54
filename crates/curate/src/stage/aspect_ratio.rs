//! Keeps images whose aspect ratio is in a closed range, judged by their headers.

use crate::chunk::{Chunk, Modality, Row};
use crate::locate::read_error;
use crate::payload::SizeError;
use crate::report::SplitReport;
use crate::source_ref::SourceRef;
use crate::stage::rows::apply_verdict;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AspectRatioFilter {
    pub min: f64,
    pub max: f64,
    pub drop_invalid_rows: bool,
}

enum Verdict {
    Keep,
    OutOfRange,
    NoSize,
}

impl AspectRatioFilter {
    pub(crate) fn apply(&self, chunk: &mut Chunk, report: &mut SplitReport) {
        let (mut out_of_range, mut no_size) = (0, 0);
        let keep = chunk.rows.iter_mut().map(|row| match self.judge(row) {
            Verdict::Keep => true,
            Verdict::OutOfRange => {
                out_of_range += 1;
                false
            }
            Verdict::NoSize => {
                no_size += 1;
                false
            }
        });
        let keep = keep.collect();
        report.drop_rows("aspect ratio out of range", out_of_range);
        report.drop_rows("image header unreadable", no_size);
        apply_verdict(chunk, keep, self.drop_invalid_rows, report);
    }

    fn judge(&self, row: &mut Row) -> Verdict {
        // An image without bytes is not judged; the error policy applies to such rows.
        if row.modality != Modality::Image || row.error.is_some() || row.payload.is_absent() {
            return Verdict::Keep;
        }
        match row.payload.image_size(|| row.frame()) {
            Ok(size) => {
                row.payload.note_size(size);
                match size.aspect_ratio() {
                    Some(ratio) if (self.min..=self.max).contains(&ratio) => Verdict::Keep,
                    Some(_) => Verdict::OutOfRange,
                    None => Verdict::NoSize,
                }
            }
            Err(SizeError::Storage(_)) => {
                row.error = Some(read_error(&SourceRef::parse(row.source_ref.as_deref()).unwrap_or_default()));
                Verdict::Keep
            }
            Err(SizeError::Image(_)) => Verdict::NoSize,
        }
    }
}
