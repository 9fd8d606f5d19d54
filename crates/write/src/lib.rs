//! The driver that turns rows into files.
//!
//! Rows enter one by one, threads encode them, a file under its final name leaves. Called by the binding. The invariants: what is written does not depend on
//! the number of threads, and nothing is visible before it is whole.

pub mod arrayrecord;
mod encoded;
mod error;

pub use error::{Error, Result};
