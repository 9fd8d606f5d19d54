//! Patterns that cut text, outside of the engine's grammars.

use crate::error::{Error, Result};
use fancy_regex::{Regex, RegexBuilder};

/// Of compiled parts, and of what is built while they run.
const SIZE_LIMIT: usize = 64 << 20;

/// What happens to a match, and of the text between matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Behavior {
    Removed,
    Isolated,
    MergedWithPrevious,
    MergedWithNext,
    Contiguous,
}

pub(crate) struct Pattern {
    regex: Regex,
    behavior: Behavior,
    is_inverted: bool,
}

impl Pattern {
    pub(crate) fn new(
        pattern: &str,
        behavior: Behavior,
        is_inverted: bool,
    ) -> std::result::Result<Self, String> {
        let regex = compile(pattern)?;
        Ok(Self { regex, behavior, is_inverted })
    }

    pub(crate) fn behavior(&self) -> Behavior {
        self.behavior
    }

    /// Ranges that cover `text`, each with whether it is a match.
    ///
    /// # Errors
    /// When a match needs too many steps. `start` is where the text is in its document,
    /// if that is known.
    pub(crate) fn matches(
        &self,
        text: &str,
        start: Option<usize>,
    ) -> Result<Vec<((usize, usize), bool)>> {
        let mut ranges = Vec::new();
        let mut end = 0;
        for found in self.regex.find_iter(text) {
            let found = found.map_err(|error| Error::PatternLimit {
                offset: start.map(|start| start + end),
                reason: error.to_string(),
            })?;
            if end != found.start() {
                ranges.push(((end, found.start()), self.is_inverted));
            }
            ranges.push(((found.start(), found.end()), !self.is_inverted));
            end = found.end();
        }
        if end != text.len() {
            ranges.push(((end, text.len()), self.is_inverted));
        }
        Ok(ranges)
    }
}

/// What Oniguruma, which the original library uses, reads in another way, and the same for Rust.
/// Outside of brackets, `@` are the characters of words.
const OUTSIDE: [(&str, &str); 6] = [
    (r"\w", "[@]"),
    (r"\W", "[^@]"),
    (r"\b", "(?:(?<=[@])(?![@])|(?<![@])(?=[@]))"),
    (r"\B", "(?:(?<=[@])(?=[@])|(?<![@])(?![@]))"),
    ("^", r"(?:\A|(?<=\n)(?!\z))"),
    ("$", "(?m:$)"),
];

/// These numbers are characters of words too, but not within brackets.
const WORD: &str = r"\p{Alphabetic}\p{M}\p{Nd}\p{Pc}²³¹¼-¾";

const IN_BRACKETS: [(&str, &str); 16] = [
    (r"\w", r"[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}]"),
    (r"\W", r"[^\p{Alphabetic}\p{M}\p{Nd}\p{Pc}]"),
    ("[:alnum:]", r"\p{Alphabetic}\p{Nd}"),
    ("[:alpha:]", r"\p{Alphabetic}"),
    ("[:ascii:]", r"\x00-\x7f"),
    ("[:blank:]", r"\p{Zs}\t"),
    ("[:cntrl:]", r"\p{Cc}"),
    ("[:digit:]", r"\p{Nd}"),
    ("[:graph:]", r"[^\s\p{Cc}\p{Cn}]"),
    ("[:lower:]", r"\p{Lowercase}"),
    ("[:print:]", r"[^\s\p{Cc}\p{Cn}]\p{Zs}"),
    ("[:punct:]", r"\p{P}\p{S}"),
    ("[:space:]", r"\s"),
    ("[:upper:]", r"\p{Uppercase}"),
    ("[:word:]", r"\p{Alphabetic}\p{M}\p{Nd}\p{Pc}"),
    ("[:xdigit:]", "0-9A-Fa-f"),
];

/// A pattern of Oniguruma as one of Rust.
///
/// # Errors
/// What has another meaning in Rust.
pub(super) fn translated(pattern: &str) -> std::result::Result<String, String> {
    let mut out = String::with_capacity(pattern.len());
    let mut rest = pattern;
    // How many brackets are open.
    let mut depth = 0_usize;
    while let Some(first) = rest.chars().next() {
        let known: &[(&str, &str)] = if depth > 0 { &IN_BRACKETS } else { &OUTSIDE };
        if let Some((old, new)) = known.iter().find(|(old, _)| rest.starts_with(*old)) {
            out.push_str(&new.replace('@', WORD));
            rest = rest.get(old.len()..).unwrap_or_default();
            continue;
        }
        if has_other_meaning(rest, depth > 0) {
            let start: String = rest.chars().take(2).collect();
            return Err(format!("the original library gives {start:?} another meaning"));
        }
        if depth == 0
            && let Some(group) = rest.strip_prefix("(?")
        {
            let left = group.trim_start_matches(|flag: char| "imx-".contains(flag));
            // With m a dot is also a line feed.
            out.push_str("(?");
            out.push_str(&group.strip_suffix(left).unwrap_or_default().replace('m', "s"));
            rest = left;
            continue;
        }
        let length = match first {
            '\\' => 1 + rest.chars().nth(1).map_or(0, char::len_utf8),
            '[' => {
                depth += 1;
                let negation = usize::from(rest.starts_with("[^"));
                // A bracket that would close at once is a member.
                1 + negation
                    + usize::from(
                        rest.get(1 + negation..).is_some_and(|members| members.starts_with(']')),
                    )
            }
            ']' => {
                depth = depth.saturating_sub(1);
                1
            }
            _ => first.len_utf8(),
        };
        let (same, left) = rest.split_at(length);
        out.push_str(same);
        rest = left;
    }
    Ok(out)
}

fn has_other_meaning(rest: &str, is_in_brackets: bool) -> bool {
    let is_class = |name: &str| {
        name.trim_start_matches(|letter: char| letter == '^' || letter.is_ascii_alphabetic())
            .starts_with(":]")
    };
    let is_property = [r"\p", r"\P"]
        .into_iter()
        .filter_map(|escape| rest.strip_prefix(escape))
        .any(|name| !name.starts_with('{'));
    let others: &[&str] = if is_in_brackets { &["--", "~~"] } else { &[r"\G", r"\Z"] };
    is_property
        || others.iter().any(|other| rest.starts_with(*other))
        || (is_in_brackets && rest.strip_prefix("[:").is_some_and(is_class))
}

pub(super) fn compile(pattern: &str) -> std::result::Result<Regex, String> {
    let built = RegexBuilder::new(pattern)
        .delegate_size_limit(SIZE_LIMIT)
        .delegate_dfa_size_limit(SIZE_LIMIT)
        .build();
    built.map_err(|error| error.to_string())
}
