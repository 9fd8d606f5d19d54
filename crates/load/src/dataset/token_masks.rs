//! Masks of tokens in files of their own, which the user names.

use super::found::find_files;
use super::{Format, MdsShards};
use crate::{Error, Result};
use shardmill_plan::DataFile;
use std::collections::{HashMap, HashSet};

/// The mask of each `.npy` file at or below `paths`, by its path.
///
/// # Errors
/// As for a data set of these files with these masks.
pub fn label_masks(paths: &[String], masks: &[String]) -> Result<HashMap<String, String>> {
    masks_of(&find_files(paths, Some(Format::Npy), &mut MdsShards::default())?.files, masks)
}

/// The mask of each of `files`: that at the same place among the files below `masks`.
///
/// # Errors
/// When there are more of one than of the other, and for a file that would have two masks.
pub(super) fn masks_of(files: &[DataFile], masks: &[String]) -> Result<HashMap<String, String>> {
    if masks.is_empty() {
        return Ok(HashMap::new());
    }
    let masks = find_files(masks, Some(Format::Npy), &mut MdsShards::default())?.files;
    let pairs = files.iter().zip(&masks).map(|(file, mask)| (file.path.clone(), mask.path.clone()));
    let pairs: HashSet<(String, String)> = pairs.collect();
    let distinct = pairs.len();
    let found: HashMap<String, String> = pairs.into_iter().collect();
    let (masks, files) = if masks.len() == files.len() {
        (distinct, found.len())
    } else {
        (masks.len(), files.len())
    };
    if masks == files { Ok(found) } else { Err(Error::LabelMasks { masks, files }) }
}
