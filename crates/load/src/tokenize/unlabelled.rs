//! Rows in which a loss ignores all labels.

use std::sync::atomic::{AtomicBool, Ordering};

const KEEP: &str =
    "on_unlabelled=\"keep\" of sm.Labels delivers it, and a loss ignores all of its tokens";

/// Whether such a row was found.
#[derive(Debug, Default)]
pub(crate) struct Unlabelled(AtomicBool);

impl Unlabelled {
    /// Reports a row. If each row must have a label, this is an error with a hint; otherwise, only
    /// the first such row logs a warning.
    pub(crate) fn found(&self, is_required: bool) -> Result<(), (String, Option<String>)> {
        if is_required {
            return Err(("no token of the row has a label".to_owned(), Some(KEEP.to_owned())));
        }
        if !self.0.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                target: "shardmill.tokens",
                "a row has no token with a label, so a loss ignores it; \
                 on_unlabelled=\"raise\" of sm.Labels names such rows"
            );
        }
        Ok(())
    }
}
