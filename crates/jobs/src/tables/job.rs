//! What the splits of a table job have in common.

use super::{IdPolicy, TableOptions};
use crate::pipeline::Choices;
use crate::results::Turn;
use crate::sink::{Publishing, SinkOptions};
use crate::stage::Stage;
use shardmill_engine::Cancel;
use shardmill_load::TableReader;

/// State shared by all splits of a job.
#[derive(Clone, Copy)]
pub(crate) struct TableJob<'a> {
    pub options: &'a TableOptions,
    pub reader: &'a TableReader,
    pub stages: &'a [Stage],
    pub sink: &'a SinkOptions,
    pub choices: &'a Choices,
    pub turn: &'a Turn<'a>,
    pub ids: &'a IdPolicy,
    pub publishing: Publishing<'a>,
    pub cancel: &'a Cancel,
    /// Approximate number of bytes of rows in memory.
    pub chunk_bytes: u64,
}
