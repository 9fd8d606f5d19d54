//! Tracks what is done: exact sets of ids, and the committed splits of a job.
//!
//! Arrow arrays of ids are converted to keys ([`keys`]); keys are stored in an index that is
//! mapped, not loaded ([`index`]). Of the attempts at a split, exactly one can create its record
//! ([`journal`]). Called by the driver of curation and by the binding. The invariant: unfinished
//! work never counts as done: a damaged file is rejected or rebuilt, and decisions never depend on
//! a hash of fewer than 128 bits.

mod done;
mod error;
mod footers;
pub mod index;
pub mod journal;
pub mod keys;

pub use done::DoneIds;
pub use error::{Error, Result};
pub use footers::{FooterCheck, KnownTypes};
