//! A file as a table whose columns were matched by their ids.

use super::shape::{Part, Shape, Value, typed};
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, new_empty_array};
use arrow_buffer::BooleanBuffer;
use arrow_schema::{ArrowError, Field, Schema, SchemaRef};
use shardmill_formats::table::{
    Block, BlockPages, NestedColumn, Statistics, Step, TableError, TableFile, column_field, values,
};
use std::collections::HashMap;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

/// How a column is made: from the column `own` of the file, then from the field at `steps` of that.
#[derive(Debug)]
pub(super) struct Source {
    own: usize,
    shape: Shape,
    steps: Vec<Step>,
}

#[derive(Debug)]
pub(super) struct TableView {
    inner: Arc<dyn TableFile>,
    schema: SchemaRef,
    declared: SchemaRef,
    nested: Vec<NestedColumn>,
    /// For the top-level columns, then for the fields inside of structs.
    sources: Vec<Source>,
}

impl TableView {
    pub(super) fn new(inner: Arc<dyn TableFile>, top: Vec<Part>) -> Result<Self, ArrowError> {
        let mut sources = Vec::with_capacity(top.len());
        let (mut delivered, mut declared) = (Vec::new(), Vec::new());
        for Part { name, value } in top {
            let Value::Own(own, shape) = value else { continue };
            for (schema, fields) in
                [(inner.schema(), &mut delivered), (inner.declared_schema(), &mut declared)]
            {
                let field = schema
                    .fields()
                    .get(own)
                    .ok_or_else(|| ArrowError::SchemaError(format!("there is no column {own}")))?;
                fields.push(typed(
                    &Field::clone(field).with_name(&name),
                    &shape.apply(&new_empty_array(field.data_type()))?,
                ));
            }
            sources.push(Source { own, shape, steps: Vec::new() });
        }
        let (schema, declared): (SchemaRef, SchemaRef) =
            (Arc::new(Schema::new(delivered)), Arc::new(Schema::new(declared)));
        let nested = NestedColumn::all(&declared);
        let places = |steps: &[Step]| steps.iter().map(|step| step.index).collect::<Vec<_>>();
        let known: HashMap<(usize, Vec<usize>), usize> = inner
            .nested()
            .iter()
            .zip(inner.declared_schema().fields().len()..)
            .map(|(column, own)| ((column.root, places(&column.steps)), own))
            .collect();
        let source = |column: &NestedColumn| {
            let root = sources.get(column.root)?;
            let direct = root
                .shape
                .below(&column.steps)
                .and_then(|(places, shape)| Some((*known.get(&(root.own, places))?, shape)));
            Some(match direct {
                Some((own, shape)) => Source { own, shape, steps: Vec::new() },
                None => {
                    Source { own: root.own, shape: root.shape.clone(), steps: column.steps.clone() }
                }
            })
        };
        let below: Vec<Source> = nested.iter().filter_map(source).collect();
        sources.extend(below);
        Ok(Self { inner, schema, declared, nested, sources })
    }

    fn own(&self, columns: &[usize]) -> Vec<usize> {
        columns
            .iter()
            .filter_map(|column| self.sources.get(*column))
            .map(|source| source.own)
            .collect()
    }

    /// The number in the file of a column whose values are those of the file.
    fn plain(&self, column: usize) -> Option<usize> {
        self.sources
            .get(column)
            .filter(|source| matches!(source.shape, Shape::Same) && source.steps.is_empty())
            .map(|source| source.own)
    }

    fn delivered(&self, batch: &RecordBatch, columns: &[usize]) -> Result<RecordBatch, TableError> {
        let made = |(column, array): (&usize, &ArrayRef)| -> Result<_, ArrowError> {
            let missing = || ArrowError::SchemaError(format!("there is no column {column}"));
            let source = self.sources.get(*column).ok_or_else(missing)?;
            let array = values(&source.shape.apply(array)?, &source.steps)?;
            let field = column_field(&self.declared, &self.nested, *column).ok_or_else(missing)?;
            Ok((typed(field, &array), array))
        };
        let made =
            columns.iter().zip(batch.columns()).map(made).collect::<Result<(Vec<_>, Vec<_>), _>>();
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        made.and_then(|(fields, arrays)| {
            RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)
        })
        .map_err(|source| TableError::Join { path: self.path().to_owned(), source })
    }
}

impl TableFile for TableView {
    fn path(&self) -> &str {
        self.inner.path()
    }

    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn declared_schema(&self) -> &SchemaRef {
        &self.declared
    }

    fn nested(&self) -> &[NestedColumn] {
        &self.nested
    }

    fn blocks(&self) -> &[Block] {
        self.inner.blocks()
    }

    fn read(
        &self,
        block: usize,
        columns: &[usize],
        selection: Option<&BooleanBuffer>,
    ) -> Result<RecordBatch, TableError> {
        self.delivered(&self.inner.read(block, &self.own(columns), selection)?, columns)
    }

    fn read_run(&self, blocks: Range<usize>, columns: &[usize]) -> Result<RecordBatch, TableError> {
        self.delivered(&self.inner.read_run(blocks, &self.own(columns))?, columns)
    }

    fn runs(&self) -> Vec<Range<usize>> {
        self.inner.runs()
    }

    fn scan(
        &self,
        run: Range<usize>,
        columns: &[usize],
        each: &mut dyn FnMut(RecordBatch) -> ControlFlow<()>,
    ) -> Result<(), TableError> {
        let mut failed = None;
        self.inner.scan(
            run,
            &self.own(columns),
            &mut |batch| match self.delivered(&batch, columns) {
                Ok(batch) => each(batch),
                Err(error) => {
                    failed = Some(error);
                    ControlFlow::Break(())
                }
            },
        )?;
        failed.map_or(Ok(()), Err)
    }

    fn decoded_bytes(&self, block: usize, columns: &[usize]) -> u64 {
        self.inner.decoded_bytes(block, &self.own(columns))
    }

    fn statistics(&self, column: usize) -> Option<Statistics> {
        self.inner.statistics(self.plain(column)?)
    }

    fn list_length(&self, column: usize) -> Option<u64> {
        self.inner.list_length(self.plain(column)?)
    }

    fn page_statistics(
        &self,
        block: usize,
        column: usize,
    ) -> Result<Option<BlockPages>, TableError> {
        self.plain(column).map_or(Ok(None), |own| self.inner.page_statistics(block, own))
    }

    fn may_contain(
        &self,
        block: usize,
        column: usize,
        values: &ArrayRef,
    ) -> Result<bool, TableError> {
        self.plain(column).map_or(Ok(true), |own| self.inner.may_contain(block, own, values))
    }

    fn digest(&self) -> u128 {
        self.inner.digest()
    }
}
