//! Threads that run splits: a lazy pool, ordered delivery, core slots, cancellation.
//!
//! Functions are run for split numbers, and results are delivered in split order; used by the
//! curate driver and the loader. The invariant: in all cases — an error, a panic, a fork, a caller
//! that drops the run — no call blocks forever and no thread outlives its process.
//!
//! The engine is independent of formats. It runs functions of a split number.

mod cancel;
mod crew;
mod error;
mod ordered;
mod pool;
mod run;
mod slots;
mod stream;

pub use cancel::Cancel;
pub use crew::{crew_size, has_idle_thread, resting, spread};
pub use error::{Error, Result};
pub use ordered::{Poll, STOP_PATIENCE};
pub use pool::Pool;
pub use run::{Run, run_in_order, run_until_error};
pub use slots::{CANCEL_POLL, CoreSlot, CoreSlots};
pub use stream::{Stream, stream_in_order};
