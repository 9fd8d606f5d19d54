//! Columns of images, which are read as encoded bytes and become pixels
//! when their rows are delivered.
//!
//! An image column replaces its source, so everything that goes by the number of a column needs to
//! know nothing about it. Blocks, windows and gathered rows hold the encoded bytes, which are a
//! fraction of the pixels. The invariant: the pixels of a row depend only on its bytes, the
//! options, its number in its data set, and the seed, source, epoch and round of its draw.

use super::{Dataset, OpenFile, Origin};
use crate::images::{ImagePlace, Images};
use crate::{Error, Result};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, ListArray, StructArray, new_null_array};
use arrow_cast::cast;
use arrow_schema::{ArrowError, DataType, Field, Fields, Schema};
use arrow_select::nullif::nullif;
use shardmill_formats::table::type_name;
use shardmill_plan::schema::value_type;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A column that `images` makes of another one in one file.
#[derive(Debug, Clone)]
pub(super) struct ImageOrigin {
    pub(super) images: Arc<Images>,
    /// Where the encoded bytes are, and where the paths or URLs of images are that have none.
    pub(super) encoded: Arc<EncodedOrigin>,
    /// Rows of the data set in the files before this one.
    pub(super) first_row: u64,
    /// What the paths of images are relative to, unless the options name another directory.
    pub(super) root: Arc<str>,
    /// Of a mixture.
    pub(super) source: u64,
}

#[derive(Debug)]
pub(super) struct EncodedOrigin {
    pub(super) bytes: Origin,
    pub(super) path: Origin,
}

/// The columns of a data set that an image column comes from.
struct EncodedColumns {
    bytes: Option<usize>,
    path: Option<usize>,
}

/// The struct in which encoded images are read.
pub(super) fn encoded_fields() -> Fields {
    Fields::from(vec![
        Field::new("bytes", DataType::BinaryView, true),
        Field::new("path", DataType::Utf8View, true),
    ])
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
        let images = if list_item(field.data_type()).is_some() {
            &Arc::new(images.of_lists())
        } else {
            images
        };
        let outputs = images.outputs();
        if let Some(taken) =
            outputs.iter().skip(1).find(|field| self.schema.index_of(field.name()).is_ok())
        {
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
        let image = DataType::Struct(encoded_fields());
        let is_list = self.images_of(column).is_some_and(|images| images.is_list());
        if is_list { DataType::List(Arc::new(Field::new("item", image, true))) } else { image }
    }

    /// Whether [`Dataset::read`] returns encoded images for a column.
    pub(crate) fn has_images(&self, column: usize) -> bool {
        self.image_columns.contains(&column)
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

/// Lists of encoded images in the type in which they are read.
pub(super) fn encoded_lists(array: &ArrayRef) -> std::result::Result<ArrayRef, ArrowError> {
    let array = match array.data_type() {
        DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            &cast(array, &DataType::List(Arc::clone(item)))?
        }
        _ => array,
    };
    let Some(lists) = array.as_list_opt::<i32>() else {
        return Err(ArrowError::CastError(format!(
            "{} is not a list",
            type_name(array.data_type())
        )));
    };
    let (_, offsets, items, nulls) = lists.clone().into_parts();
    let images = Arc::new(encoded_items(&items)?);
    let item = Arc::new(Field::new("item", DataType::Struct(encoded_fields()), true));
    Ok(Arc::new(ListArray::try_new(item, offsets, images, nulls)?))
}

fn encoded_items(items: &ArrayRef) -> std::result::Result<StructArray, ArrowError> {
    let (bytes, path) = match items.as_struct_opt() {
        Some(fields) => {
            let is_null = items.nulls().map(|nulls| BooleanArray::new(!nulls.inner(), None));
            let field = |name: &str, is_wanted: fn(&DataType) -> bool| match fields
                .column_by_name(name)
                .filter(|field| is_wanted(field.data_type()))
            {
                Some(field) => is_null
                    .as_ref()
                    .map_or_else(|| Ok(Arc::clone(field)), |is_null| nullif(field, is_null))
                    .map(Some),
                None => Ok(None),
            };
            (field("bytes", is_binary)?, field("path", is_string)?)
        }
        None if is_string(items.data_type()) => (None, Some(Arc::clone(items))),
        None => (Some(Arc::clone(items)), None),
    };
    let part = |array: Option<ArrayRef>, data_type: DataType| match array {
        Some(array) => {
            cast(&array, value_type(array.data_type())).and_then(|values| cast(&values, &data_type))
        }
        None => Ok(new_null_array(&data_type, items.len())),
    };
    let parts = vec![part(bytes, DataType::BinaryView)?, part(path, DataType::Utf8View)?];
    StructArray::try_new_with_length(encoded_fields(), parts, None, items.len())
}

fn is_binary(data_type: &DataType) -> bool {
    matches!(value_type(data_type), DataType::Binary | DataType::LargeBinary | DataType::BinaryView)
}

fn is_string(data_type: &DataType) -> bool {
    matches!(value_type(data_type), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}
