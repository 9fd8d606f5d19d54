//! Plans what is read, before any data is read.
//!
//! [`Split`]s and [`Expression`]s are created from paths and options. Called once by the driver of
//! a run; the splits are then passed to the engine. The invariant: the same files and options give
//! the same splits, in the same order, on any machine.

mod data_files;
mod discover;
mod error;
mod expression;
pub mod images;
mod lake;
mod literal;
pub mod names;
pub mod order;
pub mod packing;
mod partitions;
mod patterns;
mod predicate;
pub mod prune;
pub mod schema;
mod split;

pub use data_files::{
    DataFile, Listing, SIDE_CARS, SideCar, accompanies, data_files, listing, refuse_repeated,
};
pub use discover::{FilePart, InputFile, visible_files};
pub use error::{Error, Result};
pub use expression::{Arithmetic, Comparison, Computed, Expression, Operand};
pub use lake::Lake;
pub use literal::{Literal, unit_name};
pub use partitions::Partitions;
pub use predicate::Predicate;
pub use split::{Partitioning, Replaced, Split, Unit, partition};
