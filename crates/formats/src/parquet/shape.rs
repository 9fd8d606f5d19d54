//! Caches the decoded schema for the next files: those of a data set usually have the same one, and decoding it is half of the work of opening a
//! file.
//!
//! The invariant: files share a decoded schema only if its bytes are equal, including those of the key-value metadata.

use super::thrift::FooterParts;
use arrow_schema::SchemaRef;
use parquet::schema::types::SchemaDescPtr;
use std::sync::{Arc, OnceLock, RwLock};

/// Number of data sets that can be opened in turns.
const KEPT: usize = 8;

/// Larger schemas are not cached.
const MAX_KEPT_BYTES: usize = 1 << 20;

static KNOWN: RwLock<Vec<Arc<Shape>>> = RwLock::new(Vec::new());

/// A schema accepted by the decoder.
#[derive(Debug)]
pub(super) struct Shape {
    schema_bytes: Box<[u8]>,
    pair_bytes: Box<[u8]>,
    pub(super) descriptor: SchemaDescPtr,
    /// Types as the file declares them.
    pub(super) declared: SchemaRef,
    /// With views in place of strings and binaries, once the decoder has accepted that as well.
    pub(super) views: OnceLock<SchemaRef>,
}

impl Shape {
    /// `None` while another thread holds the lock: a process forked meanwhile would wait forever.
    pub(super) fn known(parts: FooterParts<'_>) -> Option<Arc<Self>> {
        let known = KNOWN.try_read().ok()?;
        known.iter().find(|shape| *shape.schema_bytes == *parts.schema && *shape.pair_bytes == *parts.pairs).map(Arc::clone)
    }

    pub(super) fn remember(parts: FooterParts<'_>, descriptor: SchemaDescPtr, declared: SchemaRef) -> Arc<Self> {
        let (schema_bytes, pair_bytes) = (parts.schema.into(), parts.pairs.into());
        let shape = Arc::new(Self { schema_bytes, pair_bytes, descriptor, declared, views: OnceLock::new() });
        if parts.schema.len() + parts.pairs.len() <= MAX_KEPT_BYTES
            && let Ok(mut known) = KNOWN.try_write()
        {
            known.truncate(KEPT - 1);
            known.insert(0, Arc::clone(&shape));
        }
        shape
    }
}
