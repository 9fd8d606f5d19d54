//! One schema for all files: columns are matched by name, and types widened if no value changes.

use super::widened::{common_metadata, widened_field};
use super::{widened, with_wide_keys};
use crate::{Error, Result};
use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};
use shardmill_formats::table::TableFile;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The columns of a file, or of one of the data sets of a mixture.
#[derive(Debug, Clone, Copy)]
pub struct FileColumns<'a> {
    /// Names it in errors.
    pub path: &'a str,
    pub schema: &'a SchemaRef,
    /// Known for files.
    pub table: Option<&'a dyn TableFile>,
}

impl<'a> FileColumns<'a> {
    #[must_use]
    pub fn of(table: &'a dyn TableFile) -> Self {
        Self { path: table.path(), schema: table.declared_schema(), table: Some(table) }
    }

    #[must_use]
    pub fn has_rows(&self) -> bool {
        self.table.is_none_or(|table| table.blocks().iter().any(|block| block.rows > 0))
    }

    fn field(&self, name: &str) -> Option<&'a FieldRef> {
        self.schema.fields().find(name).map(|(_, field)| field)
    }

    /// Whether the footer counts only nulls in a column.
    #[must_use]
    pub fn has_only_nulls(&self, name: &str) -> bool {
        let Some((table, column)) = self
            .table
            .and_then(|table| Some((table, table.declared_schema().index_of(name).ok()?)))
        else {
            return false;
        };
        let is_null = |(nulls, rows): (&Option<u64>, &u64)| *nulls == Some(*rows);
        table.statistics(column).is_some_and(|found| {
            found.null_counts.len() == found.row_counts.len()
                && found.null_counts.iter().zip(&found.row_counts).all(is_null)
        })
    }
}

/// The schema of all files, with columns in order of first appearance.
///
/// Files without rows may have arbitrary types and are passed over, unless no file has rows.
/// Where types have none in common, files whose footers count only nulls in the column are
/// passed over as well. Of the metadata of the first file those keys are kept on which all
/// files that have them agree; of the metadata of a column, what all files with this column state.
///
/// # Errors
/// [`Error::SchemaConflict`], [`Error::DuplicateColumn`].
pub fn unify(files: &[FileColumns<'_>]) -> Result<SchemaRef> {
    let filled: Vec<FileColumns<'_>> =
        files.iter().filter(|file| file.has_rows()).copied().collect();
    let files = if filled.is_empty() { files } else { &filled };
    let Some((first, rest)) = files.split_first() else { return Ok(Arc::new(Schema::empty())) };
    let mut columns: Vec<Column> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    for file in files {
        // Most data sets have one schema, which needs no look-ups.
        if !std::ptr::eq(file, first) && file.schema.fields() == first.schema.fields() {
            columns
                .iter_mut()
                .take(first.schema.fields().len())
                .for_each(|column| column.files += 1);
            continue;
        }
        let mut names = HashSet::new();
        for field in file.schema.fields() {
            if !names.insert(field.name()) {
                return Err(Error::DuplicateColumn {
                    path: file.path.to_owned(),
                    column: field.name().clone(),
                });
            }
            match places.get(field.name().as_str()).and_then(|place| columns.get_mut(*place)) {
                Some(column) => column.add(field),
                None => {
                    places.insert(field.name(), columns.len());
                    columns.push(Column::new(field));
                }
            }
        }
    }
    let fields =
        columns.into_iter().map(|column| column.field_of(files)).collect::<Result<Vec<_>>>()?;
    let mut metadata = first.schema.metadata().clone();
    for file in rest {
        metadata.retain(|key, value| {
            file.schema.metadata().get(key).is_none_or(|other| other == value)
        });
    }
    Ok(Arc::new(Schema::new_with_metadata(fields, metadata)))
}

/// A column of all files so far.
struct Column {
    /// With the type that is wide enough, if there is one.
    field: Field,
    is_same: bool,
    /// The number of files that have it.
    files: usize,
}

impl Column {
    fn new(field: &Field) -> Self {
        Self { field: wide(field), is_same: true, files: 1 }
    }

    fn add(&mut self, field: &Field) {
        self.files += 1;
        self.is_same &= self.field.data_type() == wide(field).data_type();
        self.field.set_nullable(self.field.is_nullable() || field.is_nullable());
        self.field.set_metadata(common_metadata(&self.field, field));
    }

    /// The field for the values of all files.
    fn field_of(self, files: &[FileColumns<'_>]) -> Result<Field> {
        let is_nullable = self.field.is_nullable() || self.files < files.len();
        if self.is_same {
            return Ok(self.field.with_nullable(is_nullable));
        }
        let name = self.field.name();
        let known = || files.iter().filter_map(|file| Some((*file, file.field(name)?)));
        let common = match widest(known()) {
            // A column of nulls has any type.
            Err(_) if known().any(|(file, _)| !file.has_only_nulls(name)) => {
                widest(known().filter(|(file, _)| !file.has_only_nulls(name)))
            }
            Err(_) => Ok(Some(self.field.clone().with_data_type(DataType::Null))),
            common => common,
        };
        let common = common.map_err(|(file, field)| conflict(known(), file.path, field))?;
        Ok(common.unwrap_or(self.field).with_nullable(is_nullable))
    }
}

type FileField<'a> = (FileColumns<'a>, &'a FieldRef);

/// The field that is wide enough for all, or the first that has no type
/// in common with those before it.
fn widest<'a>(
    mut files: impl Iterator<Item = FileField<'a>>,
) -> std::result::Result<Option<Field>, FileField<'a>> {
    let Some((_, first)) = files.next() else { return Ok(None) };
    let mut common = Arc::new(wide(first));
    for (file, field) in files {
        common = widened_field(&common, &wide(field)).ok_or((file, field))?;
    }
    Ok(Some(Arc::unwrap_or_clone(common)))
}

fn wide(field: &Field) -> Field {
    field.clone().with_data_type(with_wide_keys(field.data_type()))
}

/// Names the first file whose type has none in common with that of `field`.
fn conflict<'a>(
    mut files: impl Iterator<Item = FileField<'a>> + Clone,
    path: &str,
    field: &Field,
) -> Error {
    let is_other = |(_, own): &FileField<'_>| widened(own.data_type(), field.data_type()).is_none();
    let other = files.clone().find(is_other).or_else(|| files.next());
    Error::SchemaConflict {
        column: field.name().clone(),
        first: other.map_or_else(String::new, |(first, _)| first.path.to_owned()),
        first_type: other.map_or(DataType::Null, |(_, own)| own.data_type().clone()),
        second: path.to_owned(),
        second_type: field.data_type().clone(),
    }
}

/// A column of a file that a schema agreed on before cannot hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Departure {
    pub column: String,
    /// The agreed type; `None` for a new column.
    pub agreed: Option<DataType>,
    pub own: DataType,
}

/// The first column of a file that is new or has a wider type than `agreed`.
#[must_use]
pub fn departure(agreed: &Schema, file: &FileColumns<'_>) -> Option<Departure> {
    let departs = |field: &&FieldRef| match agreed.field_with_name(field.name()) {
        Ok(known) => {
            let known = wide(known);
            widened_field(&known, &wide(field))
                .is_none_or(|both| !both.data_type().equals_datatype(known.data_type()))
        }
        Err(_absent) => true,
    };
    let is_known_null = |field: &&FieldRef| {
        agreed.index_of(field.name()).is_ok() && file.has_only_nulls(field.name())
    };
    let fields = file.schema.fields().iter().filter(|_| file.has_rows());
    let field = fields.filter(departs).find(|field| !is_known_null(field))?;
    Some(Departure {
        column: field.name().clone(),
        agreed: agreed.field_with_name(field.name()).ok().map(|known| known.data_type().clone()),
        own: field.data_type().clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(fields: &[(&str, DataType)]) -> SchemaRef {
        Arc::new(Schema::new(
            fields
                .iter()
                .map(|(name, data_type)| Field::new(*name, data_type.clone(), false))
                .collect::<Vec<_>>(),
        ))
    }

    fn file<'a>(path: &'a str, schema: &'a SchemaRef) -> FileColumns<'a> {
        FileColumns { path, schema, table: None }
    }

    #[test]
    fn columns_are_matched_by_name_and_missing_ones_become_nullable() {
        let (a, b) = (
            schema(&[("x", DataType::Int32), ("y", DataType::Utf8)]),
            schema(&[("z", DataType::Float32), ("x", DataType::Int64)]),
        );
        let unified = unify(&[file("a", &a), file("b", &b)]).unwrap();
        let described: Vec<_> = unified
            .fields()
            .iter()
            .map(|field| (field.name().as_str(), field.data_type().clone(), field.is_nullable()))
            .collect();
        assert_eq!(
            described,
            [
                ("x", DataType::Int64, false),
                ("y", DataType::Utf8, true),
                ("z", DataType::Float32, true)
            ]
        );
    }

    #[test]
    fn conflict_names_both_files_and_the_column() {
        let (a, b) = (schema(&[("x", DataType::Int32)]), schema(&[("x", DataType::Utf8)]));
        let error = unify(&[file("a.parquet", &a), file("b.parquet", &b)]).unwrap_err().to_string();
        assert_eq!(error, "Column `x` is int32 in `a.parquet` and string in `b.parquet`");
    }

    #[test]
    fn keys_of_dictionaries_are_wide_enough_for_the_values_of_many_files() {
        let categories = |key: DataType| {
            schema(&[("x", DataType::Dictionary(Box::new(key), Box::new(DataType::Utf8)))])
        };
        let (a, b) = (categories(DataType::Int8), categories(DataType::UInt16));
        let unified = unify(&[file("a", &a), file("b", &b)]).unwrap();
        assert_eq!(
            unified.field(0).data_type(),
            &DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
        );
    }

    #[test]
    fn metadata_of_a_column_is_what_all_its_files_state() {
        let with = |data_type: DataType, pairs: &[(&str, &str)]| {
            let pairs = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
            let field = Field::new("x", data_type, true).with_metadata(pairs.collect());
            Arc::new(Schema::new(vec![field]))
        };
        let name = "ARROW:extension:name";
        let parameters = "ARROW:extension:metadata";
        let boolean = with(DataType::Int8, &[(name, "arrow.bool8"), (parameters, "")]);
        let tensor = with(DataType::Int8, &[(name, "tensor"), (parameters, "[2,2]"), ("k", "1")]);
        let other = with(DataType::Int8, &[(name, "tensor"), (parameters, "[4]"), ("k", "1")]);
        let plain = with(DataType::Int16, &[]);
        let nulls = with(DataType::Null, &[]);
        let absent = schema(&[("y", DataType::Utf8)]);
        for (files, kept) in [
            ([&boolean, &boolean, &nulls], vec![name, parameters]),
            ([&boolean, &absent, &boolean], vec![name, parameters]),
            ([&boolean, &plain, &boolean], vec![]),
            ([&boolean, &tensor, &absent], vec![]),
            ([&tensor, &other, &nulls], vec!["k"]),
        ] {
            for order in [[0, 1, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
                let unified = unify(&order.map(|place| file("f", files[place]))).unwrap();
                let field = unified.field_with_name("x").unwrap();
                let mut keys: Vec<_> = field.metadata().keys().map(String::as_str).collect();
                keys.sort_unstable_by(|first, second| second.cmp(first));
                assert_eq!(keys, kept, "{field:?}");
            }
        }
    }

    #[test]
    fn declared_keys_of_a_dictionary_are_not_wider_than_themselves() {
        let narrow = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
        let columns = schema(&[("x", narrow)]);
        assert_eq!(departure(&columns, &file("a", &columns)), None);
    }

    #[test]
    fn metadata_is_kept_where_files_agree() {
        let with = |pairs: &[(&str, &str)]| {
            let pairs = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
            Arc::new(Schema::new_with_metadata(
                vec![Field::new("x", DataType::Int8, true)],
                pairs.collect(),
            ))
        };
        let (a, b, c) = (
            with(&[("k", "1"), ("only", "here"), ("other", "1")]),
            with(&[("k", "1"), ("new", "1")]),
            with(&[("other", "2")]),
        );
        let unified = unify(&[file("a", &a), file("b", &b), file("c", &c)]).unwrap();
        assert_eq!(unified.metadata(), with(&[("k", "1"), ("only", "here")]).metadata());
    }
}
