//! Data sets, and the driver that turns them into batches for one rank.
//!
//! Paths enter, a [`Dataset`] leaves: files, one schema, blocks, no rows yet. A dataset, a filter and an order enter, a [`Pass`] leaves: the batches of one
//! rank from one position of an epoch on. Called by the binding. The invariant: which rows a batch holds follows from the plan alone; threads, budgets and
//! earlier passes decide only when it is ready.

pub mod arrayrecord;
pub mod columns;
mod converter;
pub mod dataset;
mod error;
pub mod explain;
pub mod fingerprint;
pub mod packing;
pub mod pass;
pub mod row_set;
mod take;

pub use converter::{Delivery, OutputConverter, OutputKind, PADDED};
pub use dataset::{
    Dataset, DatasetOptions, FileOpener, Format, IndexedFile, LeftOut, MdsShards, MixedSource, TableColumn, TableDataFile, TableOptions, TextShard,
    disagreement, files_of_one_format, has_nul, indexed_files, rebuild_index, signature_of, text_files,
};
pub use error::{Error, Result};
pub use pass::{Audit, AuditIds, BadRow, BadRowPolicy, OnBadRows, Pass, PassOptions, Superbatch, expected_audit};
pub use row_set::RowSet;
pub use take::take;
