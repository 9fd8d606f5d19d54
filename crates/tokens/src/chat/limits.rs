//! Limits on what a template can nest, set on its source.
//!
//! Values are printed, compared and dropped by recursion, so the depth of each value must be bounded. One expression can add a limited number of levels. All that
//! can collect levels across expressions passes through a name: `set`, namespaces, loops, macros and `with`. A filter that checks the value is inserted after each
//! of these. A template cannot replace filters.

use super::edits::{Edit, edited};
use super::environment::syntax;
use crate::error::{Error, Result};
use minijinja::machinery::{Span, Token, tokenize};

/// The filter that checks the value of a variable.
pub(super) const VARIABLE: &str = "shardmill_variable";
/// The filter that checks the value of an attribute of a namespace.
pub(super) const ATTRIBUTE: &str = "shardmill_attribute";
/// The test whether a value needs that filter. A filter costs fuel for the length of a text, and a test does not.
pub(super) const UNCHECKED: &str = "shardmill_unchecked";
/// The filter that checks what a loop goes through.
pub(super) const ITERABLE: &str = "shardmill_iterable";

/// Operators and brackets that are open in one expression. The engine parses, compiles and evaluates them by recursion.
const OPERATORS: usize = 400;
const BRACKETS: usize = 64;
/// `elif` of the blocks that are open.
const BRANCHES: usize = 250;

/// Names of the arguments that a macro of Jinja does not declare.
const UNDECLARED: [&str; 2] = ["varargs", "kwargs"];

struct Part<'a> {
    token: Token<'a>,
    span: Span,
}

/// The template with checks of the values that it assigns.
///
/// # Errors
/// When an expression is nested too deeply, or a tag is used that needs other templates.
pub(super) fn guarded(template: &str) -> Result<String> {
    let mut insertions = Vec::new();
    let mut tag: Vec<Part<'_>> = Vec::new();
    let mut captured: Vec<Vec<String>> = Vec::new();
    let mut branches = vec![0_usize];
    let mut macros: Vec<Vec<String>> = Vec::new();
    for token in tokenize(template, false, syntax()) {
        let (token, span) = token.map_err(|error| super::template_error(&error))?;
        match token {
            Token::TemplateData(_) => {}
            Token::BlockStart | Token::VariableStart => tag.clear(),
            Token::VariableEnd => {
                check_operators(&tag)?;
                check_arguments(&tag, &mut macros)?;
            }
            Token::BlockEnd => {
                check_operators(&tag)?;
                check_arguments(&tag, &mut macros)?;
                check_branches(&tag, &mut branches)?;
                insertions.extend(loop_check(&tag).into_iter().flatten());
                insertions.extend(checks(&tag, &mut captured)?);
            }
            token => tag.push(Part { token, span }),
        }
    }
    edited(template, &insertions).ok_or_else(|| Error::Template { line: None, reason: "a tag cannot be found".to_owned() })
}

fn refused<T>(part: &Part<'_>, reason: &str) -> Result<T> {
    Err(Error::Template { line: Some(part.span.start_line as usize), reason: reason.to_owned() })
}

fn check_operators(tag: &[Part<'_>]) -> Result<()> {
    let mut levels = vec![0_usize];
    let mut open = 0_usize;
    for part in tag {
        match part.token {
            Token::BracketOpen | Token::ParenOpen | Token::BraceOpen => {
                levels.push(0);
                open += 1;
                if levels.len() > BRACKETS + 1 {
                    return refused(part, &format!("an expression has more than {BRACKETS} brackets within each other; split it with set"));
                }
            }
            Token::BracketClose | Token::ParenClose | Token::BraceClose => {
                // The bracket itself stays counted: it is a call, an index or a literal of the level around it.
                open = open.saturating_sub(levels.pop().unwrap_or(0));
                if let Some(level) = levels.last_mut() {
                    *level += 1;
                }
            }
            Token::Comma => {
                if let Some(level) = levels.last_mut() {
                    open = open.saturating_sub(*level);
                    *level = 0;
                }
            }
            Token::Ident("not" | "and" | "or" | "if" | "else" | "is" | "in") => count(&mut levels, &mut open),
            Token::Ident(_) | Token::Str(_) | Token::String(_) | Token::Int(_) | Token::Int128(_) | Token::Float(_) => {}
            _ => count(&mut levels, &mut open),
        }
        if open > OPERATORS {
            return refused(part, &format!("an expression has more than {OPERATORS} operators in a row; split it with set"));
        }
    }
    Ok(())
}

fn count(levels: &mut [usize], open: &mut usize) {
    if let Some(level) = levels.last_mut() {
        *level += 1;
        *open += 1;
    }
}

fn check_branches(tag: &[Part<'_>], branches: &mut Vec<usize>) -> Result<()> {
    let Some(part) = tag.first() else { return Ok(()) };
    match part.token {
        Token::Ident("if") => branches.push(0),
        Token::Ident("endif") => drop(branches.pop()),
        Token::Ident("elif") => {
            if let Some(open) = branches.last_mut() {
                *open += 1;
            }
            if branches.iter().sum::<usize>() > BRANCHES {
                return refused(part, &format!("more than {BRANCHES} elif follow each other; use a dict"));
            }
        }
        _ => {}
    }
    Ok(())
}

/// Refuses `varargs` and `kwargs` in a macro that does not declare them: Jinja passes the other arguments under these names, and the engine leaves both undefined, so
/// they would render as nothing. `macros` are those of the two that each open macro declares.
fn check_arguments(tag: &[Part<'_>], macros: &mut Vec<Vec<String>>) -> Result<()> {
    let rest = tag.get(1..).unwrap_or_default();
    match tag.first().map(|part| &part.token) {
        Some(Token::Ident("macro")) => {
            macros.push(Vec::new());
            declare(macros, parameters(rest.get(1..).unwrap_or_default()));
        }
        Some(Token::Ident("endmacro")) => drop(macros.pop()),
        Some(Token::Ident("set" | "for")) => {
            let end = rest.iter().position(|part| matches!(part.token, Token::Assign | Token::Ident("in"))).unwrap_or(rest.len());
            declare(macros, paths(rest.get(..end).unwrap_or_default()));
        }
        _ => {}
    }
    let Some(names) = macros.last() else { return Ok(()) };
    let mut follows_dot = false;
    for (place, part) in tag.iter().enumerate() {
        let is_argument = matches!(tag.get(place + 1), Some(Part { token: Token::Assign, .. }));
        if let Token::Ident(name) = part.token
            && UNDECLARED.contains(&name)
            && !(follows_dot || is_argument || names.iter().any(|known| known == name))
        {
            return refused(part, &format!("{name} of a macro is not supported; declare each argument"));
        }
        follows_dot = matches!(part.token, Token::Dot);
    }
    Ok(())
}

fn declare(macros: &mut [Vec<String>], names: Vec<String>) {
    let Some(known) = macros.last_mut() else { return };
    for name in names {
        if UNDECLARED.contains(&name.as_str()) && !known.contains(&name) {
            known.push(name);
        }
    }
}

/// The check of what a `for` goes through.
fn loop_check(tag: &[Part<'_>]) -> Option<[Edit; 2]> {
    let rest = tag.get(1..).filter(|_| matches!(tag.first(), Some(Part { token: Token::Ident("for"), .. })))?;
    let start = rest.iter().position(|part| matches!(part.token, Token::Ident("in")))? + 1;
    let mut depth = 0_usize;
    let is_end = |part: &Part<'_>| {
        match part.token {
            Token::ParenOpen | Token::BracketOpen | Token::BraceOpen => depth += 1,
            Token::ParenClose | Token::BracketClose | Token::BraceClose => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && matches!(part.token, Token::Ident("if" | "recursive"))
    };
    let value = rest.get(start..)?;
    let end = value.iter().position(is_end).unwrap_or(value.len());
    let (first, last) = (value.first()?, value.get(end.checked_sub(1)?)?);
    let (from, to) = (first.span.start_offset as usize, last.span.end_offset as usize);
    Some([(from..from, "(".to_owned()), (to..to, format!(") | {ITERABLE}"))])
}

/// The checks that follow a tag.
fn checks(tag: &[Part<'_>], captured: &mut Vec<Vec<String>>) -> Result<Option<Edit>> {
    let (Some(first), Some(last)) = (tag.first(), tag.last()) else { return Ok(None) };
    let Token::Ident(name) = first.token else { return Ok(None) };
    let rest = tag.get(1..).unwrap_or_default();
    let names = match name {
        "set" => {
            let end = rest.iter().position(|part| matches!(part.token, Token::Assign | Token::Pipe));
            let targets = paths(rest.get(..end.unwrap_or(rest.len())).unwrap_or_default());
            match end.and_then(|end| rest.get(end..)) {
                Some(value) if matches!(value.first(), Some(Part { token: Token::Assign, .. })) => {
                    if builds(value) {
                        targets
                    } else {
                        // A name alone adds no level, but could make a namespace hold itself.
                        targets.into_iter().filter(|target| target.contains('.')).collect()
                    }
                }
                _ => {
                    captured.push(targets);
                    Vec::new()
                }
            }
        }
        "endset" => captured.pop().unwrap_or_default(),
        "for" => {
            let end = rest.iter().position(|part| matches!(part.token, Token::Ident("in"))).unwrap_or(rest.len());
            let is_recursive = matches!(last.token, Token::Ident("recursive"));
            let (target, value) = (rest.get(..end).unwrap_or_default(), rest.get(end..).unwrap_or_default());
            if is_recursive || builds(value) { paths(target) } else { Vec::new() }
        }
        "macro" => parameters(rest.get(1..).unwrap_or_default()),
        "call" if matches!(rest.first(), Some(Part { token: Token::ParenOpen, .. })) => parameters(rest),
        "with" => assigned(rest),
        "include" | "import" | "from" | "extends" | "block" => {
            return refused(first, &format!("{name} needs other templates, and a chat template has none"));
        }
        _ => return Ok(None),
    };
    let text: String = names
        .iter()
        .map(|name| {
            let filter = if name.contains('.') { ATTRIBUTE } else { VARIABLE };
            format!(" %}}{{% if {name} is {UNCHECKED} %}}{{% set {name} = {name} | {filter} %}}{{% endif")
        })
        .collect();
    let end = last.span.end_offset as usize;
    Ok((!text.is_empty()).then_some((end..end, text)))
}

/// Whether an expression can make a value that is larger than its operands.
fn builds(tokens: &[Part<'_>]) -> bool {
    tokens.iter().any(|part| {
        matches!(
            part.token,
            Token::BracketOpen | Token::BraceOpen | Token::ParenOpen | Token::Pipe | Token::Mul | Token::Plus | Token::Tilde | Token::Comma
        )
    })
}

/// The names and attributes that are assigned by `a, b.c`.
fn paths(tokens: &[Part<'_>]) -> Vec<String> {
    let mut paths: Vec<String> = Vec::new();
    let mut follows_dot = false;
    for part in tokens {
        if let Token::Ident(name) = part.token {
            match paths.last_mut() {
                Some(path) if follows_dot => {
                    path.push('.');
                    path.push_str(name);
                }
                _ => paths.push(name.to_owned()),
            }
        }
        follows_dot = matches!(part.token, Token::Dot);
    }
    paths
}

/// The names of `(a, b=1)`.
fn parameters(tokens: &[Part<'_>]) -> Vec<String> {
    let mut names = Vec::new();
    let (mut depth, mut begins) = (0_usize, false);
    for part in tokens {
        match part.token {
            Token::Ident(name) if begins => names.push(name.to_owned()),
            Token::ParenOpen | Token::BracketOpen | Token::BraceOpen => depth += 1,
            Token::ParenClose | Token::BracketClose | Token::BraceClose => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    break;
                }
            }
            _ => {}
        }
        begins = depth == 1 && matches!(part.token, Token::ParenOpen | Token::Comma);
    }
    names
}

/// The names of `a = 1, b = 2`.
fn assigned(tokens: &[Part<'_>]) -> Vec<String> {
    let mut names = Vec::new();
    let (mut depth, mut start) = (0_usize, 0);
    for (place, part) in tokens.iter().enumerate() {
        match part.token {
            Token::ParenOpen | Token::BracketOpen | Token::BraceOpen => depth += 1,
            Token::ParenClose | Token::BracketClose | Token::BraceClose => depth = depth.saturating_sub(1),
            Token::Comma if depth == 0 => start = place + 1,
            Token::Assign if depth == 0 => names.extend(paths(tokens.get(start..place).unwrap_or_default())),
            _ => {}
        }
    }
    names
}
