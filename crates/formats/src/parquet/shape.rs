//! What the schema of a file stands for, kept for the files after it: those of a data set mostly have the same one, and understanding it is half of the
//! work of opening a file.
//!
//! The invariant: files share what was made of a schema only where its bytes are equal, those of the keys and values beside it included.

use super::thrift::FooterParts;
use arrow_schema::SchemaRef;
use parquet::schema::types::SchemaDescPtr;
use std::sync::{Arc, OnceLock, RwLock};

/// Data sets that are opened in turns.
const KEPT: usize = 8;

/// A schema of more bytes is nobody's but its file's.
const MAX_KEPT_BYTES: usize = 1 << 20;

static KNOWN: RwLock<Vec<Arc<Shape>>> = RwLock::new(Vec::new());

/// A schema that the decoder has accepted.
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
    /// Where another thread is at it, nothing is known: a process that was forked meanwhile would wait forever.
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
