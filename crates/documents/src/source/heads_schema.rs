//! The schema of a job over documents in JSON.
//!
//! Decided from the JSON of a sample of the documents before the first split is read. The
//! invariant: it depends on the files alone, and not on splits, threads or the machine. Shards that
//! cannot be read do not take part; the run quarantines them.

use super::columns::Columns;
use super::heads::{Heads, Seen};
use crate::Result;
use crate::schema::{SchemaChoice, canonical_schema};
use arrow_schema::SchemaRef;
use serde_json::{Map, Value};
use shardmill_engine::{Cancel, run_in_order};
use shardmill_plan::InputFile;
use shardmill_storage::is_remote;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The sample is every document while their JSON has at most this many bytes.
const WHOLE_BYTES: u64 = 64 << 20;
/// Of a larger job, the sample is the first documents of this many shards.
const SAMPLED_SHARDS: usize = 64;
/// JSON that is read of each of them, or one document.
const SHARD_BYTES: u64 = 1 << 20;
/// Shards that are searched together for keys that the sample lacks.
const SEARCHED_SHARDS: usize = 256;
/// Shards that are read at once from a store: its answers take longer than the work.
const REMOTE_THREADS: usize = 64;

/// What decides the schema, apart from the files.
pub struct HeadsOf<'a, O> {
    pub options: &'a O,
    /// Keys that filters name.
    pub filtered: &'a [String],
    pub choice: &'a SchemaChoice,
    pub limits: SampleLimits,
}

/// The size of a sample, in bytes of JSON.
#[derive(Debug, Clone, Copy)]
pub struct SampleLimits {
    pub whole: u64,
    pub shard: u64,
}

impl Default for SampleLimits {
    fn default() -> Self {
        Self { whole: WHOLE_BYTES, shard: SHARD_BYTES }
    }
}

/// The documents of one shard, or of several.
#[derive(Debug, Clone, Default)]
struct Found {
    columns: Columns,
    bytes: u64,
}

impl<O: Heads> HeadsOf<'_, O> {
    /// The columns of the sample. Keys that options and filters name are always columns.
    ///
    /// # Errors
    /// For cancellation, and when no thread can be started.
    pub fn files(&self, files: &[InputFile], threads: usize, cancel: &Cancel) -> Result<SchemaRef> {
        let options = self.options;
        let named = options.columns();
        let mut columns = Columns::default();
        for name in &named {
            columns.number(name);
        }
        let is_declared = self.choice.schema.is_some();
        if !is_declared && !options.takes_none() {
            let paths: Arc<[String]> = files.iter().map(|file| file.path.clone()).collect();
            let is_any_remote = paths.first().is_some_and(|path| is_remote(path));
            let threads = if is_any_remote { threads.max(REMOTE_THREADS) } else { threads };
            let shards = Shards { paths, options: Arc::new(options.clone()), threads, cancel };
            let filtered = self.filtered.iter().filter(|name| options.passes(name));
            let wanted: Vec<String> = named.into_iter().chain(filtered).cloned().collect();
            shards.observe(self.limits, &wanted, &mut columns)?;
        }
        for name in self.filtered.iter().filter(|name| options.passes(name)) {
            columns.number(name);
        }
        Ok(canonical_schema(columns.fields()))
    }
}

/// The shards of a job, read on threads.
struct Shards<'a, O> {
    paths: Arc<[String]>,
    options: Arc<O>,
    threads: usize,
    cancel: &'a Cancel,
}

impl<O: Heads> Shards<'_, O> {
    fn observe(
        &self,
        limits: SampleLimits,
        wanted: &[String],
        columns: &mut Columns,
    ) -> Result<()> {
        let all: Vec<usize> = (0..self.paths.len()).collect();
        let read = Arc::new(AtomicU64::new(0));
        let whole = self.read(&all, Whole { limit: limits.whole, read: Arc::clone(&read) })?;
        if read.load(Ordering::Relaxed) <= limits.whole {
            whole.iter().for_each(|heads| columns.absorb(&heads.columns));
            return Ok(());
        }
        let mut sampled: Vec<usize> =
            (0..SAMPLED_SHARDS).map(|number| number * all.len() / SAMPLED_SHARDS).collect();
        sampled.dedup();
        let first = self.read(&sampled, First { limit: limits.shard })?;
        first.iter().for_each(|heads| columns.absorb(&heads.columns));
        for shards in all.chunks(SEARCHED_SHARDS) {
            let missing: Vec<String> =
                wanted.iter().filter(|key| !columns.is_typed(key)).cloned().collect();
            if missing.is_empty() {
                break;
            }
            let found = self.read(shards, Search { keys: missing })?;
            found.iter().for_each(|found| columns.absorb(found));
        }
        Ok(())
    }

    /// What a reading has seen of each of the shards.
    fn read<R: Reading<O>>(&self, shards: &[usize], reading: R) -> Result<Vec<R::State>> {
        let (paths, options, cancel) =
            (Arc::clone(&self.paths), Arc::clone(&self.options), self.cancel.clone());
        let numbers = shards.to_vec();
        let read = move |number: usize| {
            let mut state = R::State::default();
            if let Some(path) =
                numbers.get(number).and_then(|shard| paths.get(*shard)).filter(|_| reading.starts())
            {
                // What cannot be read is quarantined by the run.
                let _damage = options.read(path, &cancel, &mut state, |state, seen| match seen {
                    Seen::Document(json, bytes) => reading.see(&options, state, json, *bytes),
                    Seen::Others(_) => ControlFlow::Continue(()),
                });
            }
            reading.end(&state);
            ControlFlow::Continue(state)
        };
        let states = run_in_order(shards.len(), self.threads, self.cancel, read)?;
        Ok(states.collect::<std::result::Result<Vec<_>, _>>()?)
    }
}

/// What is read of shards.
trait Reading<O>: Send + Sync + 'static {
    /// What was seen of one shard.
    type State: Clone + Default + Send + 'static;

    /// Whether one more shard is read.
    fn starts(&self) -> bool {
        true
    }

    /// Sees a document, whose JSON has this many bytes, and breaks after the last one of a shard.
    fn see(
        &self,
        options: &O,
        state: &mut Self::State,
        json: &Map<String, Value>,
        bytes: u64,
    ) -> ControlFlow<()>;

    fn end(&self, _state: &Self::State) {}
}

/// Every document, until all shards together have more than `limit` bytes.
struct Whole {
    limit: u64,
    /// Bytes of the shards whose end was reached.
    read: Arc<AtomicU64>,
}

impl<O: Heads> Reading<O> for Whole {
    type State = Found;

    fn starts(&self) -> bool {
        self.read.load(Ordering::Relaxed) <= self.limit
    }

    fn see(
        &self,
        options: &O,
        heads: &mut Found,
        json: &Map<String, Value>,
        bytes: u64,
    ) -> ControlFlow<()> {
        heads.bytes += bytes;
        if self.read.load(Ordering::Relaxed) + heads.bytes > self.limit {
            return ControlFlow::Break(());
        }
        heads.add(json, options);
        ControlFlow::Continue(())
    }

    fn end(&self, heads: &Found) {
        self.read.fetch_add(heads.bytes, Ordering::Relaxed);
    }
}

/// The first documents of a shard, at least one, up to `limit` bytes.
struct First {
    limit: u64,
}

impl<O: Heads> Reading<O> for First {
    type State = Found;

    fn see(
        &self,
        options: &O,
        heads: &mut Found,
        json: &Map<String, Value>,
        bytes: u64,
    ) -> ControlFlow<()> {
        if heads.bytes > 0 && heads.bytes + bytes > self.limit {
            return ControlFlow::Break(());
        }
        heads.bytes += bytes;
        heads.add(json, options);
        ControlFlow::Continue(())
    }
}

/// The first value of each key.
struct Search {
    keys: Vec<String>,
}

impl<O: Heads> Reading<O> for Search {
    type State = Columns;

    fn see(
        &self,
        options: &O,
        found: &mut Columns,
        json: &Map<String, Value>,
        _bytes: u64,
    ) -> ControlFlow<()> {
        let missing: Vec<&String> = self.keys.iter().filter(|key| !found.is_typed(key)).collect();
        options.observe(json, |key, value| {
            if missing.iter().any(|missing| *missing == key) {
                let number = found.number(key);
                found.observe(number, value);
            }
        });
        if self.keys.iter().all(|key| found.is_typed(key)) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}

impl Found {
    fn add(&mut self, json: &Map<String, Value>, options: &impl Heads) {
        options.observe(json, |key, value| {
            let number = self.columns.number(key);
            self.columns.observe(number, value);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{RESCUED, is_reserved};
    use crate::source::webdataset_options::WebDatasetOptions;
    use arrow_schema::DataType;
    use serde_json::json;
    use shardmill_formats::tar::{end_of_archive, member_header, padding};
    use tempfile::TempDir;

    /// One shard for each list of documents.
    fn shards(directory: &TempDir, shards: &[Vec<Value>]) -> Vec<InputFile> {
        let written = shards.iter().enumerate().map(|(number, documents)| {
            let mut tar = Vec::new();
            for (index, document) in documents.iter().enumerate() {
                let body = document.to_string();
                tar.extend(member_header(&format!("{index}.json"), body.len() as u64));
                tar.extend_from_slice(body.as_bytes());
                tar.resize(tar.len() + padding(body.len() as u64), 0);
            }
            tar.extend(end_of_archive(tar.len() as u64));
            let path = directory.path().join(format!("{number:03}.tar"));
            std::fs::write(&path, tar).unwrap();
            InputFile::of(path.display().to_string()).unwrap()
        });
        written.collect()
    }

    fn options() -> WebDatasetOptions {
        WebDatasetOptions {
            fields: None,
            per_image_fields: Vec::new(),
            per_text_fields: Vec::new(),
            keys: Default::default(),
            ignore_zeros: false,
            max_batch_bytes: None,
            materialize_on_read: false,
            max_decoded_bytes: None,
        }
    }

    fn columns(
        options: &WebDatasetOptions,
        files: &[InputFile],
        limits: SampleLimits,
    ) -> Vec<(String, DataType)> {
        let filtered = ["late".to_owned()];
        let of = |threads| {
            let heads =
                HeadsOf { options, filtered: &filtered, choice: &SchemaChoice::default(), limits };
            heads.files(files, threads, &Cancel::default()).unwrap()
        };
        let schema = of(1);
        assert!((2..5).all(|threads| of(threads) == schema));
        let passed = schema
            .fields()
            .iter()
            .filter(|field| !is_reserved(field.name()) && field.name() != RESCUED);
        passed.map(|field| (field.name().clone(), field.data_type().clone())).collect()
    }

    fn named(columns: &[(&str, DataType)]) -> Vec<(String, DataType)> {
        columns.iter().map(|(name, data_type)| ((*name).to_owned(), data_type.clone())).collect()
    }

    #[test]
    fn every_document_decides_while_all_are_small() {
        let directory = TempDir::new().unwrap();
        let files = shards(
            &directory,
            &[
                vec![json!({"a": 1})],
                vec![json!({"b": true}), json!({"a": 0.5, "late": 1})],
                vec![],
            ],
        );
        std::fs::write(directory.path().join("002.tar"), "damaged").unwrap();
        let expected =
            [("a", DataType::Float64), ("b", DataType::Boolean), ("late", DataType::Int64)];
        assert_eq!(columns(&options(), &files, SampleLimits::default()), named(&expected));
    }

    #[test]
    fn first_documents_of_distant_shards_decide_in_a_large_job_and_named_keys_are_searched() {
        let directory = TempDir::new().unwrap();
        let mut documents: Vec<Vec<Value>> =
            (0..130).map(|_| vec![json!({"a": 1}), json!({"a": 2})]).collect();
        // The shards of the sample are 0, 2, 4, …, of which it has the first document.
        documents[4][0] = json!({"a": null, "b": "x"});
        documents[4][1] = json!({"a": "not in the sample"});
        documents[5][0] = json!({"c": 1});
        documents[129][1] = json!({"late": 7, "d": 1});
        let files = shards(&directory, &documents);
        let limits = SampleLimits { whole: 1000, shard: 10 };
        let expected = [("a", DataType::Int64), ("b", DataType::Utf8), ("late", DataType::Int64)];
        assert_eq!(columns(&options(), &files, limits), named(&expected));
        let fields = WebDatasetOptions {
            fields: Some(vec!["d".to_owned(), "none".to_owned()]),
            ..options()
        };
        assert_eq!(
            columns(&fields, &files, limits),
            named(&[("d", DataType::Int64), ("none", DataType::Utf8)])
        );
    }

    #[test]
    fn lists_with_a_value_per_row_decide_by_the_values_that_have_a_row() {
        let directory = TempDir::new().unwrap();
        let document = json!({
            "texts": ["t", null],
            "images": [null, "a"],
            "image": [1, "surplus"],
            "both": [true, 0.5],
        });
        let files =
            shards(&directory, &[vec![document, json!({"texts": 7, "image": ["x"], "new": 1})]]);
        let both = "both".to_owned();
        let options = WebDatasetOptions {
            per_image_fields: vec!["image".to_owned(), both.clone()],
            per_text_fields: vec![both],
            ..options()
        };
        let expected =
            [("image", DataType::Int64), ("both", DataType::Utf8), ("late", DataType::Utf8)];
        assert_eq!(columns(&options, &files, SampleLimits::default()), named(&expected));
    }
}
