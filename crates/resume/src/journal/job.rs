//! The job of a checkpoint, and the locations of its parts: `checkpoint.json`, with a copy in the
//! directory of the job.
//!
//! It is the only object that is ever replaced, and only by the holder of the lease, when a root
//! has moved.

use super::fingerprint::Fingerprint;
use super::journal_store::{Created, JournalStore};
use super::lease::Lease;
use super::places::{Places, moved};
use super::record::from_line;
use super::twice::Twice;
use super::{LEASE_AGE, layout};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use shardmill_storage::Disk;
use std::sync::Arc;
use std::time::Duration;

const CHECKPOINT: &str = "checkpoint.json";

/// Version of the journal's layout.
const FORMAT: u32 = 3;

/// What a job passes when it opens its journal.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JournalOptions {
    /// The directory of the checkpoint; absolute.
    pub path: String,
    /// The parts of the job other than its paths.
    pub fingerprint: Fingerprint,
    /// The paths of the inputs, patterns among them; absolute. A path that ends with a slash is not
    /// a pattern.
    pub inputs: Vec<String>,
    /// The directory of the outputs; absolute.
    pub output: String,
    /// Read changed files again, or run their splits again.
    pub reprocesses_changed: bool,
    /// Rows are identified by id.
    pub knows_ids: bool,
    #[serde(skip, default = "lease_age")]
    pub lease_age: Duration,
}

fn lease_age() -> Duration {
    LEASE_AGE
}

/// `checkpoint.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) format: u32,
    pub(crate) job: String,
    /// The location of the checkpoint for which the paths below are valid: they follow it if they
    /// are in the same tree.
    pub(crate) state: String,
    pub(crate) inputs: Vec<String>,
    /// The inputs when the job was created. Names of outputs are derived from them, so that a moved
    /// job finds its own outputs.
    #[serde(default)]
    pub(crate) first_inputs: Vec<String>,
    pub(crate) output: String,
    pub(crate) fingerprint: Fingerprint,
}

/// The only part that is read from an object of another version.
#[derive(Deserialize)]
struct Format {
    format: u32,
}

impl Job {
    pub(crate) fn places(&self, path: &str) -> Places {
        Places {
            root: root_of(path, &self.job),
            output: self.output.clone(),
            inputs: self.inputs.clone(),
            first_inputs: self.first_inputs.clone(),
        }
    }

    /// Jobs of earlier versions do not store their first inputs.
    fn with_first_inputs(self) -> Self {
        let first_inputs =
            if self.first_inputs.is_empty() { self.inputs.clone() } else { self.first_inputs };
        Self { first_inputs, ..self }
    }

    /// With the current roots of a checkpoint at `path`, if they moved with it.
    pub(crate) fn at(self, path: &str, store: &JournalStore) -> Result<Self> {
        if self.state == path {
            return Ok(self);
        }
        let follow = |root: &String| moved(root, &self.state, path).unwrap_or_else(|| root.clone());
        let output = follow(&self.output);
        // The outputs of a checkpoint that was moved alone are still in their place. A checkpoint
        // that also exists at its old place was copied, and a copy never reads the outputs
        // of the original.
        let is_copy = || {
            Ok::<bool, Error>(
                read(store, &self.state)?.is_some_and(|original| original.job == self.job),
            )
        };
        let has_moved = store.exists(&output)? || !store.list(&output)?.is_empty() || is_copy()?;
        let (inputs, output) = if has_moved {
            (self.inputs.iter().map(follow).collect(), output)
        } else {
            (self.inputs.clone(), self.output.clone())
        };
        Ok(Self { inputs, output, state: path.to_owned(), ..self })
    }

    /// The job with the roots in `options`, if they are those of the job, or have the same position
    /// relative to the checkpoint.
    fn with_roots_of(&self, options: &JournalOptions) -> Option<Self> {
        let is_same = |root: &String, given: &String| {
            root == given || moved(root, &self.state, &options.path).as_ref() == Some(given)
        };
        let mut left: Vec<&String> = options.inputs.iter().collect();
        let mut inputs = Vec::new();
        for root in &self.inputs {
            let exact = left.iter().position(|given| *given == root);
            let place = exact.or_else(|| left.iter().position(|given| is_same(root, given)))?;
            inputs.push(left.remove(place).clone());
        }
        let is_all = left.is_empty() && is_same(&self.output, &options.output);
        is_all.then(|| Self {
            inputs,
            output: options.output.clone(),
            state: options.path.clone(),
            ..self.clone()
        })
    }

    /// The fingerprint with the paths, as shown in messages.
    pub(crate) fn told(&self) -> Fingerprint {
        told(&self.fingerprint, &self.inputs, &self.output)
    }

    /// Lists of ids that moved together with the checkpoint count as the same.
    fn fingerprint_at(&self, path: &str) -> Fingerprint {
        let mut fingerprint = self.fingerprint.clone();
        if let Some(Value::Array(done)) = fingerprint.0.get_mut("done") {
            for list in done {
                if let Some(path) = list.as_str().and_then(|list| moved(list, &self.state, path)) {
                    *list = Value::String(path);
                }
            }
        }
        fingerprint
    }
}

fn told(fingerprint: &Fingerprint, inputs: &[String], output: &str) -> Fingerprint {
    let mut told = fingerprint.clone();
    let mut inputs = inputs.to_vec();
    inputs.sort_unstable();
    told.0.insert("input".to_owned(), json!(inputs));
    told.0.insert("output".to_owned(), json!(output));
    told
}

pub(crate) fn path_of(path: &str) -> String {
    format!("{path}/{CHECKPOINT}")
}

fn root_of(path: &str, job: &str) -> String {
    format!("{path}/{job}")
}

fn object_of(path: &str, job: &str) -> Twice {
    Twice { path: path_of(path), copy: format!("{}/{CHECKPOINT}", root_of(path, job)) }
}

/// The stored job of a checkpoint, or `None` if there is none. Read from the copy if the first is
/// damaged or missing.
pub(crate) fn read(store: &JournalStore, path: &str) -> Result<Option<Job>> {
    let file = path_of(path);
    let content = store.read(&file)?;
    if let Some(job) = content.as_ref().map(|content| parsed(&file, content)).transpose()?.flatten()
    {
        return Ok(Some(job));
    }
    for name in store.list(path)? {
        let copy = format!("{}/{CHECKPOINT}", root_of(path, &name));
        if let Some(job) =
            store.read(&copy)?.map(|content| parsed(&copy, &content)).transpose()?.flatten()
            && job.job == name
        {
            return Ok(Some(job));
        }
    }
    if content.is_some() { Err(Error::Beyond { path: file }) } else { Ok(None) }
}

fn parsed(path: &str, content: &[u8]) -> Result<Option<Job>> {
    let format = from_line::<Format>(content).map(|job| job.format);
    match format {
        Some(format) if format != FORMAT => {
            Err(Error::OtherFormat { path: path.to_owned(), format })
        }
        _ => Ok(from_line(content).map(Job::with_first_inputs)),
    }
}

/// The job of the checkpoint, with its current roots; created if there is none.
pub(crate) fn of(store: &JournalStore, options: &JournalOptions) -> Result<Job> {
    let file = path_of(&options.path);
    let existing = || -> Result<Option<Job>> {
        let Some(job) = read(store, &options.path)? else { return Ok(None) };
        if let Some(here) = job.with_roots_of(options) {
            if here.fingerprint != options.fingerprint {
                job.fingerprint_at(&options.path).check(&options.fingerprint, &options.path)?;
            }
            return Ok(Some(Job { fingerprint: options.fingerprint.clone(), ..here }));
        }
        job.told()
            .check(&told(&options.fingerprint, &options.inputs, &options.output), &options.path)?;
        Ok(Some(job))
    };
    if let Some(job) = existing()? {
        if store.size(&file)?.is_none() {
            let _made_by_another_process = store.record(&file, [&job])?;
        }
        // Its creator may have died before the name was durable.
        store.sync_directory(&options.path)?;
        return Ok(job);
    }
    let job = uuid::Uuid::new_v4().simple().to_string();
    let JournalOptions { path, fingerprint, inputs, output, .. } = options.clone();
    let job = Job {
        format: FORMAT,
        job,
        state: path,
        first_inputs: inputs.clone(),
        inputs,
        output,
        fingerprint,
    };
    match store.record(&file, [&job])? {
        Created::Made(_) => Ok(job),
        Created::NoDirectory | Created::Collected => Err(Error::Fenced { path: file }),
        // Another process started at the same moment; the lease decides between the two.
        Created::Taken => existing()?.ok_or_else(|| Error::damaged(&file)),
    }
}

/// Writes both copies if they differ; the caller holds the lease.
pub(crate) fn save(store: &JournalStore, path: &str, job: &Job) -> Result<()> {
    let object = object_of(path, &job.job);
    let is_saved = |file: &str| {
        Ok::<bool, Error>(
            store.read(file)?.and_then(|content| from_line::<Job>(&content)).as_ref() == Some(job),
        )
    };
    if is_saved(&object.path)? && is_saved(&object.copy)? {
        Ok(())
    } else {
        object.replace(store, std::slice::from_ref(job))
    }
}

/// Without `checkpoint.json` nothing else counts, so no part of the checkpoint is ever valid alone.
/// The copy is removed first, because the other would be restored from it.
pub(crate) fn remove(store: &JournalStore, path: &str, job: &Job) -> Result<()> {
    let object = object_of(path, &job.job);
    store.remove(&object.copy)?;
    store.sync_directory(&root_of(path, &job.job))?;
    store.remove(&object.path)?;
    store.sync_directory(path)
}

/// The job at `path` with its current roots, for callers with nothing but the path.
pub(crate) fn here(store: &JournalStore, path: &str) -> Result<Job> {
    read(store, path)?.ok_or_else(|| Error::NoJob { path: path.to_owned() })?.at(path, store)
}

/// Sets the current inputs and output of a job, in the order in which they were passed to the job.
///
/// # Errors
/// [`Error::NoJob`], [`Error::LeaseHeld`]; [`Error::InputCount`] for another number of inputs.
pub fn relocate(
    path: &str,
    inputs: Option<Vec<String>>,
    output: Option<String>,
    disk: Arc<dyn Disk>,
) -> Result<()> {
    let store = JournalStore::new(disk);
    let job = here(&store, path)?;
    let inputs = inputs.unwrap_or_else(|| job.inputs.clone());
    if inputs.len() != job.inputs.len() {
        let (expected, found) = (job.inputs.len(), inputs.len());
        return Err(Error::InputCount {
            path: path.to_owned(),
            expected,
            found,
            inputs: job.inputs.join(", "),
        });
    }
    let lease = Lease::take(&store, &root_of(path, &job.job), LEASE_AGE)?;
    super::lease::check(&store, &layout::lease_directory(&root_of(path, &job.job)), lease.epoch())?;
    save(&store, path, &Job { inputs, output: output.unwrap_or_else(|| job.output.clone()), ..job })
}
