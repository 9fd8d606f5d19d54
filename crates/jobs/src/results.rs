//! The columns of what functions return, decided once for all splits of a job.
//!
//! The invariant: the first call in the first split that yields a row decides, whichever thread is
//! faster. The splits of a run are in the order of the plan.

use crate::report::SplitReport;
use crate::{Error, Result};
use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, Field, FieldRef, Schema, SchemaRef};
use shardmill_documents::Error as DocumentError;
use shardmill_documents::schema::SchemaChoice;
use shardmill_documents::table::in_schema;
use shardmill_engine::{CANCEL_POLL, Cancel, CoreSlot, CoreSlots, Error as EngineError};
use shardmill_formats::table::{arrow_message, column_type_name};
use shardmill_plan::schema::with_wide_keys;
use std::cell::RefCell;
use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Records the columns of the results of a function for later runs and for other workers, unless
/// one of them was faster; returns the recorded ones.
pub(crate) type Agree<'a> = dyn Fn(usize, &Schema) -> Result<SchemaRef> + 'a;

/// Shared by the splits of a run.
#[derive(Debug, Default)]
pub(crate) struct ResultSchemas {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// One for each function whose results decide.
    decided: Vec<Option<SchemaRef>>,
    /// The first split that has not ended.
    first: usize,
    /// Splits after it that have.
    ended: BTreeSet<usize>,
    /// A split failed, so what it would have decided will not be known.
    is_broken: bool,
}

impl ResultSchemas {
    /// Of `functions`, some of which were decided by an earlier run or on another machine.
    #[must_use]
    pub(crate) fn new(functions: usize, decided: &[SchemaRef]) -> Self {
        let decided = (0..functions).map(|number| decided.get(number).cloned()).collect();
        Self { state: Mutex::new(State { decided, ..State::default() }), changed: Condvar::new() }
    }

    /// Begins a run, whose splits have not begun.
    pub(crate) fn begin(&self) {
        let mut state = self.lock();
        *state = State { decided: std::mem::take(&mut state.decided), ..State::default() };
    }

    /// `None` for a function that has not returned a row yet.
    pub(crate) fn decided(&self) -> Vec<Option<SchemaRef>> {
        self.lock().decided.clone()
    }

    /// Begins the split at `place` in the order of the run on a core, one of `slots`.
    pub(crate) fn turn<'a>(
        &'a self,
        place: usize,
        (slot, slots): (CoreSlot, &'a CoreSlots),
        agree: Option<&'a Agree<'a>>,
        cancel: &'a Cancel,
    ) -> Turn<'a> {
        let slot = RefCell::new(Some(slot));
        Turn { schemas: self, place, slots, slot, agree, cancel, has_ended: false }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A split of a run, which has a core while it does not wait. Without [`Turn::end`] it has failed.
pub(crate) struct Turn<'a> {
    schemas: &'a ResultSchemas,
    place: usize,
    slots: &'a CoreSlots,
    slot: RefCell<Option<CoreSlot>>,
    agree: Option<&'a Agree<'a>>,
    cancel: &'a Cancel,
    has_ended: bool,
}

impl Turn<'_> {
    /// The schema for the results of a function, of which this split has `first`. Waits for the
    /// splits before, unless it is decided. `check` looks at what this split decides.
    ///
    /// # Errors
    /// Of `check`, when the run is cancelled or a split before failed, and when the checkpoint
    /// cannot be written.
    fn decide(
        &self,
        function: usize,
        first: &SchemaRef,
        check: impl Fn(&SchemaRef) -> Result<()>,
    ) -> Result<SchemaRef> {
        if let Some(decided) = self.decided(function, first, &check)? {
            return Ok(decided);
        }
        drop(self.slot.take());
        let decided = loop {
            self.cancel.check()?;
            let state = self.schemas.lock();
            if state.is_broken {
                return Err(EngineError::Cancelled.into());
            }
            drop(
                self.schemas
                    .changed
                    .wait_timeout(state, CANCEL_POLL)
                    .unwrap_or_else(PoisonError::into_inner),
            );
            if let Some(decided) = self.decided(function, first, &check)? {
                break decided;
            }
        };
        self.slot.replace(Some(self.slots.acquire(self.cancel)?));
        Ok(decided)
    }

    fn decided(
        &self,
        function: usize,
        first: &SchemaRef,
        check: &impl Fn(&SchemaRef) -> Result<()>,
    ) -> Result<Option<SchemaRef>> {
        let mut state = self.schemas.lock();
        let is_first = state.first == self.place;
        let Some(decided) = state.decided.get_mut(function) else {
            return Ok(Some(Arc::clone(first)));
        };
        if decided.is_none() && is_first {
            check(first)?;
            let agreed = self.agree.map(|agree| agree(function, first)).transpose()?;
            *decided = Some(agreed.unwrap_or_else(|| Arc::clone(first)));
            self.schemas.changed.notify_all();
        }
        Ok(decided.clone())
    }

    /// Gives the core away, for what does not need one.
    pub(crate) fn leave(&self) {
        drop(self.slot.take());
    }

    /// The work of the split is done: what it has not decided, the next one may.
    pub(crate) fn end(mut self) {
        self.has_ended = true;
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut state = self.schemas.lock();
        if self.has_ended {
            state.ended.insert(self.place);
            let State { first, ended, .. } = &mut *state;
            while ended.remove(first) {
                *first += 1;
            }
        } else {
            state.is_broken = true;
        }
        self.schemas.changed.notify_all();
    }
}

/// A function of a split, and how its results get the columns of the job.
#[derive(Clone, Copy)]
pub(crate) struct Results<'a> {
    pub turn: &'a Turn<'a>,
    /// The number of the function among those of the job.
    pub function: usize,
    /// What the user declares, for the results of the last function.
    pub choice: Option<&'a SchemaChoice>,
    pub stage: &'a str,
}

impl Results<'_> {
    /// The columns of all results: those of the first one, and what the user declares. The function
    /// was given rows with the columns `given`.
    ///
    /// # Errors
    /// [`Error::NullResult`], [`Error::TwinResult`], and as [`Turn::decide`].
    pub(crate) fn decided(
        &self,
        first: &Schema,
        given: &Schema,
        path: &str,
        report: &mut SplitReport,
    ) -> Result<SchemaRef> {
        self.check_names(first, path)?;
        // Dictionaries can index the values of all calls together, and later
        // results may lack a column.
        let wide = |field: &FieldRef| {
            Arc::new(
                Field::clone(field)
                    .with_data_type(with_wide_keys(field.data_type()))
                    .with_nullable(true),
            )
        };
        let fields: Vec<FieldRef> = first.fields().iter().map(wide).collect();
        let returned = Arc::new(Schema::new_with_metadata(fields, first.metadata().clone()));
        let Some(choice) = self.choice else {
            return self.turn.decide(self.function, &returned, |_| Ok(()));
        };
        let target = choice.apply_counted(&returned, &mut report.ledger);
        if choice.schema.is_some() {
            return Ok(target);
        }
        // A column without a type in all files of the job may stay without one.
        let is_given = |field: &Field| {
            given.field_with_name(field.name()).is_ok_and(|given| given.data_type().is_null())
        };
        let has_no_type = |field: &&FieldRef| {
            field.data_type().is_null() && !choice.declares(field.name()) && !is_given(field)
        };
        self.turn.decide(self.function, &target, |decided| {
            match decided.fields().iter().find(has_no_type) {
                Some(field) => Err(Error::NullResult {
                    stage: self.stage.to_owned(),
                    path: path.to_owned(),
                    column: field.name().clone(),
                }),
                None => Ok(()),
            }
        })
    }

    /// Arrow allows two columns of one name, and files do not.
    fn check_names(&self, result: &Schema, path: &str) -> Result<()> {
        let mut names = HashSet::new();
        match result.fields().iter().find(|field| !names.insert(field.name())) {
            None => Ok(()),
            Some(field) => Err(Error::TwinResult {
                stage: self.stage.to_owned(),
                path: path.to_owned(),
                column: field.name().clone(),
            }),
        }
    }

    /// A result with the columns of all results.
    ///
    /// # Errors
    /// [`Error::StageSchema`], [`Error::TwinResult`].
    pub(crate) fn converted(
        &self,
        rows: &RecordBatch,
        schema: &SchemaRef,
        path: &str,
    ) -> Result<RecordBatch> {
        self.check_names(rows.schema_ref(), path)?;
        let is_fixed = self.choice.is_some_and(|choice| choice.schema.is_some());
        let unfit = |problem| Error::StageSchema {
            stage: self.stage.to_owned(),
            path: path.to_owned(),
            problem,
        };
        let mut fields = rows.schema_ref().fields().iter();
        if let Some(field) =
            fields.find(|field| !is_fixed && schema.index_of(field.name()).is_err())
        {
            return Err(unfit(format!(
                "column `{}` ({}) is new",
                field.name(),
                column_type_name(field)
            )));
        }
        in_schema(rows, schema).map_err(|error| match error {
            DocumentError::Cast { column, data_type, source } => {
                let own = rows
                    .schema_ref()
                    .field_with_name(&column)
                    .map(column_type_name)
                    .unwrap_or_default();
                let reason = match source {
                    ArrowError::CastError(reason) => reason,
                    other => arrow_message(&other),
                };
                unfit(format!("column `{column}` is {own}, and was {data_type}: {reason}"))
            }
            other => unfit(other.to_string()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_schema::DataType;
    use std::thread;

    fn schema(data_type: DataType) -> SchemaRef {
        Arc::new(Schema::new(vec![Field::new("v", data_type, true)]))
    }

    #[test]
    fn later_split_waits_without_a_core_until_the_first_one_decides() {
        let (schemas, slots, cancel) =
            (ResultSchemas::new(1, &[]), CoreSlots::new(1), Cancel::default());
        let later = schemas.turn(1, (slots.acquire(&cancel).unwrap(), &slots), None, &cancel);
        thread::scope(|scope| {
            // The only core is that of the second split until it waits.
            let first = scope.spawn(|| {
                let first =
                    schemas.turn(0, (slots.acquire(&cancel).unwrap(), &slots), None, &cancel);
                let decided = first.decide(0, &schema(DataType::Int64), |_| Ok(())).unwrap();
                first.end();
                decided
            });
            assert_eq!(
                later.decide(0, &schema(DataType::Utf8), |_| Ok(())).unwrap(),
                schema(DataType::Int64)
            );
            assert_eq!(first.join().unwrap(), schema(DataType::Int64));
        });
        assert_eq!(schemas.decided(), [Some(schema(DataType::Int64))]);
    }

    #[test]
    fn split_without_rows_leaves_the_decision_to_the_next_one() {
        let (schemas, slots, cancel) =
            (ResultSchemas::new(1, &[]), CoreSlots::new(3), Cancel::default());
        let turn =
            |place| schemas.turn(place, (slots.acquire(&cancel).unwrap(), &slots), None, &cancel);
        let (first, second, third) = (turn(0), turn(1), turn(2));
        second.end();
        first.end();
        assert_eq!(
            third.decide(0, &schema(DataType::Utf8), |_| Ok(())).unwrap(),
            schema(DataType::Utf8)
        );
    }

    #[test]
    fn first_split_of_a_second_run_decides_what_the_first_run_did_not() {
        let (schemas, slots, cancel) =
            (ResultSchemas::new(1, &[]), CoreSlots::new(1), Cancel::default());
        let turn =
            |place| schemas.turn(place, (slots.acquire(&cancel).unwrap(), &slots), None, &cancel);
        turn(0).end();
        drop(turn(1));
        schemas.begin();
        assert_eq!(
            turn(0).decide(0, &schema(DataType::Utf8), |_| Ok(())).unwrap(),
            schema(DataType::Utf8)
        );
    }

    #[test]
    fn split_after_a_failed_one_stops() {
        let (schemas, slots, cancel) =
            (ResultSchemas::new(1, &[]), CoreSlots::new(2), Cancel::default());
        let later = schemas.turn(1, (slots.acquire(&cancel).unwrap(), &slots), None, &cancel);
        drop(schemas.turn(0, (slots.acquire(&cancel).unwrap(), &slots), None, &cancel));
        assert!(matches!(
            later.decide(0, &schema(DataType::Utf8), |_| Ok(())),
            Err(Error::Engine(EngineError::Cancelled))
        ));
    }
}
