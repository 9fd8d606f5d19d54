//! What is already done: exact sets of ids, and the splits that a job has committed.
//!
//! Ids enter as Arrow arrays and become keys ([`keys`]); keys become an index that is mapped, never loaded ([`index`]). Splits enter as attempts and leave
//! as records that exactly one attempt can make ([`journal`]). Called by the driver of curation and by the binding. The invariant: nothing is taken for
//! done that is not: a damaged file is refused or made again, and no hash of fewer than 128 bits decides.

mod done;
mod error;
mod footers;
pub mod index;
pub mod journal;
pub mod keys;

pub use done::DoneIds;
pub use error::{Error, Result};
pub use footers::FooterCheck;
