//! Packs rows of tokens: batches of `[packs, length]` tokens, with columns that separate the
//! documents in them.
//!
//! ```text
//! lengths of all rows --PackPlan--> packs --Steps--> packs of a superbatch
//!     --assemble--> tokens, segment ids, positions, document lengths
//! ```
//!
//! The token counts of all rows are computed once ([`Lengths`]); from then on packs are a plan like
//! any other (`shardmill_plan::packing`), from which the pass gets the rows of a superbatch. With
//! endless lanes ([`AheadPacks`]), the counts of a few windows are found while batches are planned.
//! Batches of whole rows are planned as packs are, and read as rows.
//! The invariant: a row is packed with the planned number of tokens, or an error names the row.

mod ahead;
mod amounts;
mod assemble;
mod columns;
mod decoded;
mod drawn;
mod error;
pub mod explain;
pub mod figures;
mod images;
mod lengths;
mod lengths_source;
mod lists;
mod packs;
mod rope;
mod row_counts;
mod rows;
mod shared;
pub mod work;

pub use ahead::{AheadEpoch, AheadPacks, PACK_WINDOW_ROWS, Passes};
pub(crate) use assemble::{SuperbatchParts, TokenPacks};
pub(crate) use columns::PackedImages;
pub use columns::{
    DOCUMENT_LENGTHS, LENGTHS, PADDED_LENGTHS, POSITIONS, PackColumns, PackForm, RowColumns,
    SEGMENT_IDS, TOKENS_OF_RANK, TOKENS_OF_STEP,
};
pub(crate) use drawn::DrawnPacks;
pub use error::{Error, Result};
pub(crate) use images::{ImageOrigin, ImagesOfPacks};
pub use lengths::Lengths;
pub use lengths_source::LengthsSource;
pub use packs::{Contents, PackSource, Packs, PlannedRows};
pub use row_counts::RowCounts;
pub(crate) use rows::RowParts;
