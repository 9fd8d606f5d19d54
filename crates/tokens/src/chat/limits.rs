//! Limits on what a template can nest, set on its source.
//!
//! Values are printed, compared and dropped by recursion, so the depth of each value must be
//! bounded. One expression can add a limited number of levels. All that can collect levels across
//! expressions is assigned, passed or iterated over. A filter around each such expression checks
//! its value. A template cannot replace filters.

use super::edits::{Edit, edited};
use super::syntax::tokens;
use crate::error::{Error, Result};
use minijinja::machinery::{Span, Token};

/// The filter that checks a value.
pub(super) const VALUE: &str = "shardmill_value";
/// The filter that checks the value of an attribute of a namespace.
pub(super) const ATTRIBUTE: &str = "shardmill_attribute";
/// The filter that checks what a loop iterates over.
pub(super) const ITERABLE: &str = "shardmill_iterable";

/// Operators and brackets that an expression nests. The engine parses and compiles it by recursion.
const DEPTH: usize = 400;
const BRACKETS: usize = 64;
const OPERATORS: [&str; 7] = ["not", "and", "or", "if", "else", "is", "in"];
/// `elif` of the blocks that are open.
const BRANCHES: usize = 250;

/// The template with checks of the values that it assigns, passes or iterates over.
///
/// # Errors
/// When an expression is nested too deeply, or a tag is used that needs other templates.
pub(super) fn guarded(template: &str) -> Result<String> {
    let mut edits = Vec::new();
    let mut branches = vec![0];
    let mut tag = Tag::default();
    for token in tokens(template) {
        let (token, span) = token?;
        match token {
            Token::TemplateData(_) => {}
            Token::VariableStart => tag = Tag { keyword: Some(""), ..Tag::default() },
            Token::BlockStart => tag = Tag::default(),
            Token::VariableEnd | Token::BlockEnd => tag.finish(&mut edits),
            Token::Ident(keyword) if tag.keyword.is_none() => {
                check_keyword(keyword, span, &mut branches)?;
                tag = Tag { keyword: Some(keyword), end: span.end_offset as usize, ..tag };
            }
            token => tag.add(&token, span, &mut edits)?,
        }
    }
    // The end of an expression is found after the edits inside of it.
    edits.sort_by_key(|(range, _)| range.start);
    edited(template, &edits)
        .ok_or_else(|| Error::Template { line: None, reason: "a tag cannot be found".to_owned() })
}

fn refused<T>(span: Span, reason: String) -> Result<T> {
    Err(Error::Template { line: Some(span.start_line as usize), reason })
}

fn check_keyword(keyword: &str, span: Span, branches: &mut Vec<usize>) -> Result<()> {
    match keyword {
        "if" => branches.push(0),
        "endif" => drop(branches.pop()),
        "elif" => {
            if let Some(open) = branches.last_mut() {
                *open += 1;
            }
            if branches.iter().sum::<usize>() > BRANCHES {
                return refused(
                    span,
                    format!("more than {BRANCHES} elif follow each other; use a dict"),
                );
            }
        }
        "include" | "import" | "from" | "extends" | "block" => {
            return refused(
                span,
                format!("{keyword} needs other templates, and a chat template has none"),
            );
        }
        _ => {}
    }
    Ok(())
}

/// The current one of the expressions of a tag or a bracket, which commas separate.
#[derive(Default)]
struct Level {
    /// Where it begins, if it is assigned, passed or iterated over.
    start: Option<usize>,
    /// Whether it can make a value that is larger than its operands.
    builds: bool,
    operators: usize,
    /// Depth of the brackets in it.
    inner: usize,
    /// Depth of the expressions before it.
    before: usize,
    /// Operators and brackets around the level.
    outer: usize,
}

impl Level {
    fn depth(&self) -> usize {
        self.before.max(self.operators + self.inner)
    }

    fn begin(&mut self, start: Option<usize>) {
        *self = Self { start, before: self.depth(), outer: self.outer, ..Self::default() };
    }
}

/// A tag up to a token.
#[derive(Default)]
struct Tag<'a> {
    keyword: Option<&'a str>,
    level: Level,
    /// The levels around it.
    levels: Vec<Level>,
    /// Where the token ends.
    end: usize,
    /// Whether a parenthesis after the token begins a call.
    is_callable: bool,
    has_value: bool,
    sets_attribute: bool,
}

impl Tag<'_> {
    fn add(&mut self, token: &Token<'_>, span: Span, edits: &mut Vec<Edit>) -> Result<()> {
        let end = span.end_offset as usize;
        let statement = self.keyword.filter(|_| self.levels.is_empty()).unwrap_or_default();
        match (token, statement) {
            (Token::ParenOpen | Token::BracketOpen | Token::BraceOpen, _) => {
                let is_call = self.is_callable && matches!(token, Token::ParenOpen);
                let outer = self.level.outer + self.level.operators + 1;
                let level = Level { start: is_call.then_some(end), outer, ..Level::default() };
                self.levels.push(std::mem::replace(&mut self.level, level));
                if self.levels.len() > BRACKETS {
                    let reason = format!(
                        "an expression has more than {BRACKETS} brackets within each other; \
                         split it with set"
                    );
                    return refused(span, reason);
                }
            }
            (Token::ParenClose | Token::BracketClose | Token::BraceClose, _) => {
                self.check(edits);
                let inner = self.level.depth();
                self.level = self.levels.pop().unwrap_or_default();
                self.level.builds = true;
                self.level.operators += 1;
                self.level.inner = self.level.inner.max(inner);
            }
            (Token::Comma, "set") => {
                let start = self.level.start;
                self.level.begin(start);
                self.level.builds = true;
            }
            (Token::Comma, _) => {
                let is_passed = self.level.start.is_some() && statement.is_empty();
                self.check(edits);
                self.level.begin(is_passed.then_some(end));
            }
            (Token::Assign, _) => {
                self.has_value |= statement == "set";
                self.level.begin(Some(end));
            }
            (Token::Ident("in"), "for") if !self.has_value => {
                self.has_value = true;
                self.level.begin(Some(end));
            }
            (Token::Ident("if" | "recursive"), "for") => self.check(edits),
            // Of arguments that are unpacked.
            (Token::Mul | Token::Pow, _) if self.level.start == Some(self.end) => {
                self.level.start = Some(end);
            }
            (Token::Ident(name), _) if !OPERATORS.contains(name) => {}
            (
                Token::Str(_)
                | Token::String(_)
                | Token::Int(_)
                | Token::Int128(_)
                | Token::Float(_),
                _,
            ) => {}
            _ => {
                self.level.operators += 1;
                self.level.builds |=
                    matches!(token, Token::Pipe | Token::Mul | Token::Plus | Token::Tilde);
                self.sets_attribute |=
                    matches!(token, Token::Dot) && self.keyword == Some("set") && !self.has_value;
            }
        }
        if self.level.outer + self.level.operators + self.level.inner > DEPTH {
            let reason = format!(
                "an expression has more than {DEPTH} operators in a row; split it with set"
            );
            return refused(span, reason);
        }
        self.end = end;
        self.is_callable =
            matches!(token, Token::Ident(_) | Token::ParenClose | Token::BracketClose);
        Ok(())
    }

    /// Puts filters around the current expression, if its value must be checked.
    fn check(&mut self, edits: &mut Vec<Edit>) {
        let Some(start) = self.level.start.take() else { return };
        let is_outermost = self.levels.is_empty();
        let value = if is_outermost && self.sets_attribute {
            Some(ATTRIBUTE)
        } else {
            self.level.builds.then_some(VALUE)
        };
        let iterable = (is_outermost && self.keyword == Some("for")).then_some(ITERABLE);
        let filters: String =
            value.into_iter().chain(iterable).map(|filter| format!("| {filter} ")).collect();
        if !filters.is_empty() {
            edits.extend([
                (start..start, "(".to_owned()),
                (self.end..self.end, format!(") {filters}")),
            ]);
        }
    }

    fn finish(&mut self, edits: &mut Vec<Edit>) {
        self.check(edits);
        // The filter of what is rendered up to `endset`.
        if self.keyword == Some("set") && !self.has_value {
            edits.push((self.end..self.end, format!(" | {VALUE}")));
        }
    }
}
