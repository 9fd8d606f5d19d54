//! Determines the order of rows: row set → order → lanes → global batches → the slice of a rank.
//!
//! The rows of any step are computed on demand from seed, epoch and block sizes. The invariant: the
//! sequence of global batches depends only on the row set, seed, epoch, shuffle settings, lanes and
//! batch size — not on ranks, threads or earlier reads.
//!
//! ```text
//! row set --RowOrder--> plan order --Lanes--> global sequence --Steps--> slice of a rank
//!
//! several row sets --Pattern--> a draw from one of them --BlockOrder of its pass--> row
//! ```
//!
//! Memory does not grow with the number of rows: a permutation is a function, a window plan has one
//! entry per block, a mixture one per source for each window of its pattern.

mod blend;
mod blocks;
mod draws;
mod endless;
mod lanes;
mod mixture;
mod pattern;
mod permutation;
mod row_order;
mod row_range;
mod steps;
mod uneven;

pub use blend::Blend;
pub use blocks::Block;
pub use draws::Draw;
pub use lanes::Lanes;
pub use mixture::{MixtureOptions, MixtureOrder};
pub use permutation::{ORDER_VERSION, Permutation, Purpose};
pub use row_order::{RowOrder, ScheduledBlocks};
pub use row_range::RowRange;
pub use steps::{RankSlice, StepRows, Steps, Tail, part_of};
