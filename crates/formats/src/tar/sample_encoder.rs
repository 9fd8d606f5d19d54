//! Writes rows as WebDataset samples.
//!
//! Each value becomes a member `key.column` with the value as its payload, in the order of the
//! column names. Binaries and texts stay as they are, integers become decimal digits, and other
//! values JSON if the name of the column ends in `json`. The invariant: a reader finds the same
//! samples with the same keys, and can read each member according to its extension; other values
//! are rejected.

use super::samples::{Content, is_meta};
use super::{MemberStamp, StampedHeaders, padding};
use crate::json::{Dialect, Unwritable as NoJson, ValueEncoder};
use crate::table::type_name;
use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, FixedSizeBinaryArray, LargeBinaryArray,
    RecordBatch,
};
use arrow_cast::cast;
use arrow_schema::DataType;

/// The column that names samples.
const KEY: &str = "__key__";
const REPEATED: &str = "is that of the preceding row: readers would merge the two samples";
const SKIPPED: &str = "is one that readers skip";

#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum Unwritable {
    #[error("Column `{column}` cannot be the extension of a member: {reason}")]
    Extension { column: String, reason: &'static str },
    #[error("Column `{column}` is {data_type}, but a member of a tar holds bytes")]
    Type { column: String, data_type: String },
    #[error("Row {row} has the key {key:?}, which {reason}")]
    Key { row: u64, key: String, reason: &'static str },
    /// A reader would reject the member, or misinterpret it.
    #[error(
        "Row {row} has the value {value:?} in column `{column}`, but readers expect {wanted} there"
    )]
    Value { row: u64, column: String, value: String, wanted: &'static str },
    #[error("Row {row} has no values, but a sample needs at least one member")]
    Empty { row: u64 },
    #[error(transparent)]
    Json(#[from] NoJson),
}

impl Unwritable {
    /// What the user can do about the error.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Extension { .. } => {
                Some("rename the column to an extension such as txt, jpg or json")
            }
            Self::Type { .. } => Some(
                "name the column \"….json\" to write its values as JSON, or convert them to bytes",
            ),
            Self::Key { .. } => Some(
                "keys are unique names without dots; without a column __key__ they are numbers",
            ),
            Self::Value { .. } => Some(
                "the name of the column says what it holds (txt: text, json: JSON, cls and id: \
                 a number); rename it, for example to \"bin\" for bytes",
            ),
            Self::Empty { .. } => Some("leave such rows out"),
            Self::Json(error) => error.hint(),
        }
    }
}

/// Why a reader of samples would not deliver a column of this name unchanged.
#[must_use]
pub fn extension_problem(column: &str) -> Option<&'static str> {
    if column.is_empty() || column.starts_with('.') || column.ends_with('.') {
        Some("it is empty, or begins or ends with a dot")
    } else if column.starts_with('_') {
        Some("names that begin with an underscore are left out by readers")
    } else if column.contains(['/', '\0']) {
        Some("it has a slash")
    } else if column.chars().any(char::is_uppercase) {
        Some("readers make it lower case")
    } else {
        None
    }
}

/// Converts rows to members.
#[derive(Debug, Clone)]
pub struct SampleEncoder {
    headers: StampedHeaders,
    first_key: u64,
}

impl SampleEncoder {
    /// Samples without a column `__key__` are numbered from `first_key` on.
    #[must_use]
    pub fn new(stamp: &MemberStamp, first_key: u64) -> Self {
        Self { headers: StampedHeaders::new(stamp), first_key }
    }

    /// Appends the members of the rows to `archive`, and the end of each row to `ends`. Without a
    /// column `__key__`, keys are numbers from `first_key` plus `first_row`. Returns the keys of
    /// the first and the last row.
    ///
    /// # Errors
    /// For columns and values that a sample cannot contain.
    pub fn encode(
        &self,
        rows: &RecordBatch,
        first_row: u64,
        archive: &mut Vec<u8>,
        ends: &mut Vec<usize>,
    ) -> Result<Option<(String, String)>, Unwritable> {
        let schema = rows.schema();
        let mut keys = None;
        let mut members = Vec::with_capacity(rows.num_columns());
        for (field, column) in schema.fields().iter().zip(rows.columns()) {
            let name = field.name();
            match name.as_str() {
                KEY => keys = Some(Bytes::new(name, column)?),
                "__url__" | "__local_path__" => {}
                _ => {
                    if let Some(reason) = extension_problem(name) {
                        return Err(Unwritable::Extension { column: name.clone(), reason });
                    }
                    members.push((name.as_str(), Content::of(name), Payload::new(name, column)?));
                }
            }
        }
        members.sort_unstable_by_key(|(name, ..)| *name);
        let mut scratch = Vec::new();
        let mut member_name = String::new();
        let mut last: Option<String> = None;
        let mut first: Option<String> = None;
        for row in 0..rows.num_rows() {
            let number = first_row + row as u64;
            let key = match &keys {
                Some(keys) => checked_key(keys.get(row), number, last.as_deref())?.to_owned(),
                None => format!("{:09}", self.first_key.saturating_add(number)),
            };
            let start = archive.len();
            for (name, content, payload) in &members {
                let Some(body) = payload.get(row, first_row, &mut scratch)? else { continue };
                if let Some(wanted) = content.missed_by(body) {
                    let value =
                        String::from_utf8_lossy(body.get(..body.len().min(40)).unwrap_or_default())
                            .into_owned();
                    return Err(Unwritable::Value {
                        row: number,
                        column: (*name).to_owned(),
                        value,
                        wanted,
                    });
                }
                member_name.clear();
                for part in [&key, ".", name] {
                    member_name.push_str(part);
                }
                if is_meta(&member_name) {
                    return Err(Unwritable::Key { row: number, key, reason: SKIPPED });
                }
                let size = body.len() as u64;
                self.headers.append(&member_name, size, archive);
                archive.extend_from_slice(body);
                archive.resize(archive.len() + padding(size), 0);
            }
            if archive.len() == start {
                return Err(Unwritable::Empty { row: number });
            }
            ends.push(archive.len());
            first.get_or_insert_with(|| key.clone());
            last = Some(key);
        }
        Ok(first.zip(last))
    }

    /// The fault of `row` when its key equals that of the preceding row, which two separate
    /// encoders cannot see.
    #[must_use]
    pub fn repeated_key(row: u64, key: String) -> Unwritable {
        Unwritable::Key { row, key, reason: REPEATED }
    }
}

fn checked_key<'a>(
    key: Option<&'a [u8]>,
    row: u64,
    last: Option<&str>,
) -> Result<&'a str, Unwritable> {
    let shown = || key.map(|key| String::from_utf8_lossy(key).into_owned()).unwrap_or_default();
    let refused = |reason| Unwritable::Key { row, key: shown(), reason };
    let Some(text) = key.and_then(|key| std::str::from_utf8(key).ok()) else {
        return Err(refused("is null or not UTF-8"));
    };
    let base = text.rsplit('/').next().unwrap_or_default();
    if base.is_empty() {
        Err(refused("has no name after its last slash"))
    } else if base.contains('.') {
        Err(refused("has a dot, where readers begin the extension"))
    } else if text.contains('\0') || text.starts_with('/') || text.contains('\n') {
        Err(refused("is not a valid file name"))
    } else if text.split('/').any(|part| part == "..") {
        Err(refused("leads out of the directory that a tar is extracted to"))
    } else if last == Some(text) {
        Err(refused(REPEATED))
    } else {
        Ok(text)
    }
}

/// The values of one column as payloads.
enum Payload {
    Bytes(Bytes),
    Json(Box<ValueEncoder>),
}

impl Payload {
    fn new(name: &str, column: &ArrayRef) -> Result<Self, Unwritable> {
        let is_json = Content::of(name) == Content::Json;
        match column.data_type() {
            DataType::Dictionary(_, value) => {
                let values = cast(column, value).map_err(|_unknown| refused_type(name, column))?;
                Self::new(name, &values)
            }
            data_type if is_json && !is_bytes(data_type) => {
                Ok(Self::Json(Box::new(ValueEncoder::new(name, column, Dialect::Plain)?)))
            }
            data_type if data_type.is_integer() => Ok(Self::Bytes(Bytes::new(
                name,
                &cast(column, &DataType::Utf8).map_err(|_unknown| refused_type(name, column))?,
            )?)),
            _ => Bytes::new(name, column).map(Self::Bytes),
        }
    }

    fn get<'a>(
        &'a self,
        row: usize,
        first_row: u64,
        scratch: &'a mut Vec<u8>,
    ) -> Result<Option<&'a [u8]>, Unwritable> {
        match self {
            Self::Bytes(bytes) => Ok(bytes.get(row)),
            Self::Json(values) if values.is_null(row) => Ok(None),
            Self::Json(values) => {
                scratch.clear();
                values.write(row, first_row, scratch)?;
                Ok(Some(scratch.as_slice()))
            }
        }
    }
}

fn is_bytes(data_type: &DataType) -> bool {
    use DataType::{Binary, BinaryView, FixedSizeBinary, LargeBinary, LargeUtf8, Utf8, Utf8View};
    matches!(
        data_type,
        Binary | BinaryView | FixedSizeBinary(_) | LargeBinary | LargeUtf8 | Utf8 | Utf8View
    )
}

fn refused_type(name: &str, column: &ArrayRef) -> Unwritable {
    Unwritable::Type { column: name.to_owned(), data_type: type_name(column.data_type()) }
}

/// Binaries and texts of any layout.
enum Bytes {
    Small(BinaryArray),
    Large(LargeBinaryArray),
    View(BinaryViewArray),
    Fixed(FixedSizeBinaryArray),
    /// For a column without values.
    Nothing,
}

impl Bytes {
    fn new(name: &str, column: &ArrayRef) -> Result<Self, Unwritable> {
        let as_type = |data_type: DataType| {
            cast(column, &data_type).map_err(|_unknown| refused_type(name, column))
        };
        Ok(match column.data_type() {
            DataType::Binary => Self::Small(column.as_binary::<i32>().clone()),
            DataType::Utf8 => Self::Small(as_type(DataType::Binary)?.as_binary::<i32>().clone()),
            DataType::LargeBinary => Self::Large(column.as_binary::<i64>().clone()),
            DataType::LargeUtf8 => {
                Self::Large(as_type(DataType::LargeBinary)?.as_binary::<i64>().clone())
            }
            DataType::BinaryView => Self::View(column.as_binary_view().clone()),
            DataType::Utf8View => {
                Self::View(as_type(DataType::BinaryView)?.as_binary_view().clone())
            }
            DataType::FixedSizeBinary(_) => Self::Fixed(column.as_fixed_size_binary().clone()),
            DataType::Null => Self::Nothing,
            _ => return Err(refused_type(name, column)),
        })
    }

    fn get(&self, row: usize) -> Option<&[u8]> {
        match self {
            Self::Small(values) => {
                (row < values.len() && values.is_valid(row)).then(|| values.value(row))
            }
            Self::Large(values) => {
                (row < values.len() && values.is_valid(row)).then(|| values.value(row))
            }
            Self::View(values) => {
                (row < values.len() && values.is_valid(row)).then(|| values.value(row))
            }
            Self::Fixed(values) => {
                (row < values.len() && values.is_valid(row)).then(|| values.value(row))
            }
            Self::Nothing => None,
        }
    }
}
