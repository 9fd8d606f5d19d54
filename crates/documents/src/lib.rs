//! Interleaved documents: texts and images in reading order, with lazily located image bytes.
//!
//! A source reads files to [`Chunk`]s; jobs and writers use them. The path of a row:
//!
//! ```text
//! tar, Parquet or JSON → source → Chunk → (stages) → Bodies → writer
//! ```
//!
//! The invariants: images are never decoded to move them; a rejected image is never copied; every
//! input row is delivered, or counted in the [`Ledger`].

pub mod archive;
mod boundaries;
mod chunk;
mod error;
pub mod image_bytes;
pub mod json;
mod ledger;
pub mod locate;
pub mod materialize;
pub mod payload;
pub mod schema;
pub mod settle;
pub mod source;
pub mod source_ref;
pub mod table;
mod tiff_pages;

pub use boundaries::Boundaries;
pub use chunk::{Chunk, Lineage, Modality, Row};
pub use error::{Error, Result, counted, reason};
pub use ledger::{Counts, Ledger, Quarantined, RowError};
