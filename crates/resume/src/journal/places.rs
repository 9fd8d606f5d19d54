//! Locations of a job: records and plans name files relative to a few roots, so that a checkpoint
//! that was moved or copied never refers to the original.
//!
//! The invariant: an absolute path is stored once, as a root in `checkpoint.json`. Outputs and ids
//! are stored by name, inputs as `@<root>/<rest>`.

use super::layout::ids_directory;
use serde::{Deserialize, Serialize};
use shardmill_plan::InputFile;

/// The current roots of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Places {
    /// The directory of the job within the checkpoint.
    pub root: String,
    pub output: String,
    /// In the order of the job's creation.
    pub inputs: Vec<String>,
    /// The inputs when the job was created, in the same order.
    pub first_inputs: Vec<String>,
}

/// In a list of retired names, ids have this prefix.
const IDS: &str = "ids/";

impl Places {
    pub(crate) fn output(&self, name: &str) -> String {
        format!("{}/{name}", self.output)
    }

    pub(crate) fn ids(&self, name: &str) -> String {
        format!("{}/{name}", ids_directory(&self.root))
    }

    /// The path of a name from a list of retired names.
    pub(crate) fn retired(&self, name: &str) -> String {
        name.strip_prefix(IDS).map_or_else(|| self.output(name), |name| self.ids(name))
    }

    /// The directory of the checkpoint.
    pub(crate) fn state(&self) -> &str {
        state_of(&self.root)
    }

    /// The stored form of a path below an input root; other paths stay unchanged.
    pub(crate) fn stored(&self, path: &str) -> String {
        let below = |(number, root): (usize, &String)| {
            let directory = fixed_part(root);
            let rest = path.strip_prefix(directory)?;
            (rest.is_empty() || rest.starts_with('/'))
                .then(|| (directory.len(), format!("@{number}{rest}")))
        };
        self.inputs
            .iter()
            .enumerate()
            .filter_map(below)
            .max()
            .map_or_else(|| path.to_owned(), |(_, stored)| stored)
    }

    /// The inverse of [`Places::stored`], with the current roots.
    pub(crate) fn found(&self, stored: &str) -> String {
        below(&self.inputs, stored).unwrap_or_else(|| stored.to_owned())
    }

    /// The path that an input had when the job was created, with the part of the file or the number
    /// of the batch that may follow it. Names of outputs are derived from it.
    pub(crate) fn first(&self, source: &str) -> String {
        if let Some(first) = below(&self.first_inputs, &self.stored(source)) {
            return first;
        }
        // The input may be the file itself.
        let of_file = |(root, first): (&String, &String)| {
            let rest = source.strip_prefix(without_slash(root))?;
            (rest.starts_with('#') || rest.starts_with("::"))
                .then(|| format!("{}{rest}", without_slash(first)))
        };
        self.inputs
            .iter()
            .zip(&self.first_inputs)
            .find_map(of_file)
            .unwrap_or_else(|| source.to_owned())
    }

    pub(crate) fn store_files(&self, files: &mut [InputFile]) {
        files.iter_mut().for_each(|file| file.path = self.stored(&file.path));
    }

    pub(crate) fn find_files(&self, files: &mut [InputFile]) {
        files.iter_mut().for_each(|file| file.path = self.found(&file.path));
    }
}

pub(crate) fn retired_ids(name: &str) -> String {
    format!("{IDS}{name}")
}

pub(crate) fn state_of(root: &str) -> &str {
    root.rsplit_once('/').map_or(root, |(state, _job)| state)
}

/// The path below one of `roots` that `stored` names.
fn below(roots: &[String], stored: &str) -> Option<String> {
    let rest = stored.strip_prefix('@')?;
    let (number, rest) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    Some(format!("{}{rest}", fixed_part(roots.get(number.parse::<usize>().ok()?)?)))
}

/// The part of a root before any pattern. A root that ends with a slash has none, whatever
/// characters are in it.
fn fixed_part(root: &str) -> &str {
    if let Some(path) = root.strip_suffix('/') {
        return path;
    }
    match root.find(['*', '?', '[']) {
        Some(star) => root
            .get(..star)
            .and_then(|fixed| fixed.rsplit_once('/'))
            .map_or("", |(directory, _)| directory),
        None => root,
    }
}

fn without_slash(root: &str) -> &str {
    root.strip_suffix('/').unwrap_or(root)
}

/// The location of `path` after the tree around `from` was moved to `to`; `None` if it is in
/// another tree.
pub(crate) fn moved(path: &str, from: &str, to: &str) -> Option<String> {
    let (path, from, to): (Vec<&str>, Vec<&str>, Vec<&str>) =
        (path.split('/').collect(), from.split('/').collect(), to.split('/').collect());
    let shared = path.iter().zip(&from).take_while(|(a, b)| a == b).count();
    let up = from.len() - shared;
    // The root directory, or the bucket of a store, is not a tree that can move.
    let is_tree =
        shared > 1 && !(path.first().is_some_and(|scheme| scheme.ends_with(':')) && shared < 3);
    let base = to.get(..to.len().checked_sub(up)?).filter(|base| is_tree && !base.is_empty())?;
    Some([base, path.get(shared..)?].concat().join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(inputs: &[&str]) -> Places {
        let inputs: Vec<String> = inputs.iter().map(|root| (*root).to_owned()).collect();
        Places {
            root: "/s/job".to_owned(),
            output: "/o".to_owned(),
            first_inputs: inputs.clone(),
            inputs,
        }
    }

    #[test]
    fn moved_input_keeps_the_name_that_it_had_at_first() {
        let moved = Places {
            first_inputs: vec!["/a/in".to_owned(), "/b/*.tar".to_owned()],
            ..places(&["/new/in", "/c/*.tar"])
        };
        assert_eq!(
            [moved.first("/new/in/x.tar"), moved.first("/c/y.tar"), moved.first("/z.tar")],
            ["/a/in/x.tar", "/b/y.tar", "/z.tar"]
        );
    }

    #[test]
    fn part_of_an_input_that_is_a_file_keeps_the_name_that_it_had_at_first() {
        let moved = Places {
            first_inputs: vec!["/a/big.parquet".to_owned()],
            ..places(&["/new/big.parquet"])
        };
        for rest in ["", "#0-2", "::split_00001"] {
            assert_eq!(
                moved.first(&format!("/new/big.parquet{rest}")),
                format!("/a/big.parquet{rest}")
            );
        }
        assert_eq!(moved.first("/new/big.parquet.old"), "/new/big.parquet.old");
    }

    #[test]
    fn root_with_a_slash_at_its_end_is_no_pattern() {
        let (old, new) = (places(&["/a/in[1]/"]), places(&["/b/in"]));
        for (roots, path) in [(&old, "/a/in[1]/x"), (&new, "/b/in/x")] {
            assert_eq!(roots.stored(path), "@0/x");
            assert_eq!(roots.found("@0/x"), path);
        }
        assert_eq!(Places { first_inputs: old.inputs, ..new }.first("/b/in/x"), "/a/in[1]/x");
        let file = Places {
            first_inputs: vec!["/a/big[1].parquet/".to_owned()],
            ..places(&["/b/big?.parquet/"])
        };
        assert_eq!(file.first("/b/big?.parquet#0-2"), "/a/big[1].parquet#0-2");
    }

    #[test]
    fn stored_path_is_found_below_the_roots_of_now() {
        let (old, new) = (
            places(&["/a", "/a/b", "/c/*.tar", "/d/one.tar"]),
            places(&["/A", "/elsewhere", "s3://bucket/C/*.tar", "/D/two.tar"]),
        );
        for (path, stored, moved) in [
            ("/a/x", "@0/x", "/A/x"),
            ("/a/b/y/z", "@1/y/z", "/elsewhere/y/z"),
            ("/c/1.tar", "@2/1.tar", "s3://bucket/C/1.tar"),
            ("/d/one.tar", "@3", "/D/two.tar"),
            ("/ab/x", "/ab/x", "/ab/x"),
        ] {
            assert_eq!(old.stored(path), stored);
            assert_eq!(old.found(stored), path);
            assert_eq!(new.found(stored), moved);
        }
    }

    #[test]
    fn tree_that_moves_takes_along_what_lies_beside_the_checkpoint() {
        assert_eq!(
            moved("/w/job/in", "/w/job/state", "/mnt/copy/state").as_deref(),
            Some("/mnt/copy/in")
        );
        assert_eq!(
            moved("/w/job/in/*.tar", "/w/job/s/deep", "/x/s/deep").as_deref(),
            Some("/x/in/*.tar")
        );
        assert_eq!(
            moved("s3://bucket/a/in", "s3://bucket/a/state", "s3://bucket/b/state").as_deref(),
            Some("s3://bucket/b/in")
        );
        assert_eq!(moved("s3://bucket/in", "s3://other/state", "s3://third/state"), None);
        assert_eq!(moved("/data/in", "/home/state", "/else/state"), None);
    }
}
