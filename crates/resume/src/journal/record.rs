//! The stored form of records, which shows damage.
//!
//! Every object of the journal consists of lines of JSON, each followed by the xxHash of its bytes:
//! it is readable, and a truncated or changed line is detected.

use super::places::{Places, retired_ids};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use shardmill_plan::{InputFile, Replaced, Split};
use std::collections::BTreeMap;
use xxhash_rust::xxh3::xxh3_64;

/// A file created by a split. Names are relative to the output directory, or, for ids, to the
/// directory of ids.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputRecord {
    /// The hidden name that it has until the record exists.
    pub sealed: String,
    /// Its final name.
    pub name: String,
    pub bytes: u64,
    pub rows: u64,
    /// xxHash3 of its content, in hexadecimal digits; empty if it was not computed.
    pub xxh3: String,
}

/// One committed split: the only proof that its rows are done.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitRecord {
    pub unit: String,
    pub attempt: String,
    pub epoch: u64,
    /// Counts the records of a unit: each record replaces the earlier ones, with their outputs.
    pub generation: u64,
    /// Files of the split that were missing: if they reappear, they are new.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    pub outputs: Vec<OutputRecord>,
    /// The ids of all processed rows, including those that are in no output.
    pub ids: Option<OutputRecord>,
    pub rows_in: u64,
    /// Skipped, because their ids were already done.
    pub rows_done: u64,
    pub rows_out: u64,
    /// Samples and files that were skipped and reported. Such a split stays open, although its good
    /// rows are published.
    pub quarantined: u64,
    /// The files read by an open split, to detect whether they have changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<InputFile>,
    /// Some of its files were lost, so it is run again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_reopened: bool,
    /// Names of files of earlier records. They are removed and never used again, so removing one
    /// late does no harm.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub retired: Vec<String>,
}

impl UnitRecord {
    /// Whether the split is run again, and its outputs replaced.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.is_reopened || self.quarantined > 0
    }

    /// All files that get their name once the record exists, with hidden path and final path.
    pub fn files<'a>(
        &'a self,
        places: &'a Places,
    ) -> impl Iterator<Item = (&'a OutputRecord, String, String)> {
        let outputs = self
            .outputs
            .iter()
            .map(|file| (file, places.output(&file.sealed), places.output(&file.name)));
        outputs.chain(
            self.ids.iter().map(|file| (file, places.ids(&file.sealed), places.ids(&file.name))),
        )
    }

    /// Replaces a lost record: the unit is run again.
    pub(crate) fn lost(unit: &str, epoch: u64) -> Self {
        Self { unit: unit.to_owned(), epoch, is_reopened: true, ..Self::default() }
    }

    /// Information for a later record of the unit.
    pub(crate) fn replaced_by(&self, files: &[InputFile]) -> Replaced {
        let names = self.outputs.iter().map(|file| file.name.clone());
        Replaced {
            generation: self.generation,
            names: names.chain(self.ids.iter().map(|ids| retired_ids(&ids.name))).collect(),
            retired: self.retired.clone(),
            rows_out: self.rows_out,
            quarantined: self.quarantined,
            is_same_input: !self.is_reopened && self.read == files,
        }
    }
}

/// Merges the records of several terms: the last one of each unit counts.
pub(crate) fn add_records(
    to: &mut BTreeMap<String, UnitRecord>,
    records: impl IntoIterator<Item = UnitRecord>,
) {
    for record in records {
        if to.get(&record.unit).is_none_or(|known| known.generation <= record.generation) {
            to.insert(record.unit.clone(), record);
        }
    }
}

/// The name of a unit, which follows from what the split reads.
pub(crate) fn unit_of(split: &Split) -> String {
    let mut digest = Sha256::new();
    for file in &split.files {
        // Lengths distinguish names that are prefixes of one another.
        let text = serde_json::to_string(file).unwrap_or_else(|_| file.path.clone());
        digest.update((text.len() as u64).to_le_bytes());
        digest.update(text);
    }
    digest.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// `value` as a line with its hash.
pub(crate) fn to_lines<T: Serialize>(
    values: impl IntoIterator<Item = T>,
) -> serde_json::Result<Vec<u8>> {
    let mut text = Vec::new();
    for value in values {
        let line = serde_json::to_vec(&value)?;
        let hash = format!("\n{:016x}\n", xxh3_64(&line));
        text.extend_from_slice(&line);
        text.extend_from_slice(hash.as_bytes());
    }
    // A file truncated between two values is detected by its missing end.
    text.extend_from_slice(END);
    Ok(text)
}

const END: &[u8] = b"end\n";

/// Whether an object has its end. Stores give no other way to notice an answer that was cut short.
pub(crate) fn has_end(text: &[u8]) -> bool {
    text.ends_with(END)
}

/// The values of an object, or `None` if it is damaged.
pub(crate) fn from_lines<T: DeserializeOwned>(text: &[u8]) -> Option<Vec<T>> {
    let mut lines = text.strip_suffix(END)?.split(|byte| *byte == b'\n');
    let mut values = Vec::new();
    loop {
        let line = lines.next()?;
        if line.is_empty() {
            return lines.next().is_none().then_some(values);
        }
        let hash = lines.next()?;
        if format!("{:016x}", xxh3_64(line)).as_bytes() != hash {
            return None;
        }
        values.push(serde_json::from_slice(line).ok()?);
    }
}

/// The only value of an object, or `None` if it is damaged.
pub(crate) fn from_line<T: DeserializeOwned>(text: &[u8]) -> Option<T> {
    let mut values = from_lines(text)?;
    let value = values.pop()?;
    values.is_empty().then_some(value)
}
