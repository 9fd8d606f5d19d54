//! Reads WebDataset shards of interleaved documents: one JSON member per sample, with images as separate members.
//!
//! Only headers, JSON and image directories are read here, not pixels. The JSON content of one split is in memory as a whole, because a column is the
//! union over the split and its type is known only at the end.

use crate::archive::Archive;
use crate::chunk::{Chunk, Lineage, Row};
use crate::json::json_text;
use crate::locate::{LocateError, may_input_open_later};
use crate::report::Quarantined;
use crate::schema::{SchemaChoice, canonical_schema};
use crate::source::columns::{Columns, Values};
use crate::source::named_keys::{NamedKeys, no_sample};
use crate::source::sample::{Draft, SampleReader};
use crate::source::webdataset_options::WebDatasetOptions;
use crate::source::{Emit, SplitContext, split_sources};
use crate::{Error, Result};
use serde_json::Value;
use shardmill_plan::Split;
use std::ops::Range;
use std::sync::Arc;

/// Reads one split and emits its chunks, at least one.
///
/// # Errors
/// Errors of `emit`, cancellation, and a store that does not respond. Damaged shards and samples are quarantined instead.
pub fn read_webdataset(
    split: &Split,
    options: &WebDatasetOptions,
    choice: &SchemaChoice,
    context: &mut SplitContext<'_>,
    emit: Emit<'_>,
) -> Result<()> {
    let mut columns = Columns::default();
    for field in options.fields.iter().flatten().chain(&options.per_image_fields).chain(&options.per_text_fields) {
        columns.number(field);
    }
    let mut drafts = Vec::new();
    for (file, input) in split.files.iter().enumerate() {
        context.cancel.check()?;
        match Archive::open_with(&input.path, options.ignore_zeros, options.limit()) {
            Ok(archive) => read_archive(&archive, file, options, &mut columns, context, &mut drafts)?,
            Err(error) if may_input_open_later(&error) => return Err(error.into()),
            Err(error) => context.quarantine(Quarantined::shard(&input.path, error.to_string()))?,
        }
    }
    // A file without samples has no columns, and must not determine the types of others.
    for field in context.filtered.iter().filter(|field| !drafts.is_empty() && options.is_passed(field)) {
        columns.number(field);
    }
    emit_drafts(split, options, choice, &columns, drafts, context, emit)
}

fn read_archive(
    archive: &Archive,
    file: usize,
    options: &WebDatasetOptions,
    columns: &mut Columns,
    context: &mut SplitContext<'_>,
    drafts: &mut Vec<Draft>,
) -> Result<()> {
    let is_located = context.is_located;
    let mut lists = NamedKeys::of_lists(&options.keys);
    let mut samples = 0_u64;
    for member in archive.members.iter().filter(|member| options.keys.is_sample(member)) {
        context.cancel.check()?;
        samples += 1;
        let mut reader = SampleReader { archive, options, columns, lists: &mut lists, report: context.report, is_located };
        match reader.read(member, file) {
            Ok(draft) => {
                for (column, value) in draft.rows.iter().flat_map(|(_, values)| values) {
                    columns.observe(*column, value);
                }
                drafts.push(draft);
            }
            Err(LocateError::Storage(error)) => return Err(error.into()),
            Err(LocateError::Row(reason)) => {
                let (name, offset) = (Some(member.name.clone()), Some(member.offset));
                context.quarantine(Quarantined { member: name, offset, ..Quarantined::part(&archive.path, reason) })?;
            }
        }
    }
    for (damage, is_shard) in archive.unreadable.iter().map(|damage| (damage, false)).chain(archive.damage.iter().map(|damage| (damage, true))) {
        let (member, offset) = (damage.member.clone(), Some(damage.offset));
        context.quarantine(Quarantined { member, offset, is_shard, ..Quarantined::part(&archive.path, &damage.reason) })?;
    }
    for warning in lists.warnings() {
        context.report.warn(warning);
    }
    if samples == 0 && !archive.members.is_empty() && archive.damage.is_none() {
        context.quarantine(Quarantined::shard(&archive.path, no_sample(&archive.members, &options.keys)))?;
    }
    Ok(())
}

fn emit_drafts(
    split: &Split,
    options: &WebDatasetOptions,
    choice: &SchemaChoice,
    columns: &Columns,
    drafts: Vec<Draft>,
    context: &mut SplitContext<'_>,
    emit: Emit<'_>,
) -> Result<()> {
    let sizes: Vec<u64> = drafts.iter().map(|draft| draft.rows.iter().map(|(row, values)| row.byte_size() + values_size(values)).sum()).collect();
    let batches = cut(&sizes, 0..sizes.len(), options.max_batch_bytes.unwrap_or(u64::MAX));
    let schema = choice.apply_counted(&canonical_schema(columns.fields()), context.report);
    let mut drafts = drafts.into_iter();
    for (batch, documents) in batches.iter().enumerate() {
        let files: Vec<usize> = drafts.as_slice().iter().take(documents.len()).map(|draft| draft.file).collect();
        let sources = split_sources(split, &files, (batches.len() > 1).then_some(batch));
        for chunk in cut(&sizes, documents.clone(), context.chunk_bytes) {
            context.cancel.check()?;
            let lineage = Lineage { batch, sources: sources.clone() };
            let (mut ids, mut rows, mut values) = (Vec::new(), Vec::new(), Vec::new());
            for draft in drafts.by_ref().take(chunk.len()) {
                ids.push(draft.id);
                rows.extend(draft.rows.into_iter().map(|(row, row_values)| numbered(row, row_values, ids.len() - 1, &mut values)));
            }
            let extras = columns.table(&values).map_err(Error::unfit("passthrough columns", "their schema"))?;
            emit(Chunk { documents: ids, rows, extras, schema: Arc::clone(&schema), lineage }, context)?;
        }
    }
    Ok(())
}

fn numbered(row: Row, row_values: Values, document: usize, values: &mut Vec<Values>) -> Row {
    let extra = if row_values.is_empty() {
        None
    } else {
        values.push(row_values);
        u32::try_from(values.len() - 1).ok()
    };
    Row { document, extra, ..row }
}

/// Approximate size of the values, for splitting batches.
fn values_size(values: &Values) -> u64 {
    let size = |value: &Value| match value {
        Value::Null => 0,
        Value::String(text) => text.len(),
        Value::Array(_) | Value::Object(_) => json_text(value).len(),
        _ => 8,
    };
    values.iter().map(|(_, value)| size(value) as u64).sum()
}

/// Divides `documents` into runs of at most `limit` bytes, with at least one document each; an empty input gives one empty run.
fn cut(sizes: &[u64], documents: Range<usize>, limit: u64) -> Vec<Range<usize>> {
    let mut runs = Vec::new();
    let (mut start, mut filled) = (documents.start, 0u64);
    for document in documents.clone() {
        let size = sizes.get(document).copied().unwrap_or_default();
        if document > start && filled.saturating_add(size) > limit {
            runs.push(start..document);
            (start, filled) = (document, 0);
        }
        filled = filled.saturating_add(size);
    }
    if start < documents.end || runs.is_empty() {
        runs.push(start..documents.end);
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_keep_the_limit_and_an_oversize_document_stands_alone() {
        assert_eq!(cut(&[3, 3, 3, 9, 1], 0..5, 6), [0..2, 2..3, 3..4, 4..5]);
        assert_eq!(cut(&[], 0..0, 6), std::slice::from_ref(&(0..0)));
    }
}
