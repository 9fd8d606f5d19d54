//! Derives the sample of a member from its name.
//!
//! The rule of WebDataset is the pattern `^((?:.*/|)[^.]+)[.]([^/]*)$`, where `.*` stops at a
//! newline: the key, a dot, the extension.

/// Name of the first column.
pub const KEY: &str = "__key__";

/// Key and extension; `None` for a name that does not belong to a sample.
pub(super) fn split(name: &str) -> Option<(&str, &str)> {
    let last_component = name.rfind('/').map_or(0, |slash| slash + 1);
    let dot = last_component + name.get(last_component..)?.find('.')?;
    let (key, extension) = (name.get(..dot)?, name.get(dot + 1..)?);
    is_key(key).then_some((key, extension))
}

/// Whether `key` is an optional directory path followed by text without dots. The text may be a
/// directory itself: the key of `d/.hidden` is `d/`.
fn is_key(key: &str) -> bool {
    let Some(dot) = key.rfind('.') else { return !key.is_empty() };
    let behind_dot = key.get(dot..).unwrap_or_default();
    let Some(slash) = behind_dot.find('/') else { return false };
    let (directories, rest) = key.split_at(dot + slash + 1);
    !rest.is_empty() && !directories.contains('\n')
}

/// Whether the first component has the form `__…__`: members about the archive, such as an index.
pub(in crate::tar) fn is_meta(name: &str) -> bool {
    let first = name.split('/').next().unwrap_or_default();
    first.len() >= 4 && first.starts_with("__") && first.ends_with("__")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_ends_at_the_first_dot_of_the_last_component() {
        for (name, key, extension) in [
            ("a/b.seg.PNG", "a/b", "seg.PNG"),
            ("./000.jpg", "./000", "jpg"),
            ("a.b/c.txt", "a.b/c", "txt"),
            ("a.", "a", ""),
            ("a\nb.txt", "a\nb", "txt"),
            ("a\nb/c.txt", "a\nb/c", "txt"),
        ] {
            assert_eq!(split(name), Some((key, extension)), "{name:?}");
        }
    }

    #[test]
    fn hidden_file_in_a_directory_without_dots_has_the_directory_as_key() {
        assert_eq!(split("x/y/.hidden.txt"), Some(("x/y/", "hidden.txt")));
        assert_eq!(split("a.b/c/.h"), Some(("a.b/c/", "h")));
        assert_eq!(split("/.h"), Some(("/", "h")));
    }

    #[test]
    fn names_that_do_not_match_belong_to_no_sample() {
        for name in
            ["nodot", ".hidden", "", "a.b/c", "a.b/.hidden", "./.hidden", "..", "a.x\nb/c.txt"]
        {
            assert_eq!(split(name), None, "{name:?}");
        }
    }

    #[test]
    fn only_the_first_component_makes_a_member_meta() {
        for name in ["__meta__", "__index__/x.json", "____", "__a.b__"] {
            assert!(is_meta(name), "{name:?}");
        }
        for name in ["x/__meta__/q.json", "__meta", "_meta_", "___", "__key__.txt"] {
            assert!(!is_meta(name), "{name:?}");
        }
    }
}
