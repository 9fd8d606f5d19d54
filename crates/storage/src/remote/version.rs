//! Identifies the version of an object.

use crate::Identity;
use object_store::ObjectMeta;
use xxhash_rust::xxh3::xxh3_64;

/// The size and the tag that a store assigns to each version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Version {
    pub(super) size: u64,
    /// Without quotes. If the store sends none, the modification time is used.
    tag: Option<String>,
    modified_ns: i64,
    is_weak: bool,
}

impl Version {
    pub(super) fn of(meta: &ObjectMeta) -> Self {
        let tag = meta.e_tag.as_deref().map(str::trim).filter(|tag| !tag.is_empty());
        let strong = tag.map(|tag| tag.trim_start_matches("W/").trim_matches('"').to_owned());
        let modified_ns = meta.last_modified.timestamp_nanos_opt().unwrap_or_default();
        Self {
            size: meta.size,
            is_weak: tag.is_some_and(|tag| tag.starts_with("W/")),
            tag: strong,
            modified_ns,
        }
    }

    /// The precondition that makes a server reject requests for another version.
    pub(super) fn condition(&self) -> Option<String> {
        // A weak tag never matches.
        self.tag.as_ref().filter(|_| !self.is_weak).map(|tag| format!("\"{tag}\""))
    }

    /// Whether another version of the same size would have another mark.
    pub(super) fn is_told(&self) -> bool {
        self.tag.is_some() || self.modified_ns != 0
    }

    pub(super) fn is_other_than(&self, answered: &Self) -> bool {
        let by_tag =
            matches!((&self.tag, &answered.tag), (Some(ours), Some(theirs)) if ours != theirs);
        // Listings and responses round the time differently; it is compared only if there is no
        // tag, in whole seconds.
        let by_time = (self.tag.is_none() || answered.tag.is_none())
            && self.modified_ns / 1_000_000_000 != answered.modified_ns / 1_000_000_000;
        self.size != answered.size || by_tag || by_time
    }

    /// The tag takes the place of the time: two versions in one second have two tags.
    pub(super) fn identity(&self) -> Identity {
        let mark = self.tag.as_ref().map_or(self.modified_ns, |tag| {
            i64::try_from(xxh3_64(tag.as_bytes()) >> 1).unwrap_or_default()
        });
        Identity { size: self.size, modified_ns: i128::from(mark) }
    }

    /// Identifies the version for caches.
    pub(super) fn mark(&self) -> String {
        self.tag.clone().unwrap_or_else(|| self.modified_ns.to_string())
    }
}
