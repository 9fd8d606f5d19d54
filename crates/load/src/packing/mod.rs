//! Rows of tokens → packs: batches of `[packs, length]` tokens, with what tells the documents in them apart.
//!
//! ```text
//! lengths of all rows --PackPlan--> packs --Steps--> packs of a superbatch --assemble--> tokens, segment ids, positions, document lengths
//! ```
//!
//! The token counts of all rows are found once ([`Lengths`]); from then on packs are a plan like any other (`shardmill_plan::packing`), and the pass asks
//! it which rows a superbatch needs. The invariant: a row is packed with the number of tokens that was planned, or it is an error that names the row.

mod assemble;
mod columns;
mod error;
pub mod explain;
mod lengths;
mod lists;
mod packs;

pub(crate) use assemble::SuperbatchParts;
pub use columns::{DOCUMENT_LENGTHS, POSITIONS, PackColumns, SEGMENT_IDS};
pub use error::{Error, Result};
pub use lengths::{Lengths, LengthsSource};
pub use packs::{Packs, PlannedRows};
