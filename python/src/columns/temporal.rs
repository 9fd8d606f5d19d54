//! Converts dates and times to Python's `datetime`.
//!
//! Python supports the years 1 to 9999 and microseconds: a value that it cannot represent exactly
//! is an error, never rounded.

use crate::error::PyShardmillError;
use arrow_schema::TimeUnit;
use pyo3::prelude::*;
use pyo3::types::{PyDate, PyDateTime, PyDelta, PyTime, PyTzInfo};
use shardmill_errors::ErrorKind;
use shardmill_formats::table::type_name;

const DAY_US: i128 = 86_400_000_000;

/// A value that Python cannot represent. The row is counted within the batch.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ObjectError {
    #[error(
        "Column `{column}`: {count} in row {row} is outside of what Python's datetime can hold"
    )]
    Range { column: String, row: usize, count: i64 },
    #[error(
        "Column `{column}`: {count} ns in row {row} is not a whole number of microseconds, \
         the smallest unit of Python's datetime"
    )]
    Nanoseconds { column: String, row: usize, count: i64 },
    #[error("Column `{column}` has the time zone `{zone}`, which is unknown to Python")]
    Zone { column: String, zone: String },
    #[error(
        "Column `{column}` holds {}, which has no equivalent outside of Arrow",
        type_name(.data_type)
    )]
    Unsupported { column: String, data_type: arrow_schema::DataType },
    #[error("Failed to read column `{column}`")]
    Arrow { column: String, source: arrow_schema::ArrowError },
}

impl ObjectError {
    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Range { .. } | Self::Nanoseconds { .. } => {
                Some("output=\"arrow\", \"numpy\" and \"torch\" keep such values")
            }
            Self::Zone { .. } => Some("`pip install tzdata` adds the usual zones"),
            Self::Unsupported { .. } => Some("leave it out by `columns`, or use output=\"arrow\""),
            Self::Arrow { .. } => None,
        }
    }
}

impl From<ObjectError> for PyShardmillError {
    fn from(error: ObjectError) -> Self {
        Self::of(ErrorKind::Format, &error, error.hint())
    }
}

/// The position of a value, for messages.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) column: &'a str,
    pub(super) row: usize,
    pub(super) count: i64,
}

impl Place<'_> {
    fn range(self) -> PyShardmillError {
        ObjectError::Range { column: self.column.to_owned(), row: self.row, count: self.count }
            .into()
    }

    fn microseconds(self, unit: TimeUnit) -> PyResult<i128> {
        let count = i128::from(self.count);
        Ok(match unit {
            TimeUnit::Second => count * 1_000_000,
            TimeUnit::Millisecond => count * 1000,
            TimeUnit::Microsecond => count,
            TimeUnit::Nanosecond if count % 1000 == 0 => count / 1000,
            TimeUnit::Nanosecond => {
                let error = ObjectError::Nanoseconds {
                    column: self.column.to_owned(),
                    row: self.row,
                    count: self.count,
                };
                return Err(PyShardmillError::from(error).into());
            }
        })
    }

    /// From days since 1970.
    pub(super) fn date(self, py: Python<'_>, days: i64) -> PyResult<Bound<'_, PyAny>> {
        let (year, month, day) = civil(days).ok_or_else(|| self.range())?;
        Ok(PyDate::new(py, year, month, day)?.into_any())
    }

    pub(super) fn time(self, py: Python<'_>, unit: TimeUnit) -> PyResult<Bound<'_, PyAny>> {
        let (hour, minute, second, microsecond) =
            self.microseconds(unit).map(clock)?.ok_or_else(|| self.range())?;
        Ok(PyTime::new(py, hour, minute, second, microsecond, None)?.into_any())
    }

    pub(super) fn timestamp<'py>(
        self,
        py: Python<'py>,
        unit: TimeUnit,
        zone: Option<&Bound<'py, PyTzInfo>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let microseconds = self.microseconds(unit)?;
        let days = i64::try_from(microseconds.div_euclid(DAY_US)).ok().and_then(civil);
        let (year, month, day) = days.ok_or_else(|| self.range())?;
        let (hour, minute, second, microsecond) =
            clock(microseconds.rem_euclid(DAY_US)).ok_or_else(|| self.range())?;
        let utc = PyDateTime::new(py, year, month, day, hour, minute, second, microsecond, zone)?
            .into_any();
        match zone {
            // Near the years 1 and 9999 the local time may not exist.
            Some(zone) => zone.call_method1("fromutc", (utc,)).map_err(|_| self.range().into()),
            None => Ok(utc),
        }
    }

    pub(super) fn duration(self, py: Python<'_>, unit: TimeUnit) -> PyResult<Bound<'_, PyAny>> {
        let microseconds = self.microseconds(unit)?;
        let days = i32::try_from(microseconds.div_euclid(DAY_US))
            .ok()
            .filter(|days| days.unsigned_abs() <= 999_999_999);
        let rest = microseconds.rem_euclid(DAY_US);
        let (Some(days), Ok(seconds), Ok(micros)) =
            (days, i32::try_from(rest / 1_000_000), i32::try_from(rest % 1_000_000))
        else {
            return Err(self.range().into());
        };
        Ok(PyDelta::new(py, days, seconds, micros, false)?.into_any())
    }
}

/// `None` for names unknown to Python: an offset such as `+02:30`, or a name of the IANA data base.
pub(super) fn zone<'py>(
    py: Python<'py>,
    column: &str,
    name: &str,
) -> PyResult<Bound<'py, PyTzInfo>> {
    let zone = match offset_seconds(name) {
        Some(seconds) => PyTzInfo::fixed_offset(py, PyDelta::new(py, 0, seconds, 0, true)?),
        None => PyTzInfo::timezone(py, name),
    };
    zone.map_err(|_| {
        PyShardmillError::from(ObjectError::Zone {
            column: column.to_owned(),
            zone: name.to_owned(),
        })
        .into()
    })
}

fn offset_seconds(name: &str) -> Option<i32> {
    let sign = if name.starts_with('+') { 1 } else { -1 };
    let digits = name.strip_prefix(['+', '-'])?.replace(':', "");
    let (hours, minutes) = digits.split_at_checked(2)?;
    let minutes = if minutes.is_empty() { "0" } else { minutes };
    let (hours, minutes): (u8, u8) = (hours.parse().ok()?, minutes.parse().ok()?);
    Some(sign * (i32::from(hours) * 3600 + i32::from(minutes) * 60))
}

/// Year, month and day from a count of days since 1970, within Python's range of years. After
/// Howard Hinnant's `civil_from_days`.
fn civil(days: i64) -> Option<(i32, u8, u8)> {
    let days = days.checked_add(719_468)?;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = era.checked_mul(400)?.checked_add(year_of_era + i64::from(month <= 2))?;
    let year = i32::try_from(year).ok().filter(|year| (1..=9999).contains(year))?;
    Some((year, u8::try_from(month).ok()?, u8::try_from(day).ok()?))
}

/// Hour, minute, second and microsecond of a time of day.
fn clock(microseconds: i128) -> Option<(u8, u8, u8, u32)> {
    let microseconds =
        u64::try_from(microseconds).ok().filter(|count| i128::from(*count) < DAY_US)?;
    let seconds = microseconds / 1_000_000;
    let part = |count: u64| u8::try_from(count).ok();
    Some((
        part(seconds / 3600)?,
        part(seconds / 60 % 60)?,
        part(seconds % 60)?,
        u32::try_from(microseconds % 1_000_000).ok()?,
    ))
}
