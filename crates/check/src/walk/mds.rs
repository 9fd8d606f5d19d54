//! Walks MDS shards: the index against its shards, every hash, and the structure of every sample.

use super::Walk;
use crate::problem::{Problem, Rule};
use crate::visitor::Visitor;
use shardmill_documents::Result;
use shardmill_formats::mds::{Error, MdsFile, MdsOptions, ShardEntry};
use shardmill_load::indexed_files;
use shardmill_storage::{AnyStore, RangeRead, Store};
use std::sync::Arc;

impl<'a, V: Visitor<'a>> Walk<'a, V> {
    /// All shards that the index of a directory lists.
    pub(super) fn mds_index(&mut self, directory: &str) -> Result<()> {
        let Some(files) = self.readable(indexed_files(directory)) else { return Ok(()) };
        let Some(files) = files else {
            self.visitor.problem(Problem::new(Rule::Readable, "it is not an index of MDS shards"));
            return Ok(());
        };
        for indexed in files {
            self.cancel.check()?;
            let (place, entry) = (&indexed.file.relative, indexed.entry);
            let files: Vec<_> = std::iter::once(&entry.raw_data).chain(&entry.zip_data).collect();
            self.visitor.shard(&files, place);
            match AnyStore.open(&indexed.file.path) {
                Ok(object) => self.shard(object, Some(Arc::clone(&entry)), place)?,
                Err(error) => self.visitor.problem(Problem::unreadable(&error).at_member(place, 0)),
            }
        }
        Ok(())
    }

    /// One shard, by itself or against its entry.
    pub(super) fn shard(
        &mut self,
        object: Arc<dyn RangeRead>,
        entry: Option<Arc<ShardEntry>>,
        place: &str,
    ) -> Result<()> {
        let options = MdsOptions { entry, has_pickle_bytes: true, ..MdsOptions::default() };
        let verified =
            |file: MdsFile| if V::IS_THOROUGH { file.verify().map(|()| file) } else { Ok(file) };
        match MdsFile::open(object, &options).and_then(verified) {
            // Checks what the structure does not show: text that is not UTF-8, arrays of the wrong
            // type.
            Ok(file) => self.blocks(&file, Some(place)),
            Err(error) => {
                let rule = if matches!(error, Error::IndexMismatch { .. } | Error::Hash { .. }) {
                    Rule::Structure
                } else {
                    Rule::Readable
                };
                self.visitor
                    .problem(Problem { rule, ..Problem::unreadable(&error) }.at_member(place, 0));
                Ok(())
            }
        }
    }
}
