//! What the user fixes of the columns.

use crate::stage::{Stage, first_filters};
use arrow_schema::{FieldRef, Schema};
use shardmill_documents::schema::{RESCUED, SchemaChoice, is_reserved};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The columns fixed by the user, at both ends.
#[derive(Debug, Clone, Default)]
pub struct Choices {
    pub source: SchemaChoice,
    pub sink: SchemaChoice,
}

impl Choices {
    /// The columns that the source converts: types that the user states at the sink are stated
    /// there as well, unless a stage sees the columns before.
    pub(super) fn of_source(&self, stages: &[Stage]) -> SchemaChoice {
        let is_mapped = stages.iter().any(|stage| matches!(stage, Stage::Table(_)));
        if is_mapped || self.source.schema.is_some() {
            return self.source.clone();
        }
        let filtered: BTreeSet<&str> =
            first_filters(stages).flat_map(|filter| filter.columns()).collect();
        let is_new = |name: &str| {
            !is_reserved(name)
                && name != RESCUED
                && !filtered.contains(name)
                && !self.source.declares(name)
        };
        let at_sink = self
            .sink
            .schema
            .iter()
            .chain(&self.sink.overrides)
            .take(1)
            .flat_map(|schema| schema.fields());
        let at_source = self.source.overrides.iter().flat_map(|schema| schema.fields());
        let fields: Vec<FieldRef> =
            at_source.chain(at_sink.filter(|field| is_new(field.name()))).cloned().collect();
        SchemaChoice {
            schema: None,
            overrides: (!fields.is_empty()).then(|| Arc::new(Schema::new(fields))),
        }
    }
}
