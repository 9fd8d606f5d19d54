//! `hf://datasets/OWNER/NAME@REVISION/a/b`: a data set of the Hub, a revision of it, and a file.

/// A revision of a data set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct Address {
    /// `OWNER/NAME`.
    pub(super) dataset: String,
    /// A branch, a tag, or a commit.
    pub(super) revision: String,
}

const KIND: &str = "datasets";
const EXAMPLE: &str = "a data set of the Hub looks like hf://datasets/OWNER/NAME/directory/file, \
    or hf://datasets/OWNER/NAME@REVISION/directory/file";

/// Prefixes of references whose names contain slashes.
const REFERENCES: [&str; 2] = ["refs/convert/", "refs/pr/"];

impl Address {
    /// Parses the part of a path after `hf://`; returns the end of its root, and the revision that
    /// the root names.
    ///
    /// # Errors
    /// Why the path is not valid.
    pub(in super::super) fn parse(rest: &str) -> Result<(usize, Self), String> {
        let (kind, named) = rest.split_once('/').unwrap_or((rest, ""));
        if kind != KIND {
            return Err(format!("only data sets of the Hub are served; {EXAMPLE}"));
        }
        let (owner, rest_of_name) = named.split_once('/').unwrap_or((named, ""));
        let name_len = rest_of_name.find(['/', '@']).unwrap_or(rest_of_name.len());
        let (name, behind) = rest_of_name.split_at_checked(name_len).unwrap_or_default();
        if owner.is_empty() || name.is_empty() || owner.contains('@') {
            return Err(EXAMPLE.to_owned());
        }
        let revision_len =
            behind.strip_prefix('@').map_or(0, |revision| 1 + revision_len(revision));
        let written = behind.get(1..revision_len).unwrap_or_default();
        if revision_len == 1 {
            return Err(format!("the path names no revision after the @; {EXAMPLE}"));
        }
        let decoded = written.replace("%2F", "/").replace("%2f", "/");
        let revision = if decoded.is_empty() { "main".to_owned() } else { decoded };
        let len = KIND.len() + 1 + owner.len() + 1 + name_len + revision_len;
        Ok((len, Self { dataset: format!("{owner}/{name}"), revision }))
    }

    /// Whether the revision is a commit, which never moves.
    pub(super) fn is_commit(&self) -> bool {
        self.revision.len() == 40 && self.revision.bytes().all(|byte| byte.is_ascii_hexdigit())
    }
}

fn revision_len(text: &str) -> usize {
    let reference = REFERENCES
        .iter()
        .find(|reference| text.starts_with(**reference))
        .map_or(0, |reference| reference.len());
    let rest = text.get(reference..).unwrap_or_default();
    reference + rest.find('/').unwrap_or(rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(rest: &str) -> (String, String, String) {
        let (len, address) = Address::parse(rest).unwrap();
        (address.dataset, address.revision, rest[len..].to_owned())
    }

    #[test]
    fn path_is_a_data_set_a_revision_and_a_key() {
        let three = |a: &str, b: &str, c: &str| (a.to_owned(), b.to_owned(), c.to_owned());
        assert_eq!(parsed("datasets/o/n"), three("o/n", "main", ""));
        assert_eq!(parsed("datasets/o/n/a/b@c.parquet"), three("o/n", "main", "/a/b@c.parquet"));
        assert_eq!(parsed("datasets/o/n@v1.0/a"), three("o/n", "v1.0", "/a"));
        assert_eq!(
            parsed("datasets/o/n@refs/convert/parquet/a"),
            three("o/n", "refs/convert/parquet", "/a")
        );
        assert_eq!(parsed("datasets/o/n@refs%2Fpr%2F1/a"), three("o/n", "refs/pr/1", "/a"));
    }

    #[test]
    fn path_without_a_data_set_is_refused_with_an_example() {
        for rest in [
            "",
            "datasets",
            "datasets/o",
            "datasets/o/",
            "datasets//n",
            "owner/model/x",
            "spaces/o/n",
            "datasets/o/n@/x",
        ] {
            assert!(
                Address::parse(rest).unwrap_err().contains("hf://datasets/OWNER/NAME"),
                "{rest}"
            );
        }
    }
}
