//! Decides by name which members are documents, and which are not data.
//!
//! Both readers of archives use it. Samples keep the keys of WebDataset and leave out
//! [`Role::Foreign`] only; interleaved documents are [`documents`]. Invariant: each name is judged
//! alone, except that `X.Y.json` next to `X.json` must have the content of a document.

use std::borrow::Cow;
use std::collections::HashSet;

use super::Member;

/// A document may have one of these extensions after `.json`.
const COMPRESSED: [&str; 2] = [".gz", ".zst"];
/// A longer chain of dots in a name is not searched for the name of another document.
const MAX_DOTS: usize = 64;

/// What a name says about its member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role<'a> {
    /// Metadata files of macOS: `._*`, and all of `__MACOSX/`.
    Foreign,
    /// A part of the path begins with a dot.
    Hidden,
    /// The name without its ending.
    Document {
        stem: &'a str,
    },
    Other,
}

/// The role of a member. `extensions` are the endings of documents, in any case.
#[must_use]
pub fn role<'a>(name: &'a str, extensions: &[String]) -> Role<'a> {
    let file = name.rsplit('/').next().unwrap_or(name);
    if file.starts_with("._") || name.split('/').any(|step| step == "__MACOSX") {
        return Role::Foreign;
    }
    if name.split('/').any(|step| step.starts_with('.') && !matches!(step, "." | "..")) {
        return Role::Hidden;
    }
    let plain = without_compression(name);
    let stems = extensions.iter().flat_map(|extension| {
        let packed = if is_json(extension) { without_ending(plain, extension) } else { None };
        [without_ending(name, extension), packed]
    });
    // Of `.json` and `.meta.json`, the longer one is the ending.
    stems
        .flatten()
        .min_by_key(|stem| stem.len())
        .map_or(Role::Other, |stem| Role::Document { stem })
}

/// Indices of the members that are documents. `has_content` returns whether `X.Y.json` next to
/// `X.json` has a list of a document.
pub fn documents(
    members: &[Member],
    extensions: &[String],
    mut has_content: impl FnMut(&Member) -> bool,
) -> Vec<usize> {
    let named = members.iter().enumerate().filter_map(|(index, member)| {
        match role(&member.name, extensions) {
            Role::Document { stem } => Some((index, member, normal(stem))),
            _ => None,
        }
    });
    let named: Vec<_> = named.collect();
    let stems: HashSet<&str> = named.iter().map(|(_, _, stem)| stem.as_ref()).collect();
    let is_beside = |stem: &str| {
        let file = stem.rfind('/').map_or(0, |slash| slash + 1);
        let dots = stem.match_indices('.').filter(|(dot, _)| *dot > file).take(MAX_DOTS);
        dots.filter_map(|(dot, _)| stem.get(..dot)).any(|shorter| stems.contains(shorter))
    };
    named
        .iter()
        .filter(|(_, member, stem)| !is_beside(stem) || has_content(member))
        .map(|(index, ..)| *index)
        .collect()
}

/// The name without the ending of a compression.
#[must_use]
pub fn without_compression(name: &str) -> &str {
    COMPRESSED.iter().find_map(|ending| without_ending(name, ending)).unwrap_or(name)
}

fn is_json(extension: &str) -> bool {
    without_ending(extension, ".json").is_some()
}

/// `None` unless the name has the ending, in any case.
fn without_ending<'a>(name: &'a str, ending: &str) -> Option<&'a str> {
    let (stem, found) = name.split_at_checked(name.len().checked_sub(ending.len())?)?;
    found.eq_ignore_ascii_case(ending).then_some(stem)
}

/// The name without redundant parts: `./` and `//`.
#[must_use]
pub fn normal(name: &str) -> Cow<'_, str> {
    let name = name.strip_prefix("./").unwrap_or(name);
    if !name.contains("//") && !name.contains("./") {
        return Cow::Borrowed(name);
    }
    let root = if name.starts_with('/') { "/" } else { "" };
    let steps: Vec<&str> =
        name.split('/').filter(|step| !step.is_empty() && *step != ".").collect();
    Cow::Owned(format!("{root}{}", steps.join("/")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extensions(endings: &[&str]) -> Vec<String> {
        endings.iter().map(|&ending| ending.to_owned()).collect()
    }

    #[test]
    fn ending_makes_a_document_in_any_case_and_compressed() {
        let json = extensions(&[".json"]);
        for (name, stem) in [
            ("a.json", "a"),
            ("d/a.b.JSON", "d/a.b"),
            ("./a.Json", "./a"),
            ("a.json.gz", "a"),
            ("a.JSON.ZST", "a"),
            ("a.json/b.json", "a.json/b"),
            ("../a.json", "../a"),
        ] {
            assert_eq!(role(name, &json), Role::Document { stem }, "{name}");
        }
        for name in
            ["a.jsonl", "a.json ", "a.json.bz2", "a.gz", "json", "a.json/b", "a.jso\u{17f}n"]
        {
            assert_eq!(role(name, &json), Role::Other, "{name}");
        }
        let both = extensions(&[".json", ".meta.json"]);
        assert_eq!(role("a.meta.json", &both), Role::Document { stem: "a" });
        assert_eq!(role("a.doc.gz", &extensions(&[".doc"])), Role::Other);
    }

    #[test]
    fn hidden_names_and_those_of_macos_are_not_documents() {
        let json = extensions(&[".json"]);
        for name in ["._a.json", "d/._a.json", "./._a.jpg", "__MACOSX/a.json", "d/__MACOSX/x", "._"]
        {
            assert_eq!(role(name, &json), Role::Foreign, "{name}");
        }
        for name in [".a.json", "d/.a.json", ".git/a.json", ".json", "./.ipynb_checkpoints/a.json"]
        {
            assert_eq!(role(name, &json), Role::Hidden, "{name}");
        }
    }

    #[test]
    fn longer_name_beside_a_document_is_one_only_with_its_content() {
        let names = [
            "a.stats.json",
            "./a.json",
            "a.b.c.json",
            "b.x.json",
            "d/a.x.json",
            "c.1.json",
            "c.JSON.gz",
            ".d.json",
        ];
        let members: Vec<Member> = names
            .iter()
            .map(|name| Member { name: (*name).to_owned(), header_offset: 0, offset: 512, size: 0 })
            .collect();
        let mut asked = Vec::new();
        let found = documents(&members, &extensions(&[".json"]), |member| {
            asked.push(member.name.clone());
            member.name.starts_with('c')
        });
        assert_eq!(asked, ["a.stats.json", "a.b.c.json", "c.1.json"]);
        assert_eq!(found, [1, 3, 4, 5, 6]);
    }
}
