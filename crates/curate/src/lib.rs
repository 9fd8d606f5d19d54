//! Curation of interleaved documents: text and images in reading order, from shards to shards.
//!
//! A [`Spec`] describes a pipeline; a run produces output files and [`report::SplitReport`]s.
//! Called by the binding, once per split. The path of a row:
//!
//! ```text
//! source (WebDataset | Parquet) → Chunk → stages → materialize
//!     → sink (Parquet | WebDataset) → publish
//! ```
//!
//! The invariants: images are never decoded to move them; a rejected image is never copied; every
//! input row is written or counted.

pub mod archive;
mod checkpoint;
pub mod chunk;
mod error;
pub mod image_bytes;
pub mod input_files;
pub mod json;
pub mod locate;
pub mod materialize;
pub mod payload;
mod pipeline;
pub mod report;
pub mod results;
pub mod schema;
pub mod sink;
pub mod source;
pub mod source_ref;
mod spec;
pub mod stage;
pub mod table;
pub mod tables;
pub mod tiff_pages;

pub use checkpoint::{CheckpointOptions, Checkpointing, IdTypes};
pub use error::{Error, Result, StageFailure, counted, reason};
pub use pipeline::{Choices, Pipeline};
pub use spec::{SourceOptions, Spec, StageOptions};
pub use tables::Agreed;
