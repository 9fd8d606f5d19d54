//! The orders of all epochs.

use crate::RowSet;
use crate::packing::Passes;
use shardmill_plan::order::{Blend, MixtureOptions, RowOrder};
use std::sync::Arc;

#[derive(Debug, Clone)]
pub(super) struct Orders {
    /// `None` keeps file order.
    pub(super) window_bytes: Option<u64>,
    pub(super) seed: i64,
    pub(super) lanes: u64,
    pub(super) mixture: Option<Arc<Mixture>>,
}

/// A mixture of rows from several sources.
#[derive(Debug)]
pub(super) struct Mixture {
    pub(super) blend: Blend,
    /// Index of the first file of each source.
    pub(super) first_files: Vec<usize>,
}

impl Default for Orders {
    fn default() -> Self {
        Self { window_bytes: None, seed: 0, lanes: 1, mixture: None }
    }
}

impl Orders {
    pub(super) fn of(&self, rows: &RowSet, epoch: u64) -> RowOrder {
        let Self { window_bytes, seed, lanes, mixture } = self;
        match (mixture, *window_bytes) {
            (Some(mixture), window_bytes) => {
                let sources = &rows.order_blocks_by_source(&mixture.first_files);
                let options = MixtureOptions {
                    blend: &mixture.blend,
                    sources,
                    window_bytes,
                    seed: *seed,
                    lanes: *lanes,
                };
                RowOrder::mixed(options, epoch)
            }
            (None, None) => RowOrder::sequential(&rows.order_blocks()),
            (None, Some(window)) => RowOrder::shuffled(&rows.order_blocks(), window, *seed, epoch),
        }
    }

    /// In file order blocks only affect speed: small ones may be read together.
    pub(super) fn is_sequential(&self) -> bool {
        self.window_bytes.is_none()
    }

    pub(super) fn merged(&self, rows: &RowSet) -> Arc<RowSet> {
        Arc::new(rows.merged(self.lanes))
    }

    /// The order of all passes over `rows`, one after another.
    pub(super) fn endless(&self, rows: &Arc<RowSet>, num_rows: u64) -> (Arc<RowOrder>, Passes) {
        let passes = match (&self.mixture, self.window_bytes) {
            (Some(_), _) => Passes::Mixed,
            (None, Some(_)) => Passes::Shuffled,
            (None, None) => Passes::Files,
        };
        let (orders, of_rows) = (self.clone(), Arc::clone(rows));
        let always = (passes == Passes::Files).then(|| Arc::new(orders.of(rows, 0)));
        let order = RowOrder::endless(num_rows, move |pass| {
            always.clone().unwrap_or_else(|| Arc::new(orders.of(&of_rows, pass)))
        });
        (Arc::new(order), passes)
    }
}
