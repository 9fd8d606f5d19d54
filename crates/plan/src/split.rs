//! Divides a list of files into splits, the units of work.

use crate::{Error, InputFile, Result};
use serde::{Deserialize, Serialize};

/// A unit of work: consecutive files that are read together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Split {
    pub index: usize,
    pub files: Vec<InputFile>,
    /// Its unit in a journal; `None` in a job without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<Unit>,
}

/// A split as a unit of a job's journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unit {
    pub name: String,
    /// Index of its segment of the plan.
    pub segment: usize,
    /// Files that were planned with it and are missing now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// An earlier segment has one of its files, in another version or while it was missing: its
    /// outputs then need different names.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_reread: bool,
    /// The record of an earlier run, whose outputs are replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<Replaced>,
}

/// Published outputs of a split that is run again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replaced {
    pub generation: u64,
    /// Names of its files.
    pub names: Vec<String>,
    /// Names that must not be used again.
    pub retired: Vec<String>,
    pub rows_out: u64,
    pub quarantined: u64,
    /// It has read exactly the current files.
    pub is_same_input: bool,
}

impl Split {
    #[must_use]
    pub fn new(index: usize, files: Vec<InputFile>) -> Self {
        Self { index, files, unit: None }
    }
}

/// How files are divided into splits.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Partitioning {
    /// This many consecutive files. One, if neither field is set.
    pub files_per_partition: Option<usize>,
    /// Files packed greedily by size up to this many bytes.
    pub blocksize_bytes: Option<u64>,
}

/// # Errors
/// [`Error::TwoPartitionings`] and [`Error::NotPositive`].
pub fn partition(mut files: Vec<InputFile>, by: &Partitioning) -> Result<Vec<Split>> {
    let groups: Vec<Vec<InputFile>> = match (by.files_per_partition, by.blocksize_bytes) {
        (Some(_), Some(_)) => return Err(Error::TwoPartitionings),
        (Some(0), None) => return Err(Error::NotPositive { option: "files_per_partition" }),
        (None, Some(0)) => return Err(Error::NotPositive { option: "blocksize" }),
        (None, Some(limit)) => {
            files.sort_by(|a, b| a.size.cmp(&b.size).then_with(|| a.path.cmp(&b.path)));
            pack(files, limit)
        }
        (count, None) => files.chunks(count.unwrap_or(1)).map(<[InputFile]>::to_vec).collect(),
    };
    Ok(groups.into_iter().enumerate().map(|(index, files)| Split::new(index, files)).collect())
}

fn pack(files: Vec<InputFile>, limit: u64) -> Vec<Vec<InputFile>> {
    let mut groups: Vec<Vec<InputFile>> = Vec::new();
    let mut filled = 0;
    for file in files {
        match groups.last_mut() {
            Some(group) if file.size.saturating_add(filled) <= limit => {
                filled += file.size;
                group.push(file);
            }
            _ => {
                filled = file.size;
                groups.push(vec![file]);
            }
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(sizes: &[u64]) -> Vec<InputFile> {
        sizes
            .iter()
            .enumerate()
            .map(|(i, size)| InputFile {
                path: format!("{i}"),
                size: *size,
                modified_ns: 0,
                part: None,
            })
            .collect()
    }

    fn shape(by: &Partitioning, sizes: &[u64]) -> Vec<Vec<u64>> {
        let splits = partition(files(sizes), by).unwrap();
        splits.into_iter().map(|split| split.files.iter().map(|file| file.size).collect()).collect()
    }

    #[test]
    fn default_is_one_file_a_split() {
        assert_eq!(shape(&Partitioning::default(), &[3, 1]), [[3], [1]]);
    }

    #[test]
    fn consecutive_files_are_grouped_in_order() {
        let by = Partitioning { files_per_partition: Some(2), blocksize_bytes: None };
        assert_eq!(shape(&by, &[3, 1, 2]), [vec![3, 1], vec![2]]);
    }

    #[test]
    fn blocks_are_packed_by_size_and_an_oversize_file_stands_alone() {
        let by = Partitioning { files_per_partition: None, blocksize_bytes: Some(4) };
        assert_eq!(shape(&by, &[9, 1, 2, 3]), [vec![1, 2], vec![3], vec![9]]);
    }

    #[test]
    fn both_partitionings_are_refused() {
        let by = Partitioning { files_per_partition: Some(1), blocksize_bytes: Some(1) };
        assert!(matches!(partition(files(&[1]), &by), Err(Error::TwoPartitionings)));
    }
}
