//! What a pass is doing, for another thread.

use super::blocks::Blocks;
use super::metrics::{Activity, Metrics, MetricsReport, Start};
use crate::{Dataset, RowSet};
use shardmill_plan::order::RowOrder;
use std::sync::Arc;
use std::time::Instant;

/// The progress of a pass.
#[derive(Debug, Clone)]
pub struct Progress {
    pub(super) blocks: Arc<Blocks>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) places: Places,
    pub(super) process: u32,
}

impl Progress {
    #[must_use]
    pub fn report(&self) -> MetricsReport {
        // A forked child has none of the threads of the pass, and one
        // of them may have held the lock.
        let is_running = self.process == std::process::id();
        let (superbatches_ahead, bytes_ahead) =
            if is_running { self.blocks.ahead() } else { (0, 0) };
        MetricsReport {
            superbatches_ahead,
            bytes_ahead,
            bytes_limit: self.blocks.limit(),
            ..self.metrics.report()
        }
    }

    /// Current activities of the threads, the longest first.
    #[must_use]
    pub fn activities(&self) -> Vec<Activity> {
        let now = Instant::now();
        let of_start = |(stage, scheduled, begun): Start| Activity {
            stage,
            block: scheduled.and_then(|scheduled| self.places.of(scheduled)),
            duration: now - begun,
        };
        self.metrics.activities().into_iter().map(of_start).collect()
    }
}

/// Where the blocks of a pass are stored.
#[derive(Debug, Clone)]
pub(super) struct Places {
    pub(super) dataset: Arc<Dataset>,
    pub(super) rows: Arc<RowSet>,
    pub(super) order: Arc<RowOrder>,
}

impl Places {
    /// Path and number of a scheduled block.
    fn of(&self, scheduled: usize) -> Option<(String, usize)> {
        let place = self.rows.blocks().get(self.order.block(scheduled)?)?.place;
        Some((self.dataset.files().get(place.file)?.path.clone(), place.block))
    }
}
