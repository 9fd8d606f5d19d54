//! Reads WebDataset shards of interleaved documents: one JSON member per sample, with images as
//! separate members.
//!
//! Only headers, JSON and image directories are read here, not pixels. The JSON content of one
//! split is in memory as a whole, because the names of its outputs depend on the number of its
//! batches. The schema of the job decides the columns, see [`super::heads_schema`].

use crate::archive::Archive;
use crate::ledger::Quarantined;
use crate::locate::{LocateError, may_input_open_later};
use crate::schema::JobSchema;
use crate::source::draft::{Draft, chunk_of};
use crate::source::named_keys::{NamedKeys, no_sample, warn_of_unnamed};
use crate::source::row_lists::RowLists;
use crate::source::sample::SampleReader;
use crate::source::values::JobColumns;
use crate::source::webdataset_options::WebDatasetOptions;
use crate::source::{Emit, SplitContext, split_sources};
use crate::{Error, Lineage, Result};
use shardmill_formats::tar::Member;
use shardmill_plan::Split;
use std::collections::HashSet;
use std::ops::Range;

/// Reads one split and emits its chunks, at least one.
///
/// # Errors
/// Errors of `emit`, cancellation, a store that does not respond, and a value that a declared type
/// does not hold. Damaged shards and samples are quarantined instead.
pub fn read_webdataset(
    split: &Split,
    options: &WebDatasetOptions,
    job: JobSchema<'_>,
    context: &mut SplitContext<'_>,
    emit: Emit<'_>,
) -> Result<()> {
    let columns = JobColumns::new(job);
    // Counts the columns that the choice of the user leaves out.
    let _target = job.choice.apply_counted(job.agreed, context.ledger);
    let (mut drafts, mut row_lists) = (Vec::new(), RowLists::default());
    for (file, input) in split.files.iter().enumerate() {
        context.cancel.check()?;
        match Archive::open_with(&input.path, options.ignore_zeros, options.limit()) {
            Ok(archive) => {
                let mut samples = Samples {
                    options,
                    columns: &columns,
                    row_lists: &mut row_lists,
                    drafts: &mut drafts,
                };
                samples.read(&archive, file, context)?;
            }
            Err(error) if may_input_open_later(&error) => return Err(error.into()),
            Err(error) => context.quarantine(Quarantined::shard(&input.path, error.to_string()))?,
        }
    }
    for warning in row_lists.warnings() {
        context.ledger.warn(warning);
    }
    emit_drafts(split, options, &columns, drafts, context, emit)
}

/// What the archives of a split have in common.
struct Samples<'a> {
    options: &'a WebDatasetOptions,
    columns: &'a JobColumns<'a>,
    row_lists: &'a mut RowLists,
    drafts: &'a mut Vec<Draft>,
}

impl Samples<'_> {
    fn read(
        &mut self,
        archive: &Archive,
        file: usize,
        context: &mut SplitContext<'_>,
    ) -> Result<()> {
        let Self { options, columns, row_lists, drafts } = self;
        let is_located = context.is_located;
        let mut lists = NamedKeys::of_lists(&options.keys);
        let documents = options.keys.documents(archive, options.limit());
        let mut named: HashSet<usize> = documents.iter().copied().collect();
        let mut broken = HashSet::new();
        for member in documents.iter().filter_map(|index| archive.members.get(*index)) {
            context.cancel.check()?;
            let mut reader = SampleReader {
                archive,
                options,
                columns,
                lists: &mut lists,
                row_lists,
                ledger: context.ledger,
                named: &mut named,
                is_located,
            };
            match reader.read(member, file) {
                Ok(draft) => {
                    draft.rescued().for_each(|key| context.ledger.rescue(key));
                    drafts.push(draft);
                }
                Err(LocateError::Storage(error)) => return Err(error.into()),
                Err(LocateError::Row(reason)) => {
                    broken.extend(options.keys.stem_of(member));
                    context.quarantine(of_member(archive, member, reason))?;
                }
            }
        }
        quarantine_damage(archive, options, context)?;
        for warning in lists.warnings() {
            context.ledger.warn(warning);
        }
        if archive.damage.is_some() || archive.members.is_empty() {
            return Ok(());
        }
        if documents.is_empty() {
            return context.quarantine(Quarantined::shard(
                &archive.path,
                no_sample(&archive.members, &options.keys),
            ));
        }
        // The images of a quarantined document went with it.
        let is_of_broken = |name: &str| {
            name.match_indices('.')
                .any(|(dot, _)| name.get(..dot).is_some_and(|stem| broken.contains(stem)))
        };
        let unnamed = archive
            .members
            .iter()
            .enumerate()
            .filter(|(index, _)| !named.contains(index))
            .map(|(_, member)| member);
        let unnamed = unnamed.filter(|member| broken.is_empty() || !is_of_broken(&member.name));
        warn_of_unnamed(unnamed, &options.keys, context.ledger);
        Ok(())
    }
}

/// Reports what cannot be read of an archive, and links that lead nowhere: those that are documents
/// are quarantined.
fn quarantine_damage(
    archive: &Archive,
    options: &WebDatasetOptions,
    context: &mut SplitContext<'_>,
) -> Result<()> {
    for (damage, is_shard) in archive
        .unreadable
        .iter()
        .map(|damage| (damage, false))
        .chain(archive.damage.iter().map(|damage| (damage, true)))
    {
        let (member, offset) = (damage.member.clone(), Some(damage.offset));
        context.quarantine(Quarantined {
            member,
            offset,
            is_shard,
            ..Quarantined::part(&archive.path, &damage.reason)
        })?;
    }
    for (member, fault) in archive.lost.values() {
        if options.keys.stem_of(member).is_some() {
            context.quarantine(of_member(archive, member, fault.to_string()))?;
        } else {
            context.ledger.warn("a link that does not point to a file of its archive");
        }
    }
    Ok(())
}

fn of_member(archive: &Archive, member: &Member, reason: String) -> Quarantined {
    Quarantined {
        member: Some(member.name.clone()),
        offset: Some(member.offset),
        ..Quarantined::part(&archive.path, reason)
    }
}

fn emit_drafts(
    split: &Split,
    options: &WebDatasetOptions,
    columns: &JobColumns<'_>,
    drafts: Vec<Draft>,
    context: &mut SplitContext<'_>,
    emit: Emit<'_>,
) -> Result<()> {
    let sizes: Vec<u64> = drafts.iter().map(Draft::byte_size).collect();
    let batches = cut(&sizes, 0..sizes.len(), options.max_batch_bytes.unwrap_or(u64::MAX));
    let mut drafts = drafts.into_iter();
    for (batch, documents) in batches.iter().enumerate() {
        let files: Vec<usize> =
            drafts.as_slice().iter().take(documents.len()).map(|draft| draft.file).collect();
        let sources = split_sources(split, &files, (batches.len() > 1).then_some(batch));
        for chunk in cut(&sizes, documents.clone(), context.chunk_bytes) {
            context.cancel.check()?;
            let lineage = Lineage { batch, sources: sources.clone() };
            let in_files = |source: Error| Error::File {
                path: context.files.join(", "),
                source: Box::new(source),
            };
            let chunk = chunk_of(drafts.by_ref().take(chunk.len()), columns, lineage);
            emit(chunk.map_err(in_files)?, context)?;
        }
    }
    Ok(())
}

/// Divides `documents` into runs of at most `limit` bytes, with at least one document each; an
/// empty input gives one empty run.
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
