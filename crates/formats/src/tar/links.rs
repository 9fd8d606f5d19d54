//! Finds the files that links point to.
//!
//! Both readers note each entry of an archive here, in order. A hard link points to an earlier
//! entry, as in `tar`; a symbolic link may point to a later one, so its file is known only
//! at the end. Invariant: a link gives access to a file of the archive or to nothing, never
//! to a path outside.

use std::collections::HashMap;

use xxhash_rust::xxh3::xxh3_128;

use super::{Entry, Link, normal};

/// A longer chain of links counts as a loop, as in Linux.
const MAX_STEPS: usize = 40;

/// The names of an archive.
#[derive(Debug, Default)]
pub struct Links {
    /// By the hash of the normal name, since archives have many.
    places: HashMap<u128, Target>,
}

/// Where a name leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    File {
        offset: u64,
        size: u64,
    },
    /// A path from the root of the archive.
    Path(String),
    Directory,
    Nowhere(LinkFault),
}

/// Why a link does not point to a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LinkFault {
    #[error("it is a hard link to `{target}`, which is not an earlier member of the archive")]
    NotEarlier { target: String },
    #[error("it is a symbolic link to `{target}`, which is not a member of the archive")]
    NoMember { target: String },
    #[error("it is a symbolic link to `{target}`, which is outside of the archive")]
    Outside { target: String },
    #[error("it is a symbolic link to `{target}`, which leads back to itself")]
    Loop { target: String },
}

impl LinkFault {
    pub const HINT: &'static str = "write the archive again with the files in place \
        of links: `tar --dereference --hard-dereference`";
}

/// Memory for a name, in addition to the map.
const NAME_BYTES: u64 = 64;

impl Links {
    /// Notes an entry, and returns what it points to. `None` for a link to its own name, which
    /// `tar` writes if it is told to store a file twice.
    pub fn note(&mut self, entry: &Entry) -> Option<Target> {
        let target = match entry {
            Entry::File(member) => Target::File { offset: member.offset, size: member.size },
            Entry::Directory(_) => Target::Directory,
            Entry::Link(link) => self.target_of(link)?,
        };
        self.places.insert(place(entry.name()), target.clone());
        Some(target)
    }

    /// Approximate memory of the names.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.places.len() as u64 * NAME_BYTES
    }

    fn target_of(&self, link: &Link) -> Option<Target> {
        let target = link.target.clone();
        if link.is_symbolic {
            let directory =
                link.member.name.rsplit_once('/').map_or("", |(directory, _)| directory);
            return Some(
                joined(directory, &target)
                    .map_or(Target::Nowhere(LinkFault::Outside { target }), Target::Path),
            );
        }
        match self.places.get(&place(&target)) {
            Some(_) if normal(&target) == normal(&link.member.name) => None,
            Some(earlier) => Some(earlier.clone()),
            None => Some(Target::Nowhere(LinkFault::NotEarlier { target })),
        }
    }

    /// Offset and size of the file that `target` points to, after all entries were noted; `None` if
    /// it is a directory.
    ///
    /// # Errors
    /// [`LinkFault`], if there is no such file in the archive.
    pub fn file(&self, target: &Target) -> Result<Option<(u64, u64)>, LinkFault> {
        let (mut at, mut stated) = (target.clone(), String::new());
        for _ in 0..MAX_STEPS {
            let path = match at {
                Target::File { offset, size } => return Ok(Some((offset, size))),
                Target::Directory => return Ok(None),
                Target::Nowhere(fault) => return Err(fault),
                Target::Path(path) => path,
            };
            at = self.next(&path).ok_or_else(|| LinkFault::NoMember { target: path.clone() })?;
            stated = path;
        }
        Err(LinkFault::Loop { target: stated })
    }

    /// Where a path leads in one step: by its own name, or by that of a directory that is a link.
    fn next(&self, path: &str) -> Option<Target> {
        if path.is_empty() {
            return Some(Target::Directory);
        }
        if let Some(target) = self.places.get(&place(path)) {
            return Some(target.clone());
        }
        path.match_indices('/').take(MAX_STEPS).find_map(|(slash, _)| {
            let (directory, rest) = path.split_at(slash);
            match self.places.get(&place(directory)) {
                Some(Target::Path(target)) => {
                    joined(target, rest.trim_start_matches('/')).map(Target::Path)
                }
                _ => None,
            }
        })
    }
}

fn place(name: &str) -> u128 {
    xxh3_128(normal(name.trim_end_matches('/')).as_bytes())
}

/// The path of `target`, which is relative to `directory`, from the root of the archive; `None` if
/// it leaves the archive.
fn joined(directory: &str, target: &str) -> Option<String> {
    if target.starts_with('/') {
        return None;
    }
    let root = if directory.starts_with('/') { "/" } else { "" };
    let mut steps = Vec::new();
    for step in directory.split('/').chain(target.split('/')) {
        match step {
            "" | "." => {}
            ".." => {
                steps.pop()?;
            }
            step => steps.push(step),
        }
    }
    Some(format!("{root}{}", steps.join("/")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tar::Member;

    fn member(name: &str, offset: u64) -> Member {
        Member { name: name.to_owned(), header_offset: offset, offset: offset + 512, size: 1 }
    }

    fn link(name: &str, target: &str, is_symbolic: bool) -> Entry {
        let member = Member { size: 0, ..member(name, 9000) };
        Entry::Link(Link { member, target: target.to_owned(), is_symbolic })
    }

    #[test]
    fn path_that_leaves_the_archive_has_no_name() {
        for (directory, target, path) in [
            ("", "x", Some("x")),
            ("a/b", "../x", Some("a/x")),
            ("./a", ".././x", Some("x")),
            ("a", "../../x", None),
            ("a", "/x", None),
            ("/data", "x", Some("/data/x")),
        ] {
            assert_eq!(joined(directory, target).as_deref(), path, "{directory} {target}");
        }
    }

    #[test]
    fn hard_link_takes_the_last_earlier_file_and_symbolic_links_wait() {
        let mut links = Links::default();
        let found = |links: &Links, target: Option<Target>| links.file(&target.unwrap());
        let soon = links.note(&link("d/soon", "../x", true));
        assert!(matches!(
            links.note(&link("early", "x", false)),
            Some(Target::Nowhere(LinkFault::NotEarlier { .. }))
        ));
        links.note(&Entry::File(member("./x", 0)));
        assert_eq!(links.note(&link("x", "./x", false)), None);
        let hard = links.note(&link("hard", "x", false));
        links.note(&Entry::File(member("x", 5000)));
        assert_eq!(found(&links, hard), Ok(Some((512, 1))));
        assert_eq!(found(&links, soon), Ok(Some((5512, 1))));
        links.note(&Entry::Directory("e/".to_owned()));
        links.note(&Entry::File(member("e/y", 7000)));
        let to_directory = links.note(&link("d2", "e", true));
        assert_eq!(found(&links, to_directory), Ok(None));
        let through = links.note(&link("z", "d2/y", true));
        assert_eq!(found(&links, through), Ok(Some((7512, 1))));
        let turns = links.note(&link("l1", "l2", true));
        links.note(&link("l2", "l1", true));
        assert!(matches!(found(&links, turns), Err(LinkFault::Loop { .. })));
        let lost = links.note(&link("lost", "nothing", true));
        assert!(matches!(found(&links, lost), Err(LinkFault::NoMember { .. })));
    }
}
