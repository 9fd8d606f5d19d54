//! The columns `width` and `height`: sizes of images as displayed, from their headers.

use crate::Result;
use arrow_array::{ArrayRef, Int32Array, UInt32Array};
use arrow_schema::{DataType, Field, FieldRef, Schema};
use arrow_select::take::take;
use shardmill_documents::locate::note_read_error;
use shardmill_documents::materialize::Bodies;
use shardmill_documents::payload::{HeaderError, Payload, size_in_memory};
use shardmill_documents::schema::RESCUED;
use shardmill_documents::table::batch_of;
use shardmill_documents::{Chunk, Error as DocumentError, Ledger, Modality, Row};
use shardmill_images::ImageSize;
use std::sync::Arc;

const NAMES: [&str; 2] = ["width", "height"];

/// Adds the columns to a chunk, in place of those of the input with these names. Sizes are null on
/// other rows, and if the header is not readable.
pub(super) fn add_sizes(
    chunk: &mut Chunk,
    bodies: Option<&Bodies>,
    ledger: &mut Ledger,
) -> Result<()> {
    let mut sizes = Vec::with_capacity(chunk.rows.len());
    for (index, row) in chunk.rows.iter_mut().enumerate() {
        sizes.push(size(row, bodies.map(|bodies| bodies.get(index)))?);
    }
    let side = |side: fn(&ImageSize) -> u32| -> ArrayRef {
        let sides = sizes.iter().map(|size| i32::try_from(side(size.as_ref()?)).ok());
        Arc::new(sides.collect::<Int32Array>())
    };
    let own = NAMES.iter().map(|name| Arc::new(Field::new(*name, DataType::Int32, true)));
    let own: Vec<FieldRef> = own.collect();
    let is_own = |field: &FieldRef| NAMES.contains(&field.name().as_str());
    for field in chunk.extras.schema().fields().iter().filter(|field| is_own(field)) {
        ledger.drop_key(format!("column `{}` of the input, for image_sizes", field.name()));
    }
    let with_own = |fields: &[FieldRef]| -> Vec<FieldRef> {
        let (last, mut others): (Vec<FieldRef>, Vec<FieldRef>) = fields
            .iter()
            .filter(|field| !is_own(field))
            .cloned()
            .partition(|field| field.name() == RESCUED);
        others.extend(own.iter().cloned());
        others.extend(last);
        others
    };
    let rows: UInt32Array = chunk.rows.iter().map(|row| row.extra).collect();
    let fields = with_own(chunk.extras.schema().fields());
    let column = |field: &FieldRef| match field.name().as_str() {
        "width" => Ok(side(|size| size.width)),
        "height" => Ok(side(|size| size.height)),
        name => {
            let values = chunk.extras.column_by_name(name).ok_or_else(|| {
                arrow_schema::ArrowError::SchemaError(format!("no column {name}"))
            })?;
            take(values, &rows, None)
        }
    };
    let unfit = DocumentError::unfit("passthrough columns", "their schema");
    let columns =
        fields.iter().map(column).collect::<std::result::Result<_, _>>().map_err(&unfit)?;
    chunk.extras =
        batch_of(Arc::new(Schema::new(fields)), columns, chunk.rows.len()).map_err(unfit)?;
    let schema =
        Schema::new_with_metadata(with_own(chunk.schema.fields()), chunk.schema.metadata().clone());
    chunk.schema = Arc::new(schema);
    for (index, row) in chunk.rows.iter_mut().enumerate() {
        row.extra = u32::try_from(index).ok();
    }
    Ok(())
}

/// `bytes` are those that were read for the row.
fn size(row: &mut Row, bytes: Option<Option<&[u8]>>) -> Result<Option<ImageSize>> {
    if row.modality != Modality::Image || row.error.is_some() {
        return Ok(None);
    }
    let known = match &row.payload {
        Payload::Located(located) => located.size,
        _ => None,
    };
    let found = match (known, bytes) {
        (Some(size), _) => Ok(size),
        (None, Some(None)) => return Ok(None),
        (None, Some(Some(bytes))) => size_in_memory(bytes, || row.frame()),
        (None, None) => row.payload.image_size(|| row.frame()),
    };
    match found {
        Ok(size) => Ok(Some(size)),
        Err(HeaderError::Storage(error)) => {
            note_read_error(row, error)?;
            Ok(None)
        }
        Err(_) => Ok(None),
    }
}
