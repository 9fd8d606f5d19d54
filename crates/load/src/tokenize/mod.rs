//! Tokens of the texts or messages of a row, as columns that a data set computes.
//!
//! The invariant: the lists of a row depend on its texts and on the options alone, and all lists of
//! a row are equally long.

mod chat;
mod counts;
mod fault;
mod function;
mod input;
mod json;
mod lists;
mod long;
mod texts;
mod totals;
mod unlabelled;

pub use self::chat::{AssistantSpans, Chat};
pub(crate) use self::counts::FileKey;
pub use self::counts::{BlockKey, CountsDirectory, TokenCounts};
pub use self::function::{FunctionTokens, ListFunction};
pub use self::input::TokenInput;
pub use self::totals::TokenTotals;
pub(crate) use self::totals::{add as add_totals, totals_of};
pub(crate) use self::unlabelled::Unlabelled;

use self::input::{RowText, Rows, SharedText};
pub(crate) use self::lists::Lists;
use crate::Result;
use crate::UnderivableRow;
use crate::dataset::{Derive, Underivable};
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, Field, FieldRef};
use fault::Fault;
pub use fault::InvalidBytes;
use shardmill_engine::Cancel;
use shardmill_tokens::{SpecialInText, Tokenizer};
use std::fmt;
use std::sync::Arc;

/// What a row without a text becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NullTexts {
    Raise,
    /// A row without tokens.
    Empty,
}

/// How the text of a row becomes tokens.
#[derive(Debug, Clone)]
pub struct TokenOptions {
    /// Ids around every row that has a text.
    pub bos: Option<u32>,
    pub eos: Option<u32>,
    pub add_special_tokens: bool,
    /// If `None`: `Id` for messages, because templates write special tokens, and `Text` otherwise.
    pub special_in_text: Option<SpecialInText>,
    pub nulls: NullTexts,
    pub invalid: InvalidBytes,
    /// The largest text, in bytes.
    pub max_document_bytes: usize,
    pub labels: Option<Labels>,
}

/// Labels of the tokens of a row. The first one of a row is always ignored,
/// since no token predicts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Labels {
    pub ignore_index: i64,
    /// Only what an assistant wrote, or the completion.
    pub answers_only: bool,
    /// A row in which all labels are ignored is an error.
    pub required: bool,
}

/// Tokens of the texts or messages of rows.
pub struct Tokens {
    tokenizer: Arc<Tokenizer>,
    input: TokenInput,
    options: TokenOptions,
    outputs: Vec<FieldRef>,
    counts: CountsDirectory,
    unlabelled: Unlabelled,
}

/// Names and type of the lists.
#[derive(Debug, Clone)]
pub struct TokenColumns {
    pub tokens: String,
    pub is_wide: bool,
    /// Labels are int64, as losses expect.
    pub labels: Option<String>,
}

impl TokenColumns {
    #[must_use]
    pub fn fields(&self) -> Vec<FieldRef> {
        let list = |name: &str, item: DataType| {
            let item = Arc::new(Field::new("item", item, false));
            Arc::new(Field::new(name, DataType::List(item), false))
        };
        let tokens =
            list(&self.tokens, if self.is_wide { DataType::Int64 } else { DataType::Int32 });
        std::iter::once(tokens)
            .chain(self.labels.as_ref().map(|labels| list(labels, DataType::Int64)))
            .collect()
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Tokens")
            .field("tokenizer", &self.tokenizer.path())
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl Derive for Tokens {
    fn accepts(&self, source: usize, data_type: &DataType) -> bool {
        self.input.accepts(source, data_type)
    }

    fn outputs(&self) -> &[FieldRef] {
        &self.outputs
    }

    fn compute(&self, sources: &[ArrayRef]) -> std::result::Result<Vec<ArrayRef>, Underivable> {
        let rows = sources.first().map_or(0, Array::len);
        let texts = Rows::new(&self.input, sources, self.options.invalid);
        let texts = texts.map_err(Underivable::Batch)?;
        let mut lists = Lists::with_rows(rows);
        let mut totals = TokenTotals::default();
        let mut failures = Vec::new();
        for row in 0..rows {
            if row == rows / 8 {
                lists.reserve(row, rows - row);
            }
            if let Err(Fault { source, reason, hint }) =
                self.add_row(&texts, row, &mut lists, &mut totals)
            {
                failures.push(UnderivableRow {
                    row,
                    source,
                    reason,
                    hint,
                    ..UnderivableRow::default()
                });
                lists = Lists::with_rows(rows);
            }
        }
        if !failures.is_empty() {
            return Err(Underivable::Rows(failures));
        }
        // Tokens and time are counted for every computation.
        add_totals(totals);
        lists.into_arrays(&self.outputs).map_err(|error| Underivable::Batch(error.to_string()))
    }

    fn counts(&self, cancel: &Cancel) -> Result<Option<Arc<TokenCounts>>> {
        self.counts.open(cancel)
    }

    fn output_bytes(&self, source_bytes: u64) -> u64 {
        // English has three to four bytes a token.
        let tokens = source_bytes / 3;
        let width =
            self.outputs.iter().map(|field| if is_narrow(field) { 4 } else { 8 }).sum::<u64>();
        tokens * width
    }
}

const FILL: &str = "nulls=\"fill\" of sm.TextPolicy makes it a row without tokens";

impl Tokens {
    /// # Errors
    /// When the tokenizer or the template cannot tell which tokens have labels.
    pub fn new(
        tokenizer: Arc<Tokenizer>,
        input: TokenInput,
        options: TokenOptions,
        columns: &TokenColumns,
        counts: CountsDirectory,
    ) -> shardmill_tokens::Result<Self> {
        if options.labels.is_some_and(|labels| labels.answers_only) {
            tokenizer.check_labels()?;
            input.check_answers()?;
        }
        match (&input, options.special_in_text) {
            (TokenInput::Texts { .. }, Some(SpecialInText::Id)) => tokenizer.check_ids(false)?,
            (TokenInput::Chat(_), None | Some(SpecialInText::Id)) => tokenizer.check_ids(true)?,
            _ => {}
        }
        Ok(Self {
            tokenizer,
            input,
            options,
            outputs: columns.fields(),
            counts,
            unlabelled: Unlabelled::default(),
        })
    }

    fn add_row(
        &self,
        rows: &Rows<'_>,
        row: usize,
        lists: &mut Lists,
        totals: &mut TokenTotals,
    ) -> std::result::Result<(), Fault> {
        match rows.text(row, self.options.labels.is_some_and(|labels| labels.answers_only))? {
            Some(text) if text.text.len() > self.options.max_document_bytes => {
                let reason = format!(
                    "the text has {} bytes, more than max_document_bytes={}",
                    text.text.len(),
                    self.options.max_document_bytes
                );
                return Err((reason, None).into());
            }
            Some(text) if !text.text.is_empty() => {
                self.add_text(&text, || rows.shared(row, &text), lists, totals)?;
            }
            // An empty text has no token, not even one for its end.
            Some(_) => {}
            None if self.options.nulls == NullTexts::Empty => {}
            None => {
                return Err(Fault {
                    source: rows.null_source(row),
                    reason: "the value is null".to_owned(),
                    hint: Some(FILL.to_owned()),
                });
            }
        }
        if lists.end_row() {
            Ok(())
        } else {
            Err(("a block has more than 2,147,483,647 tokens".to_owned(), None).into())
        }
    }

    fn add_text(
        &self,
        text: &RowText<'_>,
        shared: impl FnOnce() -> SharedText,
        lists: &mut Lists,
        totals: &mut TokenTotals,
    ) -> std::result::Result<(), Fault> {
        let (prefix, suffix) = if self.options.add_special_tokens {
            self.tokenizer.template()
        } else {
            (&[][..], &[][..])
        };
        let special = self.options.special_in_text.unwrap_or(if text.is_chat {
            SpecialInText::Id
        } else {
            SpecialInText::Text
        });
        if special == SpecialInText::Id {
            self.tokenizer
                .check_ids(text.is_chat)
                .map_err(|error| (error.to_string(), error.hint()))?;
        }
        let start = lists.tokens.len();
        lists.tokens.extend(self.options.bos.iter().chain(prefix));
        let first = lists.tokens.len();
        let mut answered = Vec::new();
        let encoded = match &text.answers {
            // Its ranges are found for the text as a whole.
            Some(spans) => self
                .tokenizer
                .encode_labelled(&text.text, spans, special, &mut lists.tokens, &mut answered)
                .map(|spelled| (spelled, 0)),
            None => long::encode(&self.tokenizer, &text.text, shared, special, &mut lists.tokens),
        };
        let (spelled, nanoseconds) = encoded.map_err(|error| (error.to_string(), error.hint()))?;
        totals.text_bytes += text.text.len() as u64;
        totals.special_in_text += spelled as u64;
        totals.nanoseconds += nanoseconds;
        totals.elsewhere += nanoseconds;
        lists.tokens.extend(suffix.iter().copied().chain(self.options.eos));
        let Some(labels) = self.options.labels else { return Ok(()) };
        // Tokens after the text are labelled like its last byte.
        // Tokens before it are never labelled.
        let ends_answered = text
            .answers
            .as_ref()
            .is_none_or(|spans| spans.last().is_some_and(|span| span.end == text.text.len()));
        let is_answer = |place: usize| match &text.answers {
            None => true,
            Some(_) => place
                .checked_sub(first)
                .is_some_and(|place| answered.get(place).copied().unwrap_or(ends_answered)),
        };
        let ids = lists.tokens.iter().enumerate().skip(start);
        let label = |(place, id): (usize, &u32)| {
            if place > start && is_answer(place) { i64::from(*id) } else { labels.ignore_index }
        };
        let first_label = lists.labels.len();
        lists.labels.extend(ids.map(label));
        let has_label =
            lists.labels.iter().skip(first_label).any(|label| *label != labels.ignore_index);
        totals.rows_without_labels += u64::from(!has_label);
        if labels.answers_only && !has_label {
            self.unlabelled.found(labels.required)?;
        }
        Ok(())
    }
}

fn is_narrow(field: &Field) -> bool {
    matches!(field.data_type(), DataType::List(item) if item.data_type() == &DataType::Int32)
}
