//! Keeps samples whose number of images per word is in a closed range.

use crate::report::SplitReport;
use serde::{Deserialize, Serialize};
use shardmill_documents::settle::apply_verdict;
use shardmill_documents::{Chunk, Modality};

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImageToTextRatioFilter {
    pub min: f64,
    pub max: f64,
    pub drop_invalid_rows: bool,
}

impl ImageToTextRatioFilter {
    pub(crate) fn apply(&self, chunk: &mut Chunk, report: &mut SplitReport) {
        let mut keep = vec![true; chunk.rows.len()];
        let mut dropped = 0;
        for range in chunk.document_ranges() {
            let rows = chunk.rows.get(range.clone()).unwrap_or_default();
            let images = rows.iter().filter(|row| row.modality == Modality::Image).count();
            let texts = rows
                .iter()
                .filter(|row| row.modality == Modality::Text)
                .filter_map(|row| row.text.as_deref());
            let words: usize = texts.map(|text| text.split_whitespace().count()).sum();
            let ratio = count(images) / count(words.max(1));
            if !(self.min..=self.max).contains(&ratio) {
                dropped += range.len() as u64;
                keep.get_mut(range).unwrap_or_default().fill(false);
            }
        }
        report.ledger.drop_rows("image-to-text ratio out of range", dropped);
        apply_verdict(chunk, keep, self.drop_invalid_rows, &mut report.ledger);
    }
}

fn count(number: usize) -> f64 {
    u32::try_from(number).map_or(f64::INFINITY, f64::from)
}
