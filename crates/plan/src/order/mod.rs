//! Which row comes when: row set → order → lanes → global batches → the slice of a rank.
//!
//! A seed, an epoch and block sizes enter; the rows of any step leave, evaluated on demand. The invariant: the sequence of global batches depends on the
//! row set, seed, epoch, shuffle settings, lanes and batch size, and on nothing else — not on ranks, threads or what was read before.
//!
//! ```text
//! row set --RowOrder--> plan order --Lanes--> global sequence --Steps--> slice of a rank
//!
//! several row sets --Pattern--> a draw from one of them --BlockOrder of its pass--> row
//! ```
//!
//! Nothing here needs memory for each row: a permutation is a function, a window plan has one entry a block, a mixture one a
//! source for each window of its pattern.

mod blend;
mod blocks;
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
pub use lanes::Lanes;
pub use mixture::{MixtureOptions, MixtureOrder};
pub use permutation::{ORDER_VERSION, Permutation, Purpose};
pub use row_order::{RowOrder, ScheduledBlocks};
pub use row_range::RowRange;
pub use steps::{RankSlice, StepRows, Steps, Tail};
