//! The supported types of ids, and when two columns have the same one.

use crate::{Error, Result};
use arrow_schema::{DataType, IntervalUnit, Schema, TimeUnit};
use serde::{Deserialize, Serialize};
use shardmill_plan::unit_name;
use std::fmt;

/// The logical type of an id: columns have the same one if their values can be the same ids.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "type")]
pub enum IdType {
    /// Of any width.
    SignedInteger,
    /// Of any width.
    UnsignedInteger,
    Bool,
    Date {
        unit: String,
    },
    Time {
        unit: String,
    },
    Timestamp {
        unit: String,
        zone: Option<String>,
    },
    Duration {
        unit: String,
    },
    /// string, large_string, string_view, and dictionaries of them.
    String,
    Binary,
    FixedBinary {
        len: usize,
    },
    Decimal {
        scale: i8,
    },
}

impl IdType {
    /// `None` for types that are not usable as ids: floats, lists, maps, structs.
    #[must_use]
    pub fn of(data_type: &DataType) -> Option<Self> {
        Some(match data_type {
            DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 => {
                Self::SignedInteger
            }
            DataType::UInt8 | DataType::UInt16 | DataType::UInt32 | DataType::UInt64 => {
                Self::UnsignedInteger
            }
            DataType::Boolean => Self::Bool,
            DataType::Date32 | DataType::Date64 => Self::Date { unit: "day".to_owned() },
            DataType::Time32(unit) | DataType::Time64(unit) => {
                Self::Time { unit: unit_name(stored(*unit)).to_owned() }
            }
            DataType::Timestamp(unit, zone) => Self::Timestamp {
                unit: unit_name(stored(*unit)).to_owned(),
                zone: zone.as_ref().map(ToString::to_string),
            },
            DataType::Duration(unit) => Self::Duration { unit: unit_name(*unit).to_owned() },
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Self::String,
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView => Self::Binary,
            DataType::FixedSizeBinary(len) => {
                Self::FixedBinary { len: usize::try_from(*len).ok()? }
            }
            DataType::Decimal32(_, scale)
            | DataType::Decimal64(_, scale)
            | DataType::Decimal128(_, scale) => Self::Decimal { scale: *scale },
            DataType::Dictionary(_, values) => Self::of(values)?,
            DataType::Interval(
                IntervalUnit::YearMonth | IntervalUnit::DayTime | IntervalUnit::MonthDayNano,
            ) => return None,
            _ => return None,
        })
    }

    /// Whether ids have the order of their 64-bit keys.
    #[must_use]
    pub fn is_narrow(&self) -> bool {
        !matches!(
            self,
            Self::String | Self::Binary | Self::FixedBinary { .. } | Self::Decimal { .. }
        )
    }
}

/// The unit in a file of Parquet, which has no seconds.
fn stored(unit: TimeUnit) -> TimeUnit {
    if unit == TimeUnit::Second { TimeUnit::Millisecond } else { unit }
}

impl fmt::Display for IdType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SignedInteger => formatter.write_str("signed integer"),
            Self::UnsignedInteger => formatter.write_str("unsigned integer"),
            Self::Bool => formatter.write_str("bool"),
            Self::Date { unit } => write!(formatter, "date[{unit}]"),
            Self::Time { unit } => write!(formatter, "time[{unit}]"),
            Self::Timestamp { unit, zone: None } => write!(formatter, "timestamp[{unit}]"),
            Self::Timestamp { unit, zone: Some(zone) } => {
                write!(formatter, "timestamp[{unit}, tz={zone}]")
            }
            Self::Duration { unit } => write!(formatter, "duration[{unit}]"),
            Self::String => formatter.write_str("string"),
            Self::Binary => formatter.write_str("binary"),
            Self::FixedBinary { len } => write!(formatter, "fixed_size_binary[{len}]"),
            Self::Decimal { scale } => write!(formatter, "decimal(scale {scale})"),
        }
    }
}

/// One column of an id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdColumn {
    pub name: String,
    pub id_type: IdType,
}

/// The columns of an id, in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdSchema {
    columns: Vec<IdColumn>,
}

impl IdSchema {
    /// From the columns `names` in `schema`.
    ///
    /// # Errors
    /// [`Error::NoColumn`], [`Error::MissingColumn`], [`Error::UnsupportedType`].
    pub fn of(schema: &Schema, names: &[String]) -> Result<Self> {
        let columns = names.iter().map(|column| {
            let field =
                schema.field_with_name(column).map_err(|_missing| Error::MissingColumn {
                    column: column.clone(),
                    available: schema
                        .fields()
                        .iter()
                        .map(|field| format!("`{}`", field.name()))
                        .collect::<Vec<_>>()
                        .join(", "),
                })?;
            let id_type = IdType::of(field.data_type()).ok_or_else(|| Error::UnsupportedType {
                column: column.clone(),
                data_type: field.data_type().clone(),
            })?;
            Ok(IdColumn { name: column.clone(), id_type })
        });
        Self::new(columns.collect::<Result<_>>()?)
    }

    /// # Errors
    /// [`Error::NoColumn`].
    pub fn new(columns: Vec<IdColumn>) -> Result<Self> {
        if columns.is_empty() { Err(Error::NoColumn) } else { Ok(Self { columns }) }
    }

    #[must_use]
    pub fn columns(&self) -> &[IdColumn] {
        &self.columns
    }

    /// The column, if there is only one.
    #[must_use]
    pub fn single(&self) -> Option<&IdColumn> {
        match self.columns.as_slice() {
            [only] => Some(only),
            _ => None,
        }
    }

    /// # Errors
    /// [`Error::ColumnCount`], [`Error::UnsupportedType`];
    /// [`Error::TypeMismatch`] naming both types.
    pub fn check<'a>(&self, types: impl ExactSizeIterator<Item = &'a DataType>) -> Result<()> {
        if types.len() != self.columns.len() {
            return Err(Error::ColumnCount { expected: self.columns.len(), found: types.len() });
        }
        for (column, data_type) in self.columns.iter().zip(types) {
            match IdType::of(data_type) {
                Some(found) if found == column.id_type => {}
                Some(found) => {
                    return Err(Error::TypeMismatch {
                        column: column.name.clone(),
                        expected: Box::new(column.id_type.clone()),
                        found: Box::new(found),
                    });
                }
                None => {
                    return Err(Error::UnsupportedType {
                        column: column.name.clone(),
                        data_type: data_type.clone(),
                    });
                }
            }
        }
        Ok(())
    }
}

impl fmt::Display for IdSchema {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns: Vec<String> =
            self.columns.iter().map(|column| column.id_type.to_string()).collect();
        formatter.write_str(&columns.join(", "))
    }
}
