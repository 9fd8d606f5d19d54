//! The syntax of templates: their tokens, and errors in them.

use crate::error::{Error, Result};
use minijinja::machinery::{Span, Token, tokenize};
use minijinja::syntax::SyntaxConfig;

pub(super) fn syntax() -> SyntaxConfig {
    SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build().unwrap_or_default()
}

/// The tokens of a template with their places.
pub(super) fn tokens(template: &str) -> impl Iterator<Item = Result<(Token<'_>, Span)>> {
    let tokens = tokenize(template, false, syntax());
    tokens.map(|token| token.map_err(|error| template_error(&error)))
}

/// With the reasons below it.
pub(super) fn template_error(error: &minijinja::Error) -> Error {
    let mut reason = error.detail().map_or_else(|| error.kind().to_string(), str::to_owned);
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        reason = format!("{reason}: {cause}");
        source = cause.source();
    }
    Error::Template { line: error.line(), reason }
}
