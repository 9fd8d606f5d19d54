//! What is written down, and how damage to it shows.
//!
//! Every object of the journal is lines of JSON, each followed by the xxHash of its bytes: so a person can read it, and a cut or changed line is known.

use super::places::{Places, retired_ids};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use shardmill_plan::{InputFile, Replaced, Split};
use std::collections::BTreeMap;
use xxhash_rust::xxh3::xxh3_64;

/// A file that a split made. Names are those in the output directory, or, of ids, in the directory of ids.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputRecord {
    /// The hidden name that it has until the record exists.
    pub sealed: String,
    /// The name that it gets then.
    pub name: String,
    pub bytes: u64,
    pub rows: u64,
    /// xxHash3 of its content, in hexadecimal digits; empty when nobody computed it.
    pub xxh3: String,
}

/// One committed split: the only proof that its rows are done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitRecord {
    pub unit: String,
    pub attempt: String,
    pub epoch: u64,
    /// Counts the records of a unit: each later one replaces those before it, with their outputs.
    pub generation: u64,
    /// Files of the split that were not there: should they come back, they are new.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    pub outputs: Vec<OutputRecord>,
    /// The ids of all rows that were processed, also of those that no output holds.
    pub ids: Option<OutputRecord>,
    pub rows_in: u64,
    /// Not processed, because their ids were done before.
    pub rows_done: u64,
    pub rows_out: u64,
    /// Samples and files that were left out and reported. Such a split stays open, although its good rows are published.
    pub quarantined: u64,
    /// What an open split has read: whether its files are others now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<InputFile>,
    /// Files of it were lost, so it is run again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_reopened: bool,
    /// Names that files of earlier records had. They are removed, and no file gets such a name again: so whoever removes one late does no harm.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub retired: Vec<String>,
}

impl UnitRecord {
    /// Whether the split is run again, and its outputs replaced.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.is_reopened || self.quarantined > 0
    }

    /// Everything that gets its name when the record exists, with its hidden path and its path.
    pub fn files<'a>(&'a self, places: &'a Places) -> impl Iterator<Item = (&'a OutputRecord, String, String)> {
        let outputs = self.outputs.iter().map(|file| (file, places.output(&file.sealed), places.output(&file.name)));
        outputs.chain(self.ids.iter().map(|file| (file, places.ids(&file.sealed), places.ids(&file.name))))
    }

    /// Stands for a record that is gone: the unit is run again.
    pub(crate) fn lost(unit: &str, epoch: u64) -> Self {
        Self {
            unit: unit.to_owned(),
            attempt: String::new(),
            epoch,
            generation: 0,
            missing: Vec::new(),
            outputs: Vec::new(),
            ids: None,
            rows_in: 0,
            rows_done: 0,
            rows_out: 0,
            quarantined: 0,
            read: Vec::new(),
            is_reopened: true,
            retired: Vec::new(),
        }
    }

    /// What a later record of the unit has to know.
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

/// The records of several terms: of each unit, the last.
pub(crate) fn add_records(to: &mut BTreeMap<String, UnitRecord>, records: impl IntoIterator<Item = UnitRecord>) {
    for record in records {
        if to.get(&record.unit).is_none_or(|known| known.generation <= record.generation) {
            to.insert(record.unit.clone(), record);
        }
    }
}

/// The name of a unit: it follows from what the split reads.
pub(crate) fn unit_of(split: &Split) -> String {
    let mut digest = Sha256::new();
    for file in &split.files {
        // Lengths keep names apart that are prefixes of one another.
        let text = serde_json::to_string(file).unwrap_or_else(|_| file.path.clone());
        digest.update((text.len() as u64).to_le_bytes());
        digest.update(text);
    }
    digest.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// `value` as a line with its hash.
pub(crate) fn to_lines<T: Serialize>(values: impl IntoIterator<Item = T>) -> serde_json::Result<Vec<u8>> {
    let mut text = Vec::new();
    for value in values {
        let line = serde_json::to_vec(&value)?;
        let hash = format!("\n{:016x}\n", xxh3_64(&line));
        text.extend_from_slice(&line);
        text.extend_from_slice(hash.as_bytes());
    }
    // A file that was cut between two values is told by its missing end.
    text.extend_from_slice(END);
    Ok(text)
}

const END: &[u8] = b"end\n";

/// The values of an object, or `None` when it is damaged.
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

/// The only value of an object, or `None` when it is damaged.
pub(crate) fn from_line<T: DeserializeOwned>(text: &[u8]) -> Option<T> {
    let mut values = from_lines(text)?;
    let value = values.pop()?;
    values.is_empty().then_some(value)
}
