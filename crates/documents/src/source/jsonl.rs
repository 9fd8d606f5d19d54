//! Reads files of JSON objects, of which each is a document: JSON Lines, or one array.
//!
//! The columns are decided before the first split is read, as for tars, see
//! [`super::heads_schema`]. A line that is not a document is quarantined.

use super::draft::{Draft, chunk_of};
use super::heads::{Heads, Seen};
use super::json_record::JsonDocument;
use super::keys::parse_object;
use super::layout::Layout;
use super::located_rows::Located;
use super::named_keys::NamedKeys;
use super::part_rows::Origin;
use super::record_options::RecordOptions;
use super::values::JobColumns;
use super::{Emit, SplitContext};
use crate::ledger::{Ledger, Quarantined};
use crate::locate::{is_of_run, may_input_open_later};
use crate::schema::{JobSchema, RESCUED, is_reserved};
use crate::{Error, Lineage, Result};
use serde_json::{Map, Value};
use shardmill_engine::Cancel;
use shardmill_formats::jsonl::RecordTexts;
use shardmill_formats::limit::DecodeLimit;
use shardmill_formats::records::{Encoding, Unpacker};
use shardmill_formats::table::TableError;
use shardmill_plan::{InputFile, Split};
use shardmill_storage::{AnyStore, RangeRead, Spool, Store};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Reads one split and emits its chunks, at least one.
///
/// # Errors
/// Errors of `emit`, cancellation, a store that does not respond, and a value that a declared type
/// does not hold. Damaged files and lines are quarantined instead.
pub fn read_jsonl(
    split: &Split,
    options: &RecordOptions,
    job: JobSchema<'_>,
    context: &mut SplitContext<'_>,
    emit: Emit<'_>,
) -> Result<()> {
    let columns = JobColumns::new(job);
    // Counts the columns that the choice of the user leaves out.
    let _target = job.choice.apply_counted(job.agreed, context.ledger);
    let mut located = Located::new(split, options, context);
    for (number, input) in split.files.iter().enumerate() {
        context.cancel.check()?;
        let object = match opened(&input.path, options.limit()) {
            Ok(object) => object,
            Err(TableError::Storage(error)) if may_input_open_later(&error) => {
                return Err(error.into());
            }
            Err(error) => {
                context.quarantine(Quarantined::shard(&input.path, error.to_string()))?;
                continue;
            }
        };
        let mut lines =
            Lines { path: &input.path, file: number, options, columns: &columns, count: 0 };
        lines.read(&*object, &mut located, context, emit)?;
    }
    let empty = chunk_of(std::iter::empty(), &columns, Lineage::default())?;
    located.batcher.finish(empty, context, emit)
}

/// The text of a file, which may be compressed.
fn opened(path: &str, limit: DecodeLimit) -> std::result::Result<Arc<dyn RangeRead>, TableError> {
    let object = Spool::over(AnyStore.open(path)?)?;
    Ok(Unpacker::new(Encoding::Utf8, limit).unpack(object)?)
}

/// The documents of one file.
struct Lines<'a> {
    path: &'a str,
    file: usize,
    options: &'a RecordOptions,
    columns: &'a JobColumns<'a>,
    /// Of the records so far.
    count: u64,
}

impl Lines<'_> {
    fn read(
        &mut self,
        object: &dyn RangeRead,
        located: &mut Located<'_>,
        context: &mut SplitContext<'_>,
        emit: Emit<'_>,
    ) -> Result<()> {
        let mut texts = RecordTexts::new(object, self.options.limit());
        let (mut drafts, mut bytes) = (Vec::new(), 0);
        loop {
            context.cancel.check()?;
            let record = match texts.next_record().map_err(TableError::from) {
                Ok(Some(record)) => record,
                Ok(None) => break,
                Err(TableError::Storage(error)) if is_of_run(&error) => return Err(error.into()),
                Err(error) => {
                    context.quarantine(Quarantined::shard(self.path, error.to_string()))?;
                    break;
                }
            };
            match parse_object(record.text).and_then(|object| self.draft(&object, context.ledger)) {
                Ok(draft) => {
                    bytes += draft.byte_size();
                    draft.rescued().for_each(|key| context.ledger.rescue(key));
                    drafts.push(draft);
                }
                Err(reason) => context.quarantine(Quarantined {
                    offset: Some(record.offset),
                    ..Quarantined::part(self.path, format!("line {}: {reason}", record.line))
                })?,
            }
            self.count += 1;
            if bytes >= located.limit {
                bytes = 0;
                self.emit(std::mem::take(&mut drafts), located, context, emit)?;
            }
        }
        self.emit(drafts, located, context, emit)
    }

    fn emit(
        &self,
        drafts: Vec<Draft>,
        located: &mut Located<'_>,
        context: &mut SplitContext<'_>,
        emit: Emit<'_>,
    ) -> Result<()> {
        if drafts.is_empty() {
            return Ok(());
        }
        let in_file =
            |source: Error| Error::File { path: self.path.to_owned(), source: Box::new(source) };
        let chunk = chunk_of(drafts.into_iter(), self.columns, Lineage::default());
        located.push(self.file, chunk.map_err(in_file)?, context, emit)
    }

    fn draft(
        &self,
        object: &Map<String, Value>,
        ledger: &mut Ledger,
    ) -> std::result::Result<Draft, String> {
        let keys = &self.options.keys;
        let document = JsonDocument::of(object, keys)?;
        let origin = Origin { path: self.path, image_root: keys.image_root.as_deref() };
        let mut values = Map::new();
        for (key, value) in document.values {
            if is_reserved(&key) {
                ledger.drop_key(format!("key `{key}` has the name of a reserved column"));
            } else if self.options.is_selected(&key) {
                values.insert(key, value);
            }
        }
        let rows = origin.rows(values, document.parts);
        let rows = rows.map(|(row, values)| (row, self.columns.cells(values, ledger))).collect();
        let id = document.id.unwrap_or_else(|| origin.numbered_id(self.count));
        Ok(Draft { id, rows, file: self.file })
    }
}

impl Heads for RecordOptions {
    fn read<S: Clone>(
        &self,
        path: &str,
        cancel: &Cancel,
        state: &mut S,
        see: impl Fn(&mut S, &Seen<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        // Damage is quarantined by the run.
        let Ok(object) = opened(path, self.limit()) else { return Ok(()) };
        let mut texts = RecordTexts::new(&*object, self.limit());
        while let Ok(Some(record)) = texts.next_record() {
            cancel.check()?;
            let Ok(json) = parse_object(record.text) else { continue };
            if see(state, &Seen::Document(&json, record.text.len() as u64)).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn observe(&self, json: &Map<String, Value>, mut see: impl FnMut(&str, &Value)) {
        let Ok(document) = JsonDocument::of(json, &self.keys) else { return };
        let of_parts = document.parts.iter().flat_map(|part| &part.values);
        let values = document.values.iter().filter(|(key, _)| self.passes(key));
        for (key, value) in of_parts.chain(values) {
            see(key, value);
        }
    }

    fn columns(&self) -> Vec<&String> {
        self.fields.iter().flatten().chain(&self.keys.per_image_fields).collect()
    }

    fn takes_none(&self) -> bool {
        false
    }

    fn passes(&self, key: &str) -> bool {
        self.is_selected(key) && !is_reserved(key) && key != RESCUED
    }
}

/// Reads until a document is recognised, and each key named by the options or by a filter is found.
/// Files that cannot be read are handled by the run.
///
/// # Errors
/// [`Error::NoLayout`] when there are objects and none is a document, [`Error::AbsentKey`], and
/// cancellation.
pub fn check_documents<'a>(
    files: impl Iterator<Item = &'a InputFile>,
    options: &RecordOptions,
    filtered: &[String],
    cancel: &Cancel,
) -> Result<()> {
    let mut named = NamedKeys::default();
    named.want("fields", options.fields.iter().flatten().filter(|name| options.passes(name)));
    named.want("per_image_fields", &options.keys.per_image_fields);
    named.want("expression", filtered);
    // Whether a document was seen, and the file and the keys of the first object.
    let mut state = (named, false, None);
    for file in files {
        options.read(&file.path, cancel, &mut state, |(named, is_known, first), seen| {
            if let Seen::Document(object, _) = seen {
                named.observe(object);
                *is_known |= Layout::of_object(&options.keys, object).is_some();
                if first.is_none() {
                    *first = Some((file.path.clone(), object.keys().cloned().collect::<Vec<_>>()));
                }
            }
            if *is_known && named.are_met() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })?;
        if state.1 && state.0.are_met() {
            return Ok(());
        }
    }
    match state {
        (_, false, Some((path, keys))) => Err(Error::no_layout(&path, keys.iter())),
        (named, ..) => named.absent().next().map_or(Ok(()), Err),
    }
}
