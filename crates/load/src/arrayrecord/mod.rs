//! Records of one ArrayRecord file: one by number, many at once on threads, or all in order.
//!
//! A [`Reader`] enters, records leave as slices or as [`Gathered`] by a thread; called by the binding. The invariant: one record costs the same
//! however many the file has, and whatever order threads work in, each record lands in the place that asked for it.

mod batch;
mod gather;
mod reader;
mod recent;
mod sequence;

pub use batch::Batch;
pub use gather::{LargeBinary, gather};
pub use reader::{Found, Reader};
pub use sequence::Sequence;
pub use shardmill_formats::arrayrecord::Gathered;
