//! Conditional uploads: their last request carries a precondition that the client of the store does
//! not send itself.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

/// Uploads whose last request may create an object and must not replace one.
#[derive(Debug, Default)]
pub(super) struct ConditionalUploads(Mutex<HashSet<String>>);

impl ConditionalUploads {
    pub(super) fn add(&self, upload: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(upload.to_owned());
    }

    pub(super) fn remove(&self, upload: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(upload);
    }

    pub(super) fn holds(&self, upload: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(upload)
    }

    /// Whether a request with this query belongs to such an upload.
    pub(super) fn has(&self, query: &str) -> bool {
        let uploads = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        !uploads.is_empty()
            && url::form_urlencoded::parse(query.as_bytes())
                .any(|(name, value)| name == "uploadId" && uploads.contains(&*value))
    }
}
