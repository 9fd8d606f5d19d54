//! Columns that are computed from other columns of a row, such as the tokens of a text.
//!
//! The invariant: they follow all other columns in the schema of the data set, so code that uses
//! the number of another column does not depend on them.

use super::origin::{Affixes, Derivation, Derive, ImageOrigin, Limited, Origin};
use super::{BlockOf, Dataset, OpenFile};
use crate::images::ImageLimits;
use crate::tokenize::{BlockKey, TokenCounts, add_totals, totals_of};
use crate::{Error, Result};
use arrow_array::RecordBatch;
use arrow_buffer::BooleanBuffer;
use arrow_schema::{DataType, FieldRef, Schema};
use shardmill_engine::Cancel;
use std::sync::Arc;

/// Bytes to read of an image for its size. The headers of most images are shorter.
const HEAD_BYTES: u64 = 16 << 10;

impl Dataset {
    /// The data set with the columns that `derive` computes from the columns `sources`.
    ///
    /// # Errors
    /// When a column of that name exists, or a source has a type that `derive` does not accept.
    pub fn with_derived(&self, derive: &Arc<dyn Derive>, sources: &[usize]) -> Result<Self> {
        let new = derive.outputs();
        if let Some(field) = new.iter().find(|field| self.schema.index_of(field.name()).is_ok()) {
            return Err(Error::DerivedColumn { column: field.name().clone(), is_image: false });
        }
        let mut fields =
            sources.iter().filter_map(|source| self.schema.fields().get(*source)).enumerate();
        if let Some((_, field)) =
            fields.find(|(source, field)| !derive.accepts(*source, field.data_type()))
        {
            return Err(Error::DerivedFrom {
                column: field.name().clone(),
                data_type: field.data_type().clone(),
            });
        }
        let schema = self.schema.fields().iter().chain(new).cloned().collect::<Vec<_>>();
        let views = self.view_schema(sources);
        let files = self.files.iter().map(|file| {
            let of_file = sources.iter().zip(views.fields()).map(|(source, field)| {
                let origin = file.columns.get(*source).cloned().unwrap_or(Origin::Absent);
                let named = file.made_of(*source);
                let named = named.map(|name| Arc::new(field.as_ref().clone().with_name(name)));
                (origin, named.unwrap_or_else(|| Arc::clone(field)))
            });
            let derivation =
                Arc::new(Derivation { derive: Arc::clone(derive), sources: of_file.collect() });
            let derived = (0..new.len())
                .map(|output| Origin::Derived { by: Arc::clone(&derivation), output });
            OpenFile {
                columns: file.columns.iter().cloned().chain(derived).collect(),
                ..file.clone()
            }
        });
        let schema = Arc::new(Schema::new_with_metadata(schema, self.schema.metadata().clone()));
        Ok(Self { files: files.collect(), schema, ..self.clone() })
    }
}

impl Dataset {
    /// As [`Dataset::read`], but reads only the first bytes of images. `None` if this does not read
    /// less, or if these bytes do not contain the size of an image.
    pub(crate) fn read_heads(
        &self,
        place: BlockOf,
        columns: &[usize],
        selection: Option<&BooleanBuffer>,
    ) -> Option<RecordBatch> {
        let schema = self.view_schema(columns);
        self.of_heads(place, |file| file.read(place.block, columns, selection, schema))
    }

    /// What `read` returns for a file of which it reads only the first bytes of images.
    pub(crate) fn of_heads<T>(
        &self,
        place: BlockOf,
        read: impl FnOnce(&OpenFile) -> Result<T>,
    ) -> Option<T> {
        // If the sizes are stated, no image is read.
        self.planned_images().filter(|(_, images)| images.size_lists().is_empty())?;
        let file = self.files.get(place.file)?;
        let heads = OpenFile { table: file.table.heads(HEAD_BYTES)?, ..file.clone() };
        let (read, totals) = totals_of(|| read(&heads));
        let found = read.ok().filter(|_| totals.images_left_out == 0)?;
        add_totals(totals);
        Some(found)
    }

    /// The same documents without the images that exceed these limits.
    #[must_use]
    pub fn with_image_limits(&self, limits: ImageLimits) -> Self {
        // Files share a computation, and with it what is kept of it.
        let mut known: Vec<(Arc<dyn Derive>, Option<Limited>)> = Vec::new();
        let mut limited = |derive: &Arc<dyn Derive>| {
            let found = known.iter().find(|(other, _)| Arc::ptr_eq(other, derive));
            found.map(|(_, limited)| limited.clone()).unwrap_or_else(|| {
                let limited = derive.with_image_limits(limits);
                known.push((Arc::clone(derive), limited.clone()));
                limited
            })
        };
        let files = self.files.iter().map(|file| {
            let derived = file.columns.iter().find_map(|origin| match origin {
                Origin::Derived { by, .. } => Some((by, limited(&by.derive)?)),
                _ => None,
            });
            let Some((own, (derive, images))) = derived else { return file.clone() };
            let new = Arc::new(Derivation { derive, sources: own.sources.clone() });
            let columns = file.columns.iter().map(|origin| match origin {
                Origin::Derived { by, output } if Arc::ptr_eq(by, own) => {
                    Origin::Derived { by: Arc::clone(&new), output: *output }
                }
                Origin::Image(origin) if origin.images.options().planned.is_some() => {
                    Origin::Image(ImageOrigin { images: Arc::clone(&images), ..origin.clone() })
                }
                other => other.clone(),
            });
            OpenFile { columns: columns.collect(), ..file.clone() }
        });
        Self { files: files.collect(), ..self.clone() }
    }

    /// The directory of the counts of a derived column, for the rows of a file.
    pub(crate) fn counts_directory(&self, file: usize, column: usize) -> Option<String> {
        let counts = self.files.get(file)?.counts(column, &Cancel::default()).ok().flatten()?;
        Some(counts.directory().to_owned())
    }
}

impl OpenFile {
    /// Names, for errors, of the columns of the file that a column is made of; `None` if that is
    /// the column of the same name.
    pub(super) fn made_of(&self, column: usize) -> Option<String> {
        match self.columns.get(column)? {
            Origin::File(own) => self.table.made_of(*own),
            Origin::Image(image) => match &image.encoded.bytes {
                Origin::File(own) => self.table.made_of(*own),
                _ => None,
            },
            _ => None,
        }
    }

    /// Where the lengths of a derived column are kept.
    ///
    /// # Errors
    /// As [`Derive::counts`].
    pub(crate) fn counts(
        &self,
        column: usize,
        cancel: &Cancel,
    ) -> Result<Option<Arc<TokenCounts>>> {
        match self.columns.get(column) {
            Some(Origin::Derived { by, .. }) => by.derive.counts(cancel),
            _ => Ok(None),
        }
    }

    /// How many numbers of a row are kept.
    pub(crate) fn counts_of_row(&self, column: usize) -> usize {
        match self.columns.get(column) {
            Some(Origin::Derived { by, .. }) => by.derive.counts_of_row(),
            _ => 1,
        }
    }

    /// What is around the placeholders of images in a derived column.
    pub(crate) fn affixes(&self, column: usize) -> Affixes {
        match self.columns.get(column) {
            Some(Origin::Derived { by, .. }) => by.derive.affixes(),
            _ => Affixes::default(),
        }
    }

    /// The key under which the counts of a block are kept. It depends on the contents of the file,
    /// and on how the sources of the column are read.
    pub(crate) fn block_key(&self, column: usize, block: usize) -> BlockKey {
        let read_as = match self.columns.get(column) {
            Some(Origin::Derived { by, .. }) => read_as(&by.sources),
            _ => String::new(),
        };
        BlockKey::of(&*self.table, self.size, block, &read_as, self.counts_of_row(column))
    }
}

/// The types that sources are read with, except for texts, and the values of those that are not in
/// the file.
fn read_as(sources: &[(Origin, FieldRef)]) -> String {
    let described = sources.iter().enumerate().map(|(number, (origin, field))| {
        let data_type =
            Some(type_name(field.data_type())).filter(|name| name != TEXT && name != BYTES);
        let value =
            if let Origin::Constant(value) = origin { Some(format!("{value:?}")) } else { None };
        if data_type.is_none() && value.is_none() {
            return String::new();
        }
        format!("{number}: {} {}\n", data_type.unwrap_or_default(), value.unwrap_or_default())
    });
    described.collect()
}

const TEXT: &str = "text";
const BYTES: &str = "bytes";

/// A type by its values: how wide offsets are, and which values share their bytes, makes no
/// difference. Metadata is not part of it.
fn type_name(data_type: &DataType) -> String {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => TEXT.to_owned(),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => BYTES.to_owned(),
        DataType::Dictionary(_, value) => type_name(value),
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            format!("[{}]", type_name(item.data_type()))
        }
        DataType::Map(entries, _) => format!("map {}", type_name(entries.data_type())),
        DataType::Struct(fields) => {
            let fields: Vec<String> = fields
                .iter()
                .map(|field| format!("{:?}: {}", field.name(), type_name(field.data_type())))
                .collect();
            format!("{{{}}}", fields.join(", "))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::StringArray;
    use arrow_schema::Field;
    use std::collections::HashMap;

    fn source(origin: Origin, data_type: DataType) -> (Origin, FieldRef) {
        (origin, Arc::new(Field::new("x", data_type, true)))
    }

    fn messages(number: DataType, text: DataType) -> DataType {
        let field = |name, data_type| Arc::new(Field::new(name, data_type, true));
        let marked = Field::new("content", text, false)
            .with_metadata(HashMap::from([("PARQUET:field_id".to_owned(), "7".to_owned())]));
        DataType::List(field(
            "item",
            DataType::Struct(vec![Arc::new(marked), field("number", number)].into()),
        ))
    }

    #[test]
    fn texts_of_a_file_add_nothing_to_the_key_of_its_counts() {
        let dictionary = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
        let types = [DataType::Utf8View, DataType::BinaryView, dictionary];
        assert_eq!(read_as(&types.map(|data_type| source(Origin::File(0), data_type))), "");
        assert_eq!(read_as(&[source(Origin::Absent, DataType::Utf8View)]), "");
    }

    #[test]
    fn sources_that_are_read_with_other_types_or_values_are_told_apart() {
        let of_type = |data_type| read_as(&[source(Origin::File(0), data_type)]);
        let whole = of_type(messages(DataType::Int64, DataType::Utf8));
        assert_eq!(whole, "0: [{\"content\": text, \"number\": Int64}] \n");
        assert_eq!(whole, of_type(messages(DataType::Int64, DataType::LargeUtf8)));
        assert_ne!(whole, of_type(messages(DataType::Float64, DataType::Utf8)));
        let of_value = |value: &str| {
            read_as(&[source(
                Origin::Constant(Arc::new(StringArray::from(vec![value]))),
                DataType::Utf8View,
            )])
        };
        assert_eq!(of_value("a"), of_value("a"));
        assert_ne!(of_value("a"), of_value("b"));
    }
}
