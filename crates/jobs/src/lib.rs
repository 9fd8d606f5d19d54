//! Jobs: splits of tables or of interleaved documents → stages → files.
//!
//! A [`Spec`] describes a pipeline; a run produces output files and [`SplitReport`]s. Called by
//! the binding, once per split. The invariant: every input row is written or counted.

mod checkpoint;
mod error;
pub mod input_files;
mod pipeline;
mod report;
mod results;
mod sink;
mod spec;
pub mod stage;
mod tables;

pub use checkpoint::{CheckpointOptions, Checkpointing};
pub use error::{Error, Result, StageFailure};
pub use pipeline::{Choices, Pipeline};
pub use report::SplitReport;
pub use spec::{SourceOptions, Spec};
pub use stage::StageOptions;
pub use tables::{Agreed, Passed, Passes};
