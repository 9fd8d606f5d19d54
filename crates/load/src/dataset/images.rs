//! Columns of images, which are read as encoded bytes and become pixels
//! when their rows are delivered.
//!
//! An image column replaces its source, so everything that goes by the number of a column needs to
//! know nothing about it. Blocks, windows and gathered rows hold the encoded bytes, which are a
//! fraction of the pixels. The invariant: the pixels of a row depend only on its bytes, the
//! options, its number in its data set, and the seed, source, epoch and round of its draw.

use super::encoded::{encoded_fields, is_binary, is_string, sized_fields};
use super::origin::{EncodedOrigin, ImageOrigin, Origin};
use super::{Dataset, OpenFile};
use crate::images::{ImagePlace, Images};
use crate::{Error, Result};
use arrow_schema::{DataType, Field, FieldRef, Schema};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The columns of a data set that an image column comes from.
struct EncodedColumns {
    bytes: Option<usize>,
    path: Option<usize>,
}

impl Dataset {
    /// The data set with pixels in place of the encoded images of a column.
    ///
    /// # Errors
    /// When the column has another type, or a column exists that has the name
    /// of one of the further outputs.
    pub fn with_images(&self, images: &Arc<Images>) -> Result<Self> {
        let Some(column) = self.columns(&[images.column().to_owned()])?.first().copied() else {
            return Ok(self.clone());
        };
        let Some(field) = self.schema.fields().get(column) else { return Ok(self.clone()) };
        let encoded = self.encoded_columns(column, field, images)?;
        let sides = self.columns(images.size_lists())?;
        let is_list = list_item(field.data_type()).is_some() && !images.is_list();
        let images = if is_list { &Arc::new(images.of_lists()) } else { images };
        let outputs = images.outputs();
        let is_taken = |output: &&FieldRef| {
            output.name() != field.name() && self.schema.index_of(output.name()).is_ok()
        };
        if let Some(taken) = outputs.iter().find(is_taken) {
            return Err(Error::DerivedColumn { column: taken.name().clone(), is_image: true });
        }
        let mut fields = self.schema.fields().to_vec();
        if let (Some(slot), Some(first)) = (fields.get_mut(column), outputs.first()) {
            *slot = Arc::clone(first);
        }
        fields.extend(outputs.iter().skip(1).cloned());
        let mut first_row = 0;
        let files = self.files.iter().map(|file| {
            let origin = |column: Option<usize>| {
                column
                    .and_then(|column| file.columns.get(column))
                    .cloned()
                    .unwrap_or(Origin::Absent)
            };
            let own = Arc::new(EncodedOrigin {
                bytes: origin(encoded.bytes),
                path: origin(encoded.path),
                sides: sides.iter().map(|column| origin(Some(*column))).collect(),
            });
            let root = root_of(&file.path, &file.relative);
            let origin = Origin::Image(ImageOrigin {
                images: Arc::clone(images),
                encoded: own,
                first_row,
                root,
                source: 0,
            });
            first_row += file.table.blocks().iter().map(|block| block.rows).sum::<u64>();
            let mut columns = file.columns.clone();
            if let Some(slot) = columns.get_mut(column) {
                *slot = origin.clone();
            }
            columns.extend(outputs.iter().skip(1).map(|_| origin.clone()));
            OpenFile { columns, ..file.clone() }
        });
        let files = files.collect();
        let schema = Arc::new(Schema::new_with_metadata(fields, self.schema.metadata().clone()));
        let mut image_columns = self.image_columns.clone();
        image_columns.insert(column);
        image_columns.extend(self.schema.fields().len()..schema.fields().len());
        Ok(Self { files, schema, image_columns, ..self.clone() })
    }

    /// The column itself, or the fields of the structs that Hugging Face data sets have.
    fn encoded_columns(
        &self,
        column: usize,
        field: &Field,
        images: &Images,
    ) -> Result<EncodedColumns> {
        let inner = |name: &str, is_wanted: fn(&DataType) -> bool| match field.data_type() {
            DataType::Struct(fields)
                if fields
                    .iter()
                    .any(|field| field.name() == name && is_wanted(field.data_type())) =>
            {
                self.columns(&[format!("{}.{name}", field.name())])
                    .ok()
                    .and_then(|found| found.first().copied())
            }
            _ => None,
        };
        let data_type = field.data_type();
        if !holds_images(list_item(data_type).map_or(data_type, Field::data_type), images) {
            return Err(Error::ImageFrom {
                column: field.name().clone(),
                data_type: data_type.clone(),
            });
        }
        Ok(match data_type {
            // Lists are taken apart when they are read.
            _ if is_binary(data_type) || list_item(data_type).is_some() => {
                EncodedColumns { bytes: Some(column), path: None }
            }
            _ if is_string(data_type) => EncodedColumns { bytes: None, path: Some(column) },
            _ => {
                EncodedColumns { bytes: inner("bytes", is_binary), path: inner("path", is_string) }
            }
        })
    }

    /// The type in which a column of encoded images is read.
    pub(super) fn encoded_type(&self, column: usize) -> DataType {
        let images = self.images_of(column);
        let has_sizes = images.is_some_and(|images| !images.size_lists().is_empty());
        let image = DataType::Struct(if has_sizes { sized_fields() } else { encoded_fields() });
        let is_list = images.is_some_and(|images| images.is_list());
        if is_list { DataType::List(Arc::new(Field::new("item", image, true))) } else { image }
    }

    /// Whether [`Dataset::read`] returns encoded images for a column.
    pub(crate) fn has_images(&self, column: usize) -> bool {
        self.image_columns.contains(&column)
    }

    /// The column of the images of documents, if there is one.
    pub(crate) fn planned_images(&self) -> Option<(usize, &Arc<Images>)> {
        self.image_columns.iter().find_map(|column| {
            let images = self.images_of(*column)?;
            images.options().planned.is_some().then_some((*column, images))
        })
    }

    /// Name, for errors, of the column of a file that has the images of a column.
    pub(crate) fn encoded_name(&self, column: usize, file: usize) -> String {
        let made_of = self.files.get(file).and_then(|file| file.made_of(column));
        let own = || self.images_of(column).map(|images| images.column().to_owned());
        made_of.or_else(own).unwrap_or_default()
    }

    /// Size of the pixels of a row in these columns, estimated where sizes vary.
    pub(crate) fn pixel_bytes(&self, columns: &[usize]) -> u64 {
        let each = columns
            .iter()
            .filter(|column| self.has_images(**column))
            .filter_map(|column| self.images_of(*column));
        let mut names = BTreeSet::new();
        each.filter(|images| names.insert(images.column()))
            .map(|images| images.row_bytes())
            .fold(0, u64::saturating_add)
    }

    /// Names of the columns whose pixels are put into memory of the consumer.
    #[must_use]
    pub fn lent_columns(&self, columns: &[usize]) -> Vec<String> {
        let images = columns
            .iter()
            .filter(|column| self.has_images(**column))
            .filter_map(|column| Some((*column, self.images_of(*column)?)));
        let names =
            images.filter(|(_, images)| images.is_fixed()).filter_map(|(column, images)| {
                let name = self.schema().fields().get(column)?.name();
                (name == images.column()).then(|| name.clone())
            });
        names.collect()
    }

    /// The images of a column in a file, and where a row of this file is.
    pub(crate) fn image_place(
        &self,
        column: usize,
        file: usize,
        row: u64,
        round: u64,
    ) -> Option<(&Arc<Images>, ImagePlace<'_>)> {
        let file = self.files.get(file)?;
        let Some(Origin::Image(origin)) = file.columns.get(column) else { return None };
        Some((
            &origin.images,
            ImagePlace {
                root: &origin.root,
                source: origin.source,
                row: origin.first_row + row,
                round,
                item: 0,
            },
        ))
    }

    /// The images of a column in the first file that has them.
    pub(crate) fn images_of(&self, column: usize) -> Option<&Arc<Images>> {
        self.files.iter().find_map(|file| match file.columns.get(column) {
            Some(Origin::Image(origin)) => Some(&origin.images),
            _ => None,
        })
    }
}

/// The root of the data set of a file, whose path below it is `relative`.
fn root_of(file: &str, relative: &str) -> Arc<str> {
    let root = match file.strip_suffix(relative).unwrap_or_default() {
        "" => ".",
        root => Some(root.trim_end_matches('/')).filter(|root| !root.is_empty()).unwrap_or("/"),
    };
    root.into()
}

/// The items of lists.
fn list_item(data_type: &DataType) -> Option<&Field> {
    match data_type {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            Some(item)
        }
        _ => None,
    }
}

/// Whether values of a type are encoded images.
fn holds_images(data_type: &DataType, images: &Images) -> bool {
    let names_file = |data_type: &DataType| is_string(data_type) && images.reads_files();
    let is_field = |field: &Field| match field.name().as_str() {
        "bytes" => is_binary(field.data_type()),
        "path" => names_file(field.data_type()),
        _ => false,
    };
    match data_type {
        DataType::Struct(fields) => fields.iter().any(|field| is_field(field)),
        other => is_binary(other) || names_file(other),
    }
}
