//! Reads records of one ArrayRecord file: single ones by number, many on threads, or all in order.
//!
//! Called by the binding with a [`Reader`]. The invariant: the cost of reading one record does not
//! depend on the number of records in the file, and each record is returned in the requested
//! position, whatever order threads work in.

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
