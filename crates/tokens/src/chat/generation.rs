//! `{% generation %}` … `{% endgeneration %}`: what an assistant writes.
//!
//! The engine has no such tag, so a function writes a bracket where it begins and ends. Tags are
//! found by the lexer: their names may also be in text, in strings and in comments.

use super::Rendered;
use super::edits::{Edit, edited};
use super::environment::{BRACKET, Brackets, FIRST_BYTES};
use super::escapes::of_python;
use super::syntax::tokens;
use crate::error::{Error, Result};
use minijinja::machinery::Token;

pub(super) struct Rewritten {
    pub(super) template: String,
    pub(super) has_generation: bool,
    /// Whether the template calls for the date.
    pub(super) names_date: bool,
    /// The formats of the date that are written out, with their lines.
    pub(super) date_formats: Vec<(String, usize)>,
    /// Whether the output of a part can become a value, in which brackets would show.
    pub(super) reads_output: bool,
}

/// Tags that capture what is rendered between them.
const CAPTURING: [&str; 8] =
    ["endset", "endmacro", "endcall", "endfilter", "endblock", "import", "from", "extends"];

/// A scope of its own, as in Jinja, with a bracket at both ends. The names of tags are replaced, so
/// what trims white space around a tag stays.
const START: &str = "with %}{% if true %}{{ FUNCTION(true) }}{% endif";
const END: &str = "if true %}{{ FUNCTION(false) }}{% endif %}{% endwith";

pub(super) fn rewrite(template: &str) -> Result<Rewritten> {
    let mut edits: Vec<Edit> = Vec::new();
    let mut has_generation = false;
    let mut names_date = false;
    let mut date_formats = Vec::new();
    // How many tokens of `strftime_now(` came before.
    let mut date_call = 0;
    let mut reads_output = Brackets::may_be_in(template);
    let mut follows_start = false;
    // Loops since the innermost generation block that is open began.
    let mut loops: Vec<usize> = Vec::new();
    for token in tokens(template) {
        let (token, span) = token?;
        let range = span.start_offset as usize..span.end_offset as usize;
        if let (Token::Ident(name @ ("generation" | "endgeneration")), true) =
            (&token, follows_start)
        {
            let new = if *name == "generation" { START } else { END }.replace("FUNCTION", BRACKET);
            has_generation = true;
            edits.push((range, new));
        } else if let (Token::String(_), Some(written)) = (&token, template.get(range.clone())) {
            edits.push((range, of_python(written)));
        }
        if let (Token::Ident(name), true) = (&token, follows_start) {
            match (*name, loops.last_mut()) {
                ("generation", _) => loops.push(0),
                ("endgeneration", Some(_)) => drop(loops.pop()),
                ("for", Some(open)) => *open += 1,
                ("endfor", Some(open)) => *open = open.saturating_sub(1),
                // As in Jinja, where such a block is a function.
                ("break" | "continue", Some(0)) => {
                    let reason = format!(
                        "{name} in a generation block of a loop that begins before the block"
                    );
                    return Err(Error::Template { line: Some(span.start_line as usize), reason });
                }
                _ => {}
            }
        }
        names_date |= matches!(token, Token::Ident("strftime_now"));
        if date_call == 2
            && let Some(format) = literal(&token)
        {
            date_formats.push((format.to_owned(), span.start_line as usize));
        }
        date_call = match token {
            Token::Ident("strftime_now") => 1,
            Token::ParenOpen if date_call == 1 => 2,
            _ => 0,
        };
        // A recursive loop is a function that returns its output.
        reads_output |= matches!(token, Token::Ident("recursive"))
            || matches!(token, Token::Ident(name) if follows_start && CAPTURING.contains(&name));
        follows_start = matches!(token, Token::BlockStart);
    }
    let lost =
        || Error::Template { line: None, reason: "a generation tag cannot be found".to_owned() };
    let rewritten = edited(template, &edits).ok_or_else(lost)?;
    Ok(Rewritten { template: rewritten, has_generation, names_date, date_formats, reads_output })
}

fn literal<'a>(token: &'a Token<'_>) -> Option<&'a str> {
    match token {
        Token::Str(text) => Some(text),
        Token::String(text) => Some(text),
        _ => None,
    }
}

/// Takes the brackets out of a text.
pub(super) fn spans(text: &str, brackets: Brackets) -> Result<Rendered> {
    let mut rendered = Rendered { text: String::with_capacity(text.len()), spans: Vec::new() };
    let mut open: Vec<usize> = Vec::new();
    let mut from = 0;
    for place in memchr::memmem::find_iter(text.as_bytes(), FIRST_BYTES) {
        let Some(character) = text.get(place..).and_then(|rest| rest.chars().next()) else {
            continue;
        };
        if character != brackets.open && character != brackets.close {
            continue;
        }
        rendered.text.push_str(text.get(from..place).unwrap_or_default());
        from = place + character.len_utf8();
        if character == brackets.open {
            open.push(rendered.text.len());
            continue;
        }
        let start = open.pop().ok_or(Error::TemplateSpans)?;
        if open.is_empty() && start < rendered.text.len() {
            rendered.spans.push(start..rendered.text.len());
        }
    }
    rendered.text.push_str(text.get(from..).unwrap_or_default());
    if open.is_empty() { Ok(rendered) } else { Err(Error::TemplateSpans) }
}
