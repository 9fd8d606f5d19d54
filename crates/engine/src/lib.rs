//! Threads that run splits: a lazy pool, ordered delivery, a byte budget, cancellation.
//!
//! Split numbers and a function enter, results leave in split order; called by the curate driver and the loader. The invariant: whatever happens — an
//! error, a panic, a fork, a caller that walks away — no call blocks for ever and no thread outlives the process that made it.
//!
//! The engine knows no format. It runs functions of a split number.

mod budget;
mod cancel;
mod error;
mod pool;
mod run;
mod slots;
mod stream;

pub use budget::{ByteBudget, Permit};
pub use cancel::Cancel;
pub use error::{Error, Result};
pub use pool::Pool;
pub use run::{Poll, Run, STOP_PATIENCE, run_in_order, run_until_error};
pub use slots::{CoreSlot, CoreSlots};
pub use stream::{Stream, stream_in_order};
