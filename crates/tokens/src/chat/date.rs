//! `strftime_now`, for a date that the user gives.

use crate::error::{Error as TokensError, Result};

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] =
    ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
const DAYS_BEFORE: [u32; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];

/// A day of the Gregorian calendar, at midnight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Date {
    year: u32,
    month: u32,
    day: u32,
}

impl Date {
    /// Of "2026-01-31".
    pub(super) fn parse(text: &str) -> Result<Self> {
        let number = |range: std::ops::Range<usize>| {
            text.get(range)
                .filter(|part| part.bytes().all(|byte| byte.is_ascii_digit()))?
                .parse()
                .ok()
        };
        let parts = (number(0..4), number(5..7), number(8..10));
        match parts {
            (Some(year), Some(month @ 1..=12), Some(day))
                if text.len() == 10
                    && text.get(4..5) == Some("-")
                    && text.get(7..8) == Some("-") =>
            {
                let date = Self { year, month, day };
                if year > 0 && (1..=date.days_in_month()).contains(&day) {
                    Ok(date)
                } else {
                    Err(TokensError::Date { text: text.to_owned() })
                }
            }
            _ => Err(TokensError::Date { text: text.to_owned() }),
        }
    }

    fn is_leap(self) -> bool {
        self.year.is_multiple_of(4)
            && (!self.year.is_multiple_of(100) || self.year.is_multiple_of(400))
    }

    fn days_in_month(self) -> u32 {
        match self.month {
            4 | 6 | 9 | 11 => 30,
            2 => 28 + u32::from(self.is_leap()),
            _ => 31,
        }
    }

    fn day_of_year(self) -> u32 {
        let before = DAYS_BEFORE.get(self.month as usize - 1).copied().unwrap_or_default();
        before + self.day + u32::from(self.is_leap() && self.month > 2)
    }

    /// From Monday.
    fn weekday(self) -> usize {
        let years = self.year - 1;
        let days = years * 365 + years / 4 - years / 100 + years / 400 + self.day_of_year();
        (days as usize + 6) % 7
    }

    /// As `strftime` in the C locale; or why not.
    pub(super) fn format(self, format: &str) -> std::result::Result<String, String> {
        let mut out = String::new();
        let mut characters = format.chars();
        let month = MONTHS.get(self.month as usize - 1).copied().unwrap_or_default();
        let weekday = DAYS.get(self.weekday()).copied().unwrap_or_default();
        while let Some(character) = characters.next() {
            if character != '%' {
                out.push(character);
                continue;
            }
            let directive = characters.next();
            let part = match directive {
                Some('d') => format!("{:02}", self.day),
                Some('e') => format!("{:2}", self.day),
                Some('m') => format!("{:02}", self.month),
                Some('B') => month.to_owned(),
                Some('b' | 'h') => month.chars().take(3).collect(),
                Some('A') => weekday.to_owned(),
                Some('a') => weekday.chars().take(3).collect(),
                Some('Y') => self.year.to_string(),
                Some('y') => format!("{:02}", self.year % 100),
                Some('j') => format!("{:03}", self.day_of_year()),
                Some('H' | 'M' | 'S') => "00".to_owned(),
                Some('F') => format!("{}-{:02}-{:02}", self.year, self.month, self.day),
                Some('-') => match characters.next() {
                    Some('d') => self.day.to_string(),
                    Some('m') => self.month.to_string(),
                    _ => return Err(unknown(format)),
                },
                Some('%') => "%".to_owned(),
                _ => return Err(unknown(format)),
            };
            out.push_str(&part);
        }
        Ok(out)
    }
}

fn unknown(format: &str) -> String {
    format!("strftime_now has an unknown directive in {}", crate::quote::quoted(format))
}

#[cfg(test)]
mod tests {
    use super::Date;

    #[test]
    fn dates_are_formatted_as_by_strftime() {
        let date = Date::parse("2026-01-31").unwrap();
        assert_eq!(
            date.format("%A %a %d %B %b %Y %y %j %m %-m %%").unwrap(),
            "Saturday Sat 31 January Jan 2026 26 031 01 1 %"
        );
        assert_eq!(Date::parse("2024-02-29").unwrap().format("%a %j").unwrap(), "Thu 060");
        for wrong in
            ["2026-02-29", "2026-13-01", "26-01-01", "2026/01/01", "2026-01-32", "0000-01-01"]
        {
            assert!(Date::parse(wrong).is_err(), "{wrong}");
        }
    }
}
