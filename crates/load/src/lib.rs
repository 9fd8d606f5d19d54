//! Data sets, and the driver that produces batches for one rank.
//!
//! A [`Dataset`] is opened from paths: it has files, one schema and blocks, but no rows yet. A
//! [`Pass`] delivers the batches of one rank from one position of an epoch on, given a data set, a
//! filter and an order. Called by the binding. The invariant: the rows of a batch depend only on
//! the plan; threads, budgets and earlier passes only affect when it is ready.

pub mod arrayrecord;
pub mod columns;
mod converter;
pub mod dataset;
mod dictionary;
mod error;
pub mod explain;
pub mod fingerprint;
pub mod images;
mod offsets;
pub mod packing;
pub mod pass;
mod row_plan;
pub mod row_set;
pub mod sequences;
mod spent;
mod take;
pub mod tokenize;

pub use converter::{Delivery, OutputConverter, OutputKind, PADDED};
pub use dataset::{
    Dataset, DatasetOptions, Derive, DocumentOptions, DocumentRows, FileOpener, Format, HiveKeys,
    IndexedFile, LateTypes, LeftOut, MdsShards, MixedSource, Nan, OpenFile, TableColumn,
    TableDataFile, TableOptions, TableReader, TextForm, TextOptions, TextSample, TextShard,
    TokenFileOptions, Underivable, column_of, disagreement, files_of_one_format, has_token_index,
    indexed_files, is_plain_pair, label_masks, listing_of_pair, open_files, rebuild_index,
    signature_of, text_files, text_sample,
};
pub use error::{Error, PathFault, Result, UnderivableRow};
pub use pass::{
    Audit, AuditIds, BadRow, BadRowPolicy, OnBadRows, Pass, PassOptions, Superbatch, expected_audit,
};
pub use row_plan::{Explanation, RowPlan, Share};
pub use row_set::RowSet;
pub use take::take;
