//! Records which splits of a job are committed.
//!
//! ```text
//! checkpoint.json            which job this is: its parts, and the directory of its journal
//! <job>/lease/<epoch>        who may commit
//! <job>/plan/<number>        splits, fixed once planned
//! <job>/plan/until-<number>  those of earlier runs, in one file
//! <job>/checkpoint.json      a copy of it; plans and packs have copies too
//! <job>/units-<term>/<unit>  records of the run that holds the lease
//! <job>/packs/…              records of earlier runs
//! <job>/ids/…parquet         ids of committed rows, for jobs that know rows by id
//! ```
//!
//! A split is written under hidden names, synced, recorded, and renamed ([`Attempt`]). The record
//! is the commit: before it nothing counts, after it the next process that opens the journal
//! completes the renames ([`recover`]). The invariant: a row is done only if a record names synced
//! files with all of its results. docs/concepts/commit-protocol.md has the crash matrix.

mod commit;
mod fingerprint;
mod holder;
mod job;
mod journal_store;
mod layout;
mod lease;
mod places;
mod plan;
mod record;
mod recover;
mod repair;
mod segment_files;
mod snapshot;
mod twice;

#[cfg(test)]
mod tests;

pub use commit::{Attempt, CommitTarget, Committer, Outcome, UnitCounts};
pub use fingerprint::Fingerprint;
pub use holder::Holder;
pub use job::{JournalOptions, relocate};
pub use layout::result_name;
pub use places::Places;
pub use plan::{PlannedSplit, Segment};
pub use record::{OutputRecord, UnitRecord};
pub use repair::{Repair, Repaired, repair};
pub use snapshot::{Problem, Snapshot, Summary};

use crate::keys::IdSchema;
use crate::{Error, Result};
use arrow_schema::{Schema, SchemaRef};
use job::Job;
use journal_store::JournalStore;
use lease::Lease;
use plan::{Amended, Changed, Looks};
use record::from_line;
use shardmill_plan::schema::{schema_of_text, schema_text};
use shardmill_plan::{InputFile, Split};
use shardmill_storage::Disk;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

/// For the lease of another machine, whose lock is not visible.
pub const LEASE_AGE: Duration = Duration::from_secs(60);

/// The files of [`Journal::results`].
fn agreed_results(store: &JournalStore, root: &str) -> Result<Vec<String>> {
    let paths = (0..).map(|function| format!("{root}/{}", result_name(function)));
    paths.map_while(|path| store.size(&path).map(|size| size.map(|_| path)).transpose()).collect()
}

/// The journal of one job, held by the only process that may plan and commit.
#[derive(Debug)]
pub struct Journal {
    store: JournalStore,
    places: Places,
    job: Job,
    lease: Lease,
    segments: Vec<Segment>,
    records: BTreeMap<String, UnitRecord>,
    warnings: Vec<String>,
    /// Units whose only record is damaged.
    damaged: BTreeSet<String>,
    /// Existing files, by stored path.
    found: HashMap<String, plan::Version>,
    /// Splits that the next segment marks to be run again.
    amended: Vec<Amended>,
    changed: Changed,
    knows_ids: bool,
}

impl Journal {
    /// Takes the lease, and collects the commits of earlier runs.
    ///
    /// # Errors
    /// [`Error::OtherJob`], [`Error::LeaseHeld`], [`Error::Damaged`], [`Error::OutputChanged`];
    /// [`Error::Journal`] when the disk fails.
    pub fn open(options: &JournalOptions, disk: Arc<dyn Disk>) -> Result<Self> {
        let store = JournalStore::new(disk);
        store.make_directory(&options.path)?;
        let job = job::of(&store, options)?;
        let places = job.places(&options.path);
        let lease = Lease::take(&store, &places.root, options.lease_age)?;
        // Another run may have finished and deleted the checkpoint just before the lease was taken.
        if store.size(&job::path_of(&options.path))?.is_none() {
            return Err(Error::Fenced { path: options.path.clone() });
        }
        let recovered = recover::recover(&store, &places, &lease, false)?;
        recover::check_outputs(&store, &places, &recovered.records)?;
        job::save(&store, &options.path, &job)?;
        recover::collect_garbage(&store, &places, &job.job)?;
        lease.remove_earlier()?;
        let segments = segment_files::load(&store, &places.root, true)?;
        let damaged = recover::damaged_units(&store, &places.root, &recovered.records)?;
        plan::check_records(&places.root, &segments, &recovered.records, &damaged)?;
        recover::check_ids(&store, &places, &recovered.records, &damaged)?;
        if recovered.records.is_empty() && damaged.is_empty() {
            // Agreed on by a run that processed nothing: its files may have been replaced
            // by others since.
            store.remove(&layout::id_types(&places.root))?;
            for path in agreed_results(&store, &places.root)? {
                store.remove(&path)?;
            }
        }
        segment_files::merge(&store, &places.root, &segments)?;
        let changed = match (options.reprocesses_changed, options.knows_ids) {
            (false, _) => Changed::Refused,
            (true, true) => Changed::ReadAgain,
            (true, false) => Changed::RunAgain,
        };
        Ok(Self {
            job,
            places,
            lease,
            segments,
            records: recovered.records,
            warnings: recovered.warnings,
            damaged,
            found: HashMap::new(),
            amended: Vec::new(),
            changed,
            knows_ids: options.knows_ids,
            store,
        })
    }

    /// Irregularities to report to the user.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Whether an earlier run has planned anything.
    #[must_use]
    pub fn is_resumed(&self) -> bool {
        !self.segments.is_empty()
    }

    /// Units that were done when the journal was opened.
    #[must_use]
    pub fn committed(&self) -> usize {
        self.records.len() - plan::open_units(&self.segments, &self.records)
    }

    /// Units with published outputs of an earlier run, including those that are run again.
    #[must_use]
    pub fn published(&self) -> usize {
        self.records.len()
    }

    /// Registers the existing files; returns those that no segment has planned, to be divided into
    /// splits for [`Journal::extend`].
    ///
    /// # Errors
    /// [`Error::InputChanged`] when a file that was read has changed.
    pub fn discover(&mut self, found: &[InputFile]) -> Result<Vec<InputFile>> {
        let mut stored = found.to_vec();
        self.places.store_files(&mut stored);
        let compared = self.looks().compare(&stored, self.changed);
        let first = compared.changed.first().and_then(|first| found.get(*first));
        if let Some(first) = first {
            let is_cut = compared.is_cut;
            let checkpoint = self.places.state().to_owned();
            return Err(Error::InputChanged {
                path: first.path.clone(),
                others: compared.changed.len() - 1,
                checkpoint,
                is_cut,
            });
        }
        self.found = stored.iter().map(|file| (file.path.clone(), plan::version(file))).collect();
        self.amended = compared.amended;
        self.check_damaged()?;
        Ok(compared.new.iter().filter_map(|number| found.get(*number).cloned()).collect())
    }

    fn looks(&self) -> Looks<'_> {
        Looks {
            segments: &self.segments,
            records: &self.records,
            found: &self.found,
            damaged: &self.damaged,
            knows_ids: self.knows_ids,
        }
    }

    /// A split with a damaged record is done again under the same names, which requires the files
    /// that it was planned with.
    fn check_damaged(&self) -> Result<()> {
        let directory = layout::damaged_directory(&self.places.root);
        for name in
            self.store.list(&directory)?.iter().filter(|name| self.records.contains_key(*name))
        {
            self.store.remove(&format!("{directory}/{name}"))?;
        }
        let looks = self.looks();
        match self.damaged.iter().find(|unit| !looks.is_whole(unit)) {
            Some(unit) => Err(Error::damaged(&format!("{directory}/{unit}"))),
            None => Ok(()),
        }
    }

    /// Plans splits of new files, of which there may be none, and remaining splits again if other
    /// parts of the plan were committed since. `schema` is that of the job.
    ///
    /// # Errors
    /// When the plan cannot be saved.
    pub fn extend(&mut self, splits: &[Split], schema: Option<&Schema>) -> Result<()> {
        let amended = std::mem::take(&mut self.amended);
        let mut segments = if self.knows_ids { self.looks().planned_again() } else { Vec::new() };
        if !splits.is_empty() || !amended.is_empty() {
            let mut splits = splits.to_vec();
            splits.iter_mut().for_each(|split| self.places.store_files(&mut split.files));
            let schema = schema.map(schema_text);
            segments.push(Segment {
                schema,
                ..plan::new_segment(&splits, self.looks().processed(), amended)
            });
        }
        if segments.is_empty() {
            return Ok(());
        }
        // A run that was overtaken before it read the plan has the later run's segments, but not
        // its records.
        lease::check(&self.store, &layout::lease_directory(&self.places.root), self.lease.epoch())?;
        for segment in segments {
            segment_files::save(&self.store, &self.places.root, self.segments.len(), &segment)?;
            self.segments.push(segment);
        }
        Ok(())
    }

    /// What new files must agree with: the schema of the job, or, before anything is committed, the
    /// files that are planned already, whose types may still change with theirs.
    ///
    /// # Errors
    /// For a schema that another version has written.
    pub fn agreed_types(&self, has_new: bool) -> Result<(Option<SchemaRef>, Vec<InputFile>)> {
        if has_new && self.committed() == 0 && self.published() == 0 {
            let mut files: Vec<InputFile> =
                self.pending().into_iter().flat_map(|split| split.files).collect();
            // Parts of a file are planned one after another.
            files.dedup_by(|part, before| part.path == before.path);
            return Ok((None, files));
        }
        let last = self.segments.iter().rev().find_map(|segment| segment.schema.as_deref());
        let schema = last.map(|text| schema_of_text(text).map(Arc::new)).transpose();
        Ok((schema.map_err(|source| Error::Arrow { source })?, Vec::new()))
    }

    /// The remaining splits, in planning order.
    #[must_use]
    pub fn pending(&self) -> Vec<Split> {
        let pending = self.looks().pending().into_iter().enumerate();
        let split = |(index, (mut files, unit)): (usize, (Vec<InputFile>, _))| {
            self.places.find_files(&mut files);
            Split { index, files, unit: Some(unit) }
        };
        pending.map(split).collect()
    }

    /// Whether splits wait for others whose ids were lost: a later run does them.
    #[must_use]
    pub fn holds_back(&self) -> bool {
        self.looks().holds_back()
    }

    /// Files with ids of rows that were done before the segment was planned, and the hashes of
    /// their content. A row of the segment with such an id is not done again. A reader verifies the
    /// content first, see [`check_content`].
    #[must_use]
    pub fn done_ids(&self, segment: usize) -> Vec<(String, String)> {
        let before = self
            .segments
            .get(segment)
            .map(|segment| segment.done_before.as_slice())
            .unwrap_or_default();
        let looks = self.looks();
        let counted = looks.counted();
        let recorded = before
            .iter()
            .filter(|unit| counted.contains(unit.as_str()))
            .filter_map(|unit| self.records.get(unit)?.ids.as_ref());
        recorded.map(|file| (self.places.ids(&file.name), file.xxh3.clone())).collect()
    }

    /// The text that the job has agreed on under a name, see [`Committer::agree`]; `None` if there
    /// is none yet.
    ///
    /// # Errors
    /// When the disk fails; [`Error::Damaged`].
    pub fn agreed(&self, name: &str) -> Result<Option<String>> {
        let path = format!("{}/{name}", self.places.root);
        self.store
            .read(&path)?
            .map(|content| from_line(&content).ok_or_else(|| Error::damaged(&path)))
            .transpose()
    }

    /// The id types that the job has agreed on; `None` before the first file was read.
    ///
    /// # Errors
    /// As [`Journal::agreed`].
    pub fn id_types(&self) -> Result<Option<IdSchema>> {
        let damaged = |_other| Error::damaged(&layout::id_types(&self.places.root));
        self.agreed("id_types")?
            .map(|text| serde_json::from_str(&text).map_err(damaged))
            .transpose()
    }

    /// The columns of the results of functions that the job has agreed on, as text.
    ///
    /// # Errors
    /// As [`Journal::agreed`].
    pub fn results(&self) -> Result<Vec<String>> {
        (0..).map_while(|function| self.agreed(&result_name(function)).transpose()).collect()
    }

    /// What workers need to commit.
    #[must_use]
    pub fn commit_target(&self) -> CommitTarget {
        let (epoch, term) = (self.lease.epoch(), self.lease.term().to_owned());
        CommitTarget { places: self.places.clone(), job: self.job.job.clone(), epoch, term }
    }

    /// Makes the names of the outputs durable, after the last commit; with `deletes`, then removes
    /// the checkpoint.
    ///
    /// # Errors
    /// When a directory cannot be synced: the checkpoint is kept then. Failure to remove the
    /// checkpoint is returned as a warning.
    pub fn finish(self, deletes: bool) -> Result<Option<String>> {
        let root = &self.places.root;
        for directory in [&self.places.output, &layout::ids_directory(root)] {
            if self.store.exists(directory)? {
                self.store.sync_directory(directory)?;
            }
        }
        if !deletes {
            return Ok(None);
        }
        lease::check(&self.store, &layout::lease_directory(root), self.lease.epoch())?;
        let removed = job::remove(&self.store, self.places.state(), &self.job);
        let Self { store, places, lease, .. } = self;
        drop(lease);
        let removed = removed.and_then(|()| store.remove_directory(&places.root));
        Ok(removed.err().map(|error| format!("the checkpoint was not removed: {error}")))
    }

    /// Merges the records of all earlier runs into one file.
    ///
    /// # Errors
    /// When the disk fails; nothing is lost then.
    pub fn compact(&self) -> Result<()> {
        recover::compact(&self.store, &self.places.root, &self.lease)
    }
}

/// Compares the content of files with their recorded hashes; files without a hash are skipped.
///
/// # Errors
/// [`Error::Damaged`] for a file whose content differs from its record.
pub fn check_content(
    files: impl IntoIterator<Item = (String, String)>,
    disk: Arc<dyn Disk>,
) -> Result<()> {
    let store = JournalStore::new(disk);
    for (path, xxh3) in files.into_iter().filter(|(_, xxh3)| !xxh3.is_empty()) {
        if store.hash(&path)? != xxh3 {
            return Err(Error::damaged(&path));
        }
    }
    Ok(())
}

/// Whether the store of a checkpoint prevents two runs from creating the same object: a store may
/// accept a conditional put and ignore the condition.
///
/// # Errors
/// [`Error::Unconditional`] when it does not; when the store rejects the requests.
pub fn probe(path: &str, disk: Arc<dyn Disk>) -> Result<()> {
    if JournalStore::new(disk).refuses_second(path)? {
        Ok(())
    } else {
        Err(Error::Unconditional { path: path.to_owned() })
    }
}
