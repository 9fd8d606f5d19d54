//! How CSV and JSONL files are read.

use super::Format;
use crate::{Error, Result};
use arrow_schema::SchemaRef;
use serde::{Deserialize, Serialize};
use shardmill_formats::csv::CsvOptions;
use shardmill_formats::jsonl::JsonlOptions;
use shardmill_formats::limit::DecodeLimit;
use shardmill_formats::records::{BadLines, Declared, Encoding, Error as TextError};
use shardmill_formats::table::TableError;

#[derive(Debug, Clone, Default)]
pub struct TextOptions {
    /// Inferred from the start of every file if `None`.
    pub schema: Option<SchemaRef>,
    /// Whose types the user has given: of a schema, or while the others are inferred.
    pub declared: Declared,
    /// Whether the schema has a selection of the columns, so that others are skipped.
    pub is_selection: bool,
    pub bad_lines: BadLines,
    pub form: TextForm,
}

/// How the text is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TextForm {
    /// Of CSV, as is `quote`.
    pub delimiter: char,
    pub quote: Option<char>,
    /// Of CSV and JSONL.
    pub encoding: Encoding,
    /// Of JSONL, and of JSON in tars.
    pub nan: Nan,
}

/// What `NaN` and infinities are in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Nan {
    #[default]
    Float,
    /// An error.
    Raise,
}

impl Default for TextForm {
    fn default() -> Self {
        Self {
            delimiter: ',',
            quote: Some('"'),
            encoding: Encoding::default(),
            nan: Nan::default(),
        }
    }
}

impl TextForm {
    /// # Errors
    /// For an option that does not concern files of `format`.
    pub fn check(&self, format: Format) -> Result<()> {
        let (plain, is_csv) = (Self::default(), format == Format::Csv);
        let unused = [
            ("delimiter", is_csv || self.delimiter == plain.delimiter),
            ("quote", is_csv || self.quote == plain.quote),
            ("encoding", is_csv || format == Format::Jsonl || self.encoding == plain.encoding),
            ("nan", matches!(format, Format::Jsonl | Format::WebDataset) || self.nan == plain.nan),
        ];
        match unused.into_iter().find(|(_, is_fine)| !is_fine) {
            Some((option, _)) => Err(Error::TextOption { option, format: format.name() }),
            None => Ok(()),
        }
    }
}

impl TextOptions {
    pub(super) fn csv(&self, limit: DecodeLimit) -> Result<CsvOptions> {
        let byte = |option: &'static str, value: char| {
            u8::try_from(value).map_err(|_wide| {
                Error::from(TableError::from(TextError::InvalidOption { option, value }))
            })
        };
        Ok(CsvOptions {
            delimiter: byte("delimiter", self.form.delimiter)?,
            quote: self.form.quote.map(|quote| byte("quote", quote)).transpose()?,
            bad_lines: self.bad_lines,
            limit,
            declared: self.declared(),
            ..CsvOptions::default()
        })
    }

    pub(super) fn jsonl(&self, limit: DecodeLimit) -> JsonlOptions {
        JsonlOptions {
            bad_lines: self.bad_lines,
            limit,
            declared: self.declared(),
            skips_unknown: self.is_selection,
            refuses_nan: self.form.nan == Nan::Raise,
        }
    }

    fn declared(&self) -> Declared {
        if self.schema.is_none() && self.declared == Declared::All {
            Declared::nothing()
        } else {
            self.declared.clone()
        }
    }
}
