//! Combines several data sets: the files of all, with columns matched by name as for the files of
//! one data set.

use super::origin::ImageOrigin;
use super::{Dataset, OpenFile, Origin};
use crate::Result;
use arrow_array::{ArrayRef, Int32Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use shardmill_plan::schema::{FileColumns, unify};
use std::collections::BTreeSet;
use std::sync::Arc;

/// One of the data sets.
#[derive(Debug, Clone)]
pub struct MixedSource {
    pub name: String,
    pub dataset: Arc<Dataset>,
    /// Indices of the columns that it contributes.
    pub columns: Vec<usize>,
}

impl Dataset {
    /// The files of `sources`, source after source. `number_column` adds a column with the index of
    /// the source of each row.
    ///
    /// # Errors
    /// When the sources disagree about a column, or one of them has a column named `number_column`.
    pub fn mixed(sources: &[MixedSource], number_column: Option<&str>) -> Result<Self> {
        let own = |source: &MixedSource| -> SchemaRef {
            let fields = source
                .columns
                .iter()
                .filter_map(|column| source.dataset.schema.fields().get(*column).cloned());
            Arc::new(Schema::new(fields.collect::<Vec<_>>()))
        };
        let schemas: Vec<SchemaRef> = sources.iter().map(own).collect();
        // A data set without files has no columns that others could lack.
        let known =
            sources.iter().zip(&schemas).filter(|(source, _)| !source.dataset.files.is_empty());
        let known: Vec<FileColumns<'_>> = known
            .map(|(source, schema)| FileColumns { path: &source.name, schema, table: None })
            .collect();
        let mut schema = unify(&known)?;
        let (mut files, mut image_columns) = (Vec::new(), BTreeSet::new());
        for (number, (source, own)) in sources.iter().zip(&schemas).enumerate() {
            let place = |field: &Field| {
                own.index_of(field.name()).ok().and_then(|place| source.columns.get(place))
            };
            let places: Vec<Option<&usize>> =
                schema.fields().iter().map(|field| place(field)).collect();
            let constant = number_column.map(|_| i32::try_from(number).unwrap_or(i32::MAX));
            files.extend(
                source
                    .dataset
                    .files
                    .iter()
                    .map(|file| file.within(&source.name, &places, number as u64, constant)),
            );
            image_columns.extend(
                places
                    .iter()
                    .enumerate()
                    .filter(|(_, place)| {
                        place.is_some_and(|place| source.dataset.has_images(*place))
                    })
                    .map(|(column, _)| column),
            );
        }
        if let Some(name) = number_column {
            if schema.index_of(name).is_ok() {
                return Err(crate::Error::SourceColumn { column: name.to_owned() });
            }
            let number = Arc::new(Field::new(name, DataType::Int32, false));
            schema = Arc::new(Schema::new(
                schema.fields().iter().cloned().chain([number]).collect::<Vec<_>>(),
            ));
        }
        let format = sources.first().and_then(|source| source.dataset.format);
        let mixed = Self {
            top_level: schema.fields().len(),
            hidden: BTreeSet::new(),
            format: format.filter(|format| {
                sources.iter().all(|source| source.dataset.format == Some(*format))
            }),
            files,
            schema,
            image_columns,
            left_out: sources
                .iter()
                .flat_map(|source| source.dataset.left_out.iter().cloned())
                .collect(),
            skipped: sources
                .iter()
                .flat_map(|source| source.dataset.skipped.iter().cloned())
                .collect(),
            bytes_read: sources
                .iter()
                .flat_map(|source| source.dataset.bytes_read.iter().cloned())
                .collect(),
        };
        Ok(mixed.with_nested())
    }
}

impl OpenFile {
    /// The same file as one of source `number`, with columns taken from `places`, followed by a
    /// column with `constant` in each row if given.
    fn within(
        &self,
        source: &str,
        places: &[Option<&usize>],
        number: u64,
        constant: Option<i32>,
    ) -> Self {
        let origin = |place: &Option<&usize>| match place
            .and_then(|place| self.columns.get(*place))
            .cloned()
        {
            Some(Origin::Image(image)) => Origin::Image(ImageOrigin { source: number, ..image }),
            origin => origin.unwrap_or(Origin::Absent),
        };
        let numbers = constant
            .map(|number| Origin::Constant(Arc::new(Int32Array::from(vec![number])) as ArrayRef));
        Self {
            relative: format!("{source}/{}", self.relative),
            columns: places.iter().map(origin).chain(numbers).collect(),
            ..self.clone()
        }
    }
}
