//! Dates, times of day and timestamps in ISO 8601.

use super::parse::{Parse, trim};
use arrow_array::ArrowPrimitiveType;
use arrow_array::types::Date32Type;
use arrow_schema::TimeUnit;
use std::marker::PhantomData;

const SECONDS_A_DAY: i64 = 86_400;

/// `YYYY-MM-DD`
pub(crate) struct Date;

/// `hh:mm`, `hh:mm:ss` or, if the unit is fine enough, `hh:mm:ss.fff`
pub(crate) struct TimeOfDay<T> {
    unit: TimeUnit,
    arrow: PhantomData<T>,
}

/// A date, optionally followed by `T` or a blank and a time of day. In a column with a zone each
/// value needs an offset or `Z`; without a zone it must have none.
pub(crate) struct Timestamp<T> {
    unit: TimeUnit,
    is_zoned: bool,
    arrow: PhantomData<T>,
}

/// A point in time as written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// Since 1970, in UTC if there is an offset.
    seconds: i64,
    fraction: Fraction,
    pub(crate) is_zoned: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Fraction {
    nanoseconds: i64,
    digits: usize,
}

fn digits(text: &[u8]) -> Option<i64> {
    text.iter().try_fold(0i64, |value, byte| {
        byte.is_ascii_digit().then(|| value * 10 + i64::from(byte - b'0'))
    })
}

/// Days since 1970 of a day of the proleptic Gregorian calendar.
fn days(text: &[u8]) -> Option<i64> {
    let [y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2] = text else { return None };
    let (year, month, day) =
        (digits(&[*y1, *y2, *y3, *y4])?, digits(&[*m1, *m2])?, digits(&[*d1, *d2])?);
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let last = match month {
        4 | 6 | 9 | 11 => 30,
        2 if is_leap => 29,
        2 => 28,
        1..=12 => 31,
        _ => return None,
    };
    if !(1..=last).contains(&day) {
        return None;
    }
    // Counted in years that begin in March, so that the leap day is the last.
    let (march_year, march_month) =
        if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days =
        march_year.div_euclid(4) - march_year.div_euclid(100) + march_year.div_euclid(400);
    Some(march_year * 365 + leap_days + (march_month * 153 + 2) / 5 + day - 1 - 719_468)
}

fn fraction(text: &[u8]) -> Option<Fraction> {
    let [b'.', written @ ..] = text else { return text.is_empty().then(Fraction::default) };
    if written.is_empty() || written.len() > 9 {
        return None;
    }
    let scale = (written.len()..9).fold(1, |scale, _| scale * 10);
    Some(Fraction { nanoseconds: digits(written)? * scale, digits: written.len() })
}

/// Seconds of the day; hours alone are only valid after a date.
fn time_of_day(text: &[u8], takes_hours_alone: bool) -> Option<(i64, Fraction)> {
    let (hours, minutes, seconds, rest): (&[u8], &[u8], &[u8], &[u8]) = match text {
        [h1, h2] if takes_hours_alone => (&[*h1, *h2], b"0", b"0", &[]),
        [h1, h2, b':', m1, m2] => (&[*h1, *h2], &[*m1, *m2], b"0", &[]),
        [h1, h2, b':', m1, m2, b':', s1, s2, rest @ ..] => {
            (&[*h1, *h2], &[*m1, *m2], &[*s1, *s2], rest)
        }
        _ => return None,
    };
    let (hours, minutes, seconds) = (digits(hours)?, digits(minutes)?, digits(seconds)?);
    let is_valid = hours < 24 && minutes < 60 && seconds < 60;
    let fraction = fraction(rest)?;
    is_valid.then_some((hours * 3600 + minutes * 60 + seconds, fraction))
}

/// The text before an offset, and the offset in seconds.
fn split_offset(text: &[u8]) -> Option<(&[u8], Option<i64>)> {
    if let [time @ .., b'Z'] = text {
        return Some((time, Some(0)));
    }
    let Some(sign) = text.iter().position(|byte| matches!(byte, b'+' | b'-')) else {
        return Some((text, None));
    };
    let (time, offset) = text.split_at_checked(sign)?;
    let (hours, minutes): ([u8; 2], [u8; 2]) = match offset {
        [_, h1, h2] => ([*h1, *h2], *b"00"),
        [_, h1, h2, m1, m2] | [_, h1, h2, b':', m1, m2] => ([*h1, *h2], [*m1, *m2]),
        _ => return None,
    };
    let (hours, minutes) = (digits(&hours)?, digits(&minutes)?);
    let seconds = (hours * 60 + minutes) * 60;
    let is_valid = hours < 24 && minutes < 60;
    is_valid.then_some((time, Some(if offset.starts_with(b"-") { -seconds } else { seconds })))
}

impl Stamp {
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        let (date, rest) = text.split_at_checked(10)?;
        let midnight = days(date)? * SECONDS_A_DAY;
        let [b'T' | b' ', time @ ..] = rest else {
            return rest.is_empty().then_some(Self {
                seconds: midnight,
                fraction: Fraction::default(),
                is_zoned: false,
            });
        };
        let (time, offset) = split_offset(time)?;
        let (seconds, fraction) = time_of_day(time, true)?;
        Some(Self {
            seconds: midnight + seconds - offset.unwrap_or_default(),
            fraction,
            is_zoned: offset.is_some(),
        })
    }

    /// `None` if the unit is too coarse for the digits, or too fine for the year.
    pub(crate) fn in_unit(&self, unit: TimeUnit) -> Option<i64> {
        in_unit(self.seconds, self.fraction, unit)
    }
}

fn in_unit(seconds: i64, fraction: Fraction, unit: TimeUnit) -> Option<i64> {
    let (max_digits, a_second) = match unit {
        TimeUnit::Second => (0, 1),
        TimeUnit::Millisecond => (3, 1_000),
        TimeUnit::Microsecond => (6, 1_000_000),
        TimeUnit::Nanosecond => (9, 1_000_000_000),
    };
    if fraction.digits > max_digits {
        return None;
    }
    let value = i128::from(seconds) * i128::from(a_second)
        + i128::from(fraction.nanoseconds / (1_000_000_000 / a_second));
    value.try_into().ok()
}

impl Parse for Date {
    type Arrow = Date32Type;

    fn parse_plain(&self, text: &[u8]) -> Option<i32> {
        days(text)?.try_into().ok()
    }

    fn parse(&self, text: &[u8]) -> Option<i32> {
        self.parse_plain(trim(text))
    }
}

impl<T> TimeOfDay<T> {
    pub(crate) fn new(unit: TimeUnit) -> Self {
        Self { unit, arrow: PhantomData }
    }
}

impl<T: ArrowPrimitiveType<Native: TryFrom<i64>> + Send> Parse for TimeOfDay<T> {
    type Arrow = T;

    fn parse_plain(&self, text: &[u8]) -> Option<T::Native> {
        let (seconds, fraction) = time_of_day(text, false)?;
        in_unit(seconds, fraction, self.unit)?.try_into().ok()
    }

    fn parse(&self, text: &[u8]) -> Option<T::Native> {
        self.parse_plain(trim(text))
    }
}

impl<T> Timestamp<T> {
    pub(crate) fn new(unit: TimeUnit, is_zoned: bool) -> Self {
        Self { unit, is_zoned, arrow: PhantomData }
    }
}

impl<T: ArrowPrimitiveType<Native = i64> + Send> Parse for Timestamp<T> {
    type Arrow = T;

    fn parse_plain(&self, text: &[u8]) -> Option<i64> {
        let stamp = Stamp::parse(text)?;
        if stamp.is_zoned == self.is_zoned { stamp.in_unit(self.unit) } else { None }
    }

    fn parse(&self, text: &[u8]) -> Option<i64> {
        self.parse_plain(text)
    }
}
