//! Runs a pipeline: splits → source → stages → sink → report.
//!
//! One split is one call of [`Pipeline::run_split`], on a thread or in a cluster task; both write
//! the same bytes. The invariant: a split has either published all of its files, or the run reports
//! why not.

mod choices;
mod documents;
mod passes;

pub use choices::Choices;

use crate::checkpoint::{Checkpointing, commit, version_of};
use crate::report::SplitReport;
use crate::results::{Agree, ResultSchemas, Turn};
use crate::sink::{Mode, Publishing, SinkOptions, prepare_output};
use crate::spec::{SourceOptions, Spec};
use crate::stage::{Stage, first_filters};
use crate::tables::{
    self, Agreed, IdPolicy, PassedFiles, TableInput, TableJob, TableOptions, TablePlan,
    check_stages,
};
use crate::{Error, Result};
use arrow_schema::{Schema, SchemaRef};
use shardmill_documents::locate::Shared;
use shardmill_documents::schema::{RESCUED, SchemaChoice, is_reserved};
use shardmill_documents::source::ErrorBudget;
use shardmill_documents::source::heads_schema::{HeadsOf, SampleLimits};
use shardmill_documents::source::jsonl::check_documents;
use shardmill_documents::source::named_keys::check_keys;
use shardmill_documents::source::parquet_schema::SchemaOf;
use shardmill_engine::{Cancel, CoreSlots, Run, run_until_error};
use shardmill_load::TableReader;
use shardmill_plan::{InputFile, Split, partition};
use shardmill_resume::FooterCheck;
use shardmill_resume::journal::Attempt;
use shardmill_storage::{AnyDisk, Disk, Replace, Roots, Unpublished};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// While one split waits for the disk, another one computes.
const LANES_PER_WORKER: usize = 2;

/// Memory for remote images, in addition to the current chunks.
const FETCHED_BYTES: u64 = 256 << 20;

pub struct Pipeline {
    spec: Spec,
    stages: Vec<Stage>,
    choices: Choices,
    /// What the source converts to.
    source_choice: SchemaChoice,
    errors: ErrorBudget,
    /// Buffers of finished splits. New memory costs a page fault per 4 KiB, which is half of the
    /// time to fill it.
    buffers: Mutex<Vec<Vec<u8>>>,
    unpublished: Unpublished,
    checkpoint: Option<Checkpointing>,
    /// How the ids of a table job are checked before it runs.
    ids: FooterCheck,
    /// The files that were planned last.
    planned: Mutex<Option<(Vec<InputFile>, TablePlan)>>,
    /// Passes over files that ran on other machines.
    passed: Mutex<Option<PassedFiles>>,
    /// On which the files of a job have agreed.
    schema: OnceLock<SchemaRef>,
    /// Opens the files of a table job.
    reader: OnceLock<TableReader>,
    /// Decided by an earlier run, or on another machine.
    results: Vec<SchemaRef>,
    running: OnceLock<Arc<ResultSchemas>>,
}

impl Pipeline {
    /// Checks everything that can be checked without accessing a path.
    ///
    /// # Errors
    /// For options that are not valid.
    pub fn new(spec: Spec, user_stages: &[Stage], choices: Choices) -> Result<Self> {
        spec.check()?;
        let stages = spec.stages(user_stages)?;
        if matches!(spec.source, SourceOptions::Table(_)) {
            check_stages(&stages)?;
        } else if stages
            .iter()
            .any(|stage| matches!(stage, Stage::Table(map) if map.batch_rows().is_some()))
        {
            let problem = "is for rows of a TableSource; documents are not cut".to_owned();
            return Err(Error::option("batch_size", problem));
        }
        let errors = ErrorBudget::new(spec.max_errors);
        let ids =
            FooterCheck { columns: spec.id_columns.clone(), allows_nulls: spec.allows_null_ids };
        let declared = choices.source.overrides.iter().flat_map(|overrides| overrides.fields());
        if let Some(field) =
            declared.into_iter().find(|field| spec.id_columns.contains(field.name()))
        {
            let problem = format!(
                "declares the id column `{}`; keys are made from ids as the files have them",
                field.name()
            );
            return Err(Error::option("schema_overrides", problem));
        }
        let source_choice = choices.of_source(&stages);
        Ok(Self {
            spec,
            stages,
            choices,
            source_choice,
            errors,
            buffers: Mutex::default(),
            unpublished: Unpublished::default(),
            checkpoint: None,
            ids,
            planned: Mutex::default(),
            passed: Mutex::default(),
            schema: OnceLock::new(),
            reader: OnceLock::new(),
            results: Vec::new(),
            running: OnceLock::new(),
        })
    }

    /// Commits splits to a journal; rows that are already done are skipped.
    #[must_use]
    pub fn with_checkpoint(self, checkpoint: Checkpointing) -> Self {
        Self { checkpoint: Some(checkpoint), ..self }
    }

    /// Reads files with the schema that was agreed on when the job was planned.
    #[must_use]
    pub fn with_schema(self, schema: SchemaRef) -> Self {
        Self { schema: schema.into(), ..self }
    }

    /// The columns of the results of functions, as [`Pipeline::results`] of an earlier run, or on
    /// another machine.
    #[must_use]
    pub fn with_results(self, results: Vec<SchemaRef>) -> Self {
        Self { results, ..self }
    }

    /// For each function whose first result decides the columns of later ones: these columns, once
    /// they are decided.
    pub fn results(&self) -> Vec<Option<SchemaRef>> {
        self.result_schemas().decided()
    }

    fn result_schemas(&self) -> &Arc<ResultSchemas> {
        self.running.get_or_init(|| {
            let functions =
                self.stages.iter().filter(|stage| matches!(stage, Stage::Table(_))).count();
            // The columns of the last function may be given.
            let deciding =
                functions.saturating_sub(usize::from(self.choices.sink.schema.is_some()));
            Arc::new(ResultSchemas::new(deciding, &self.results))
        })
    }

    /// The columns that the user fixes.
    pub fn choices(&self) -> &Choices {
        &self.choices
    }

    /// On which the files of a job have agreed; `None` before it is planned.
    pub fn schema(&self) -> Option<&SchemaRef> {
        self.schema.get()
    }

    /// The input files, for a journal to compare with those already planned, and the files skipped
    /// because of their format.
    ///
    /// # Errors
    /// When a path is missing or contains no input.
    pub fn files(&self) -> Result<(Vec<InputFile>, Vec<String>)> {
        self.spec.files()
    }

    /// Divides files into splits; the files agree on a schema, unless the job has
    /// agreed on one before.
    ///
    /// # Errors
    /// As [`TableInput::plan`], and for ids of another type than the job has.
    pub fn plan(
        &self,
        files: Vec<InputFile>,
        agreed: &Agreed,
        threads: usize,
        cancel: &Cancel,
    ) -> Result<Vec<Split>> {
        let by = &self.spec.partitioning;
        if files.is_empty() && agreed.schema.is_none() {
            return Ok(partition(files, by)?);
        }
        let mut planned = self.planned.lock().unwrap_or_else(PoisonError::into_inner);
        let is_first = agreed.schema.is_none() && agreed.pending.is_empty();
        let plan = match (&*planned, &self.spec.source) {
            // Checked before the journal was opened.
            (Some((known, plan)), _) if is_first && *known == files => plan,
            (_, SourceOptions::Table(options)) => {
                let passed = self.passed.lock().unwrap_or_else(PoisonError::into_inner);
                let input = TableInput { passed: passed.as_ref(), ..self.table_input(options) };
                let plan = input.plan(files.clone(), by, agreed, threads, cancel)?;
                &planned.insert((files, plan)).1
            }
            _ => {
                let all: Vec<InputFile> = files.iter().chain(&agreed.pending).cloned().collect();
                let schema = match &agreed.schema {
                    // What does not fit it is rescued.
                    Some(schema) => Arc::clone(schema),
                    None => self.document_schema(&all, threads, cancel)?,
                };
                let plan =
                    TablePlan { schema, splits: partition(files.clone(), by)?, id_types: None };
                &planned.insert((files, plan)).1
            }
        };
        if let (Some((found, _)), Some(expected)) = (&plan.id_types, &agreed.id_types) {
            let path = plan
                .splits
                .first()
                .and_then(|split| split.files.first())
                .map_or("", |file| &file.path);
            self.ids.agree(expected, found, path)?;
        }
        let _same = self.schema.set(Arc::clone(&plan.schema));
        Ok(plan.splits.clone())
    }

    /// The columns of a job of documents: from a sample of the JSON of tars, or from all footers.
    fn document_schema(
        &self,
        files: &[InputFile],
        threads: usize,
        cancel: &Cancel,
    ) -> Result<SchemaRef> {
        let filtered = &self.filtered();
        match &self.spec.source {
            SourceOptions::WebDataset(options) => {
                let heads = HeadsOf {
                    options,
                    filtered,
                    choice: &self.source_choice,
                    limits: SampleLimits::default(),
                };
                Ok(heads.files(files, threads, cancel)?)
            }
            SourceOptions::Parquet(options) => {
                Ok(SchemaOf { options, filtered }.files(files, threads, cancel)?)
            }
            SourceOptions::Jsonl(options) => {
                let heads = HeadsOf {
                    options,
                    filtered,
                    choice: &self.source_choice,
                    limits: SampleLimits::default(),
                };
                Ok(heads.files(files, threads, cancel)?)
            }
            SourceOptions::Table(_) => self.planned_schema().cloned(),
        }
    }

    /// Finds the inputs and divides them into splits; nothing is written yet. The other files are
    /// those skipped because of their format.
    ///
    /// # Errors
    /// When a path is missing or contains no input, and as [`Pipeline::plan`].
    pub fn splits(&self, threads: usize, cancel: &Cancel) -> Result<(Vec<Split>, Vec<String>)> {
        let (files, left_out) = self.spec.files()?;
        Ok((self.plan(files, &Agreed::default(), threads, cancel)?, left_out))
    }

    /// Checks that the names in the options exist in the input: reads until each name is found, and
    /// writes nothing. Call it before anything is written.
    ///
    /// # Errors
    /// [`Error::AbsentKey`], [`Error::AbsentColumn`], and as [`tables::check_columns`].
    pub fn check_names(&self, splits: &[Split], cancel: &Cancel) -> Result<()> {
        let files = splits.iter().flat_map(|split| &split.files);
        match &self.spec.source {
            SourceOptions::WebDataset(options) => {
                Ok(check_keys(files, options, &self.filtered(), cancel)?)
            }
            SourceOptions::Jsonl(options) => {
                Ok(check_documents(files, options, &self.filtered(), cancel)?)
            }
            // Planning has checked them.
            SourceOptions::Parquet(_) | SourceOptions::Table(_) => Ok(()),
        }
    }

    /// The keys and columns that the first filters name.
    fn filtered(&self) -> Vec<String> {
        let names: BTreeSet<&str> =
            first_filters(&self.stages).flat_map(|filter| filter.columns()).collect();
        // A name with dots may be a path into a struct.
        names
            .into_iter()
            .filter(|name| {
                !is_reserved(name)
                    && *name != RESCUED
                    && !name.contains('.')
                    && !self.source_choice.declares(name)
            })
            .map(str::to_owned)
            .collect()
    }

    /// Prepares the output directory. Call it once per run, after [`Pipeline::splits`]. A resumed
    /// run continues in the existing directory.
    ///
    /// # Errors
    /// See [`prepare_output`].
    pub fn prepare(&self, splits: &[Split], is_resumed: bool) -> Result<()> {
        let inputs: Vec<String> =
            splits.iter().flat_map(|split| &split.files).map(|file| file.path.clone()).collect();
        if is_resumed {
            return prepare_output(
                &SinkOptions { mode: Mode::Resume, ..self.spec.sink.clone() },
                &inputs,
            );
        }
        prepare_output(&self.spec.sink, &inputs)
    }

    /// Runs all splits on threads of this process; reports are in the order of the splits.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn run(
        self: &Arc<Self>,
        splits: Vec<Split>,
        workers: usize,
        cancel: &Cancel,
    ) -> Result<Run<Result<SplitReport>>> {
        self.result_schemas().begin();
        let slots = CoreSlots::new(workers);
        let pipeline = Arc::clone(self);
        let stop = cancel.clone();
        let lanes = workers.max(1) * LANES_PER_WORKER;
        // The images of each chunk stay until the sink has written them.
        let budget =
            self.spec.chunk_bytes.saturating_mul(lanes as u64).saturating_add(FETCHED_BYTES);
        let shared = Shared::new(Roots::new(&self.spec.paths, &self.spec.allowed_roots), budget);
        Ok(run_until_error(splits.len(), lanes, cancel, move |index| {
            let split = splits.get(index).cloned().unwrap_or_else(|| Split::new(index, Vec::new()));
            pipeline.run_split(&split, index, &slots, &shared, &stop)
        })?)
    }

    /// Removes unpublished files, for a caller that stopped the run and cannot wait for its
    /// threads. The pipeline cannot be used afterwards.
    pub fn abandon(&self) {
        self.unpublished.abandon();
    }

    /// Runs one split on the calling thread; `place` is its place in the order of the run.
    ///
    /// # Errors
    /// Under the policy `error`, when a stage raises, when the disk is full, and when cancelled. No
    /// file of the failed batch is then visible.
    fn run_split(
        &self,
        split: &Split,
        place: usize,
        slots: &CoreSlots,
        shared: &Shared,
        cancel: &Cancel,
    ) -> Result<SplitReport> {
        let agree = self.checkpoint.as_ref().map(|checkpoint| {
            |function: usize, schema: &Schema| checkpoint.agree_on_result(function, schema)
        });
        let agree = agree.as_ref().map(|agree| agree as &Agree<'_>);
        // A split that begins before the first one would wait for what that one decides.
        let slot = slots.acquire_in_order(place, cancel)?;
        let turn = self.result_schemas().turn(place, (slot, slots), agree, cancel);
        let report = match &self.spec.source {
            SourceOptions::Table(options) => self.run_table_split(split, options, &turn, cancel)?,
            SourceOptions::WebDataset(_) | SourceOptions::Parquet(_) | SourceOptions::Jsonl(_) => {
                self.run_document_split(split, &turn, shared, cancel)?
            }
        };
        turn.end();
        Ok(report)
    }

    fn run_table_split(
        &self,
        split: &Split,
        options: &TableOptions,
        turn: &Turn<'_>,
        cancel: &Cancel,
    ) -> Result<SplitReport> {
        let mut report = SplitReport { split: split.index, ..SplitReport::default() };
        report.files = split.files.iter().map(|file| file.path.clone()).collect();
        let reader = self.table_reader(split, options)?;
        let attempt = self.attempt(split)?;
        let publishing = self.publishing(split, attempt.as_ref());
        let no_ids = IdPolicy::default();
        let ids = self.checkpoint.as_ref().map_or(&no_ids, |checkpoint| checkpoint.ids(split));
        let records_ids = attempt.as_ref().filter(|_| !ids.columns.is_empty());
        let ids_path = records_ids
            .map(|attempt| attempt.lock().unwrap_or_else(PoisonError::into_inner).ids_path());
        let job = TableJob {
            options,
            reader,
            stages: &self.stages,
            sink: &self.spec.sink,
            choices: &self.choices,
            turn,
            ids,
            publishing,
            cancel,
            chunk_bytes: self.spec.chunk_bytes,
        };
        let outcome = tables::run(split, &job, ids_path.as_deref(), &mut report)?;
        turn.leave();
        match outcome.rows {
            Some(rows) => {
                rows.publish(publishing, self.stages.len() + 1, tables::SINK_STAGE, &mut report)?;
            }
            None if attempt.is_none() => self.remove_earlier(&outcome.path)?,
            None => {}
        }
        if let Some(attempt) = attempt {
            if let Some(ids) = outcome.ids {
                ids.record_ids(&attempt)?;
            }
            commit(attempt, &mut report)?;
        }
        Ok(report)
    }

    /// Removes the output of an earlier run for the same inputs, of which no row is left.
    fn remove_earlier(&self, path: &str) -> Result<()> {
        if self.spec.sink.mode != Mode::Resume {
            return Ok(());
        }
        let failed = |source| shardmill_storage::Error::Stage { path: path.to_owned(), source };
        Ok(AnyDisk::default().remove(path).map_err(failed)?)
    }

    fn table_input<'a>(&'a self, options: &'a TableOptions) -> TableInput<'a> {
        TableInput {
            paths: &self.spec.paths,
            options,
            stages: &self.stages,
            ids: &self.ids,
            choice: &self.choices.source,
            passed: None,
        }
    }

    fn table_reader(&self, split: &Split, options: &TableOptions) -> Result<&TableReader> {
        if let Some(reader) = self.reader.get() {
            return Ok(reader);
        }
        let reader = self.table_input(options).reader(split, Arc::clone(self.planned_schema()?))?;
        Ok(self.reader.get_or_init(|| reader))
    }

    fn planned_schema(&self) -> Result<&SchemaRef> {
        self.schema()
            .ok_or_else(|| Error::option("splits", "were not planned, so the job has no schema"))
    }

    fn attempt(&self, split: &Split) -> Result<Option<Mutex<Attempt>>> {
        self.checkpoint.as_ref().map(|checkpoint| checkpoint.attempt(split)).transpose()
    }

    fn publishing<'a>(
        &'a self,
        split: &'a Split,
        attempt: Option<&'a Mutex<Attempt>>,
    ) -> Publishing<'a> {
        let replace = if self.spec.may_replace || self.spec.sink.mode == Mode::Resume {
            Replace::Atomically
        } else {
            Replace::Never
        };
        Publishing { replace, unpublished: &self.unpublished, attempt, version: version_of(split) }
    }

    fn is_eager(&self) -> bool {
        matches!(
            &self.spec.source,
            SourceOptions::WebDataset(options) if options.materialize_on_read
        )
    }
}
