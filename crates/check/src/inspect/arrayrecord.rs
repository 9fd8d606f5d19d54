//! Summarizes an ArrayRecord file: its index, and its first records.

use super::first_text::{TEXT_LEN, cut};
use serde::Serialize;
use shardmill_formats::arrayrecord::ArrayRecordFile;

/// Number of bytes shown of a record that is not text.
const SHOWN_BYTES: usize = 32;

/// Summary of an ArrayRecord file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ArrayRecordSummary {
    pub records: u64,
    pub chunks: u64,
    /// Records of the first chunk, and so of all but the last chunk.
    pub group_size: u64,
    /// Codec of the first chunk.
    pub codec: Option<String>,
    pub is_transposed: bool,
    /// Missing in files older than October 2022.
    pub writer_options: Option<String>,
    /// Size of the whole file.
    pub stored_bytes: u64,
    pub decoded_bytes: u64,
    /// Of the measured records.
    pub shortest: u64,
    pub longest: u64,
    /// All records, if the index states their lengths; otherwise those of the first chunks.
    pub measured: u64,
    pub first: Vec<FirstRecord>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FirstRecord {
    pub bytes: u64,
    /// The first characters, if the record is UTF-8.
    pub text: Option<String>,
    /// Otherwise the first bytes.
    pub hex: Option<String>,
}

impl ArrayRecordSummary {
    pub(super) fn of(file: &ArrayRecordFile) -> Self {
        let mut summary = Self {
            records: file.num_records(),
            chunks: file.num_chunks() as u64,
            group_size: if file.num_chunks() == 0 { 0 } else { file.records_of(0).end },
            writer_options: file.writer_options().map(str::to_owned),
            stored_bytes: file.size(),
            decoded_bytes: file.decoded_size(),
            ..Self::default()
        };
        if file.is_single() {
            (0..file.num_chunks())
                .filter_map(|chunk| file.length_of_single(chunk))
                .for_each(|len| summary.measure(len as u64));
        }
        summary
    }

    fn measure(&mut self, len: u64) {
        self.shortest = if self.measured == 0 { len } else { self.shortest.min(len) };
        self.longest = self.longest.max(len);
        self.measured += 1;
    }

    /// A record in the order of the file, of which the first ones are shown.
    pub(super) fn add(&mut self, record: &[u8], shown: usize) {
        if self.measured < self.records {
            self.measure(record.len() as u64);
        }
        if self.first.len() < shown {
            self.first.push(FirstRecord::of(record));
        }
    }
}

impl FirstRecord {
    fn of(record: &[u8]) -> Self {
        let is_text = |text: &&str| {
            text.chars().take(TEXT_LEN).all(|mark| !mark.is_control() || mark.is_whitespace())
        };
        let text = std::str::from_utf8(record).ok().filter(is_text).map(cut);
        let shown = record.iter().take(SHOWN_BYTES);
        let hex = text.is_none().then(|| shown.map(|byte| format!("{byte:02x}")).collect());
        Self { bytes: record.len() as u64, text, hex }
    }
}
