//! The report of one split: counts, seconds, outputs, and everything that was skipped.

use serde::{Deserialize, Serialize};
use shardmill_documents::{Counts, Ledger};
use std::collections::BTreeMap;
use std::time::Duration;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StageReport {
    pub name: String,
    pub seconds: f64,
    pub rows_in: u64,
    pub rows_out: u64,
    pub images_in: u64,
    pub images_out: u64,
    pub input_bytes: u64,
    /// Documents processed.
    pub items: u64,
    pub custom: BTreeMap<String, f64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputFile {
    pub path: String,
    pub batch: usize,
    pub sources: Vec<String>,
    pub samples: u64,
    pub rows: u64,
    pub bytes: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SplitReport {
    pub split: usize,
    pub files: Vec<String>,
    pub input_bytes: u64,
    #[serde(flatten)]
    pub ledger: Ledger,
    pub output: Counts,
    pub outputs: Vec<OutputFile>,
    /// In pipeline order: source, stages, sink.
    pub stages: Vec<StageReport>,
    /// Rows created by a stage, by its name.
    pub rows_added: BTreeMap<String, u64>,
    pub duplicate_sample_ids: u64,
}

impl SplitReport {
    pub fn add_rows(&mut self, reason: &str, rows: u64) {
        if rows > 0 {
            *self.rows_added.entry(reason.to_owned()).or_default() += rows;
        }
    }

    /// The entry of the stage at `index`, created if it is missing.
    #[expect(clippy::indexing_slicing, reason = "the index was made to exist")]
    pub fn stage(&mut self, index: usize, name: &str) -> &mut StageReport {
        while self.stages.len() <= index {
            self.stages.push(StageReport::default());
        }
        // The loop above made the entry; `stages` cannot be empty here.
        let last = self.stages.len() - 1;
        let stage = &mut self.stages[index.min(last)];
        if stage.name.is_empty() {
            name.clone_into(&mut stage.name);
        }
        stage
    }
}

impl StageReport {
    pub fn spend(&mut self, time: Duration) {
        self.seconds += time.as_secs_f64();
    }

    pub fn custom(&mut self, metric: &str, value: f64) {
        *self.custom.entry(metric.to_owned()).or_default() += value;
    }
}
