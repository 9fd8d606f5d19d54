//! Which row comes when: row set → order → lanes → global batches → the slice of a rank.
//!
//! A seed, an epoch and block sizes enter; the rows of any step leave, evaluated on demand. The invariant: the sequence of global batches depends on the
//! row set, seed, epoch, shuffle settings, lanes and batch size, and on nothing else — not on ranks, threads or what was read before.
//!
//! ```text
//! row set --RowOrder--> plan order --Lanes--> global sequence --Steps--> slice of a rank
//! ```
//!
//! Nothing here needs memory for each row: a permutation is a function, a window plan has one entry a block.

mod lanes;
mod permutation;
mod steps;
mod uneven;
mod window;

pub use lanes::Lanes;
pub use permutation::{ORDER_VERSION, Permutation, Purpose};
pub use steps::{RankSlice, StepRows, Steps, Tail};
pub use window::{Block, RowOrder, RowRange};
