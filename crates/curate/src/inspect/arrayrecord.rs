//! Looks into one ArrayRecord file: its index, and its first chunks.

use super::summary::Inspection;
use super::{InspectOptions, cut};
use crate::Result;
use crate::error::reason;
use serde::Serialize;
use shardmill_engine::Cancel;
use shardmill_formats::arrayrecord::{ArrayRecordFile, ChunkKind, ChunkWalk, Scratch, Verify};
use shardmill_storage::RangeRead;
use std::sync::Arc;

/// Of a record that is no text, so many bytes are told.
const SHOWN_BYTES: usize = 32;

/// What is in one ArrayRecord file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ArrayRecordSummary {
    pub records: u64,
    pub chunks: u64,
    /// Records of the first chunk, and so of all but the last.
    pub group_size: u64,
    /// Of the first chunk.
    pub codec: Option<String>,
    pub is_transposed: bool,
    /// Absent from files older than October 2022.
    pub writer_options: Option<String>,
    /// Of the whole file.
    pub stored_bytes: u64,
    pub decoded_bytes: u64,
    /// Of the records that were measured.
    pub shortest: u64,
    pub longest: u64,
    /// All, where the index tells their lengths; else those of the first chunks.
    pub measured: u64,
    pub first: Vec<FirstRecord>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FirstRecord {
    pub bytes: u64,
    /// The first characters, where the record is UTF-8.
    pub text: Option<String>,
    /// Else the first bytes.
    pub hex: Option<String>,
}

pub(super) fn inspect_arrayrecord(object: Arc<dyn RangeRead>, options: &InspectOptions, cancel: &Cancel, inspection: &mut Inspection) -> Result<()> {
    let file = match ArrayRecordFile::open(Arc::clone(&object), Verify::Full) {
        Ok(file) => file,
        Err(error) => {
            inspection.damaged(reason(&error));
            return Ok(());
        }
    };
    inspection.samples = file.num_records();
    inspection.rows.other = file.num_records();
    inspection.bytes_by_modality.other = file.decoded_size();
    let mut summary = ArrayRecordSummary {
        records: file.num_records(),
        chunks: file.num_chunks() as u64,
        group_size: if file.num_chunks() == 0 { 0 } else { file.records_of(0).end },
        codec: None,
        is_transposed: false,
        writer_options: file.writer_options().map(str::to_owned),
        stored_bytes: file.size(),
        decoded_bytes: file.decoded_size(),
        shortest: u64::MAX,
        longest: 0,
        measured: 0,
        first: Vec::new(),
    };
    describe_codec(&file, object, inspection, &mut summary);
    if file.is_single() {
        for chunk in 0..file.num_chunks() {
            if let Some(len) = file.length_of_single(chunk) {
                summary.measure(len as u64);
            }
        }
    }
    read_first(&file, options, cancel, inspection, &mut summary)?;
    if summary.measured == 0 {
        summary.shortest = 0;
    }
    inspection.arrayrecord = Some(summary);
    Ok(())
}

impl ArrayRecordSummary {
    fn measure(&mut self, len: u64) {
        self.measured += 1;
        self.shortest = self.shortest.min(len);
        self.longest = self.longest.max(len);
    }
}

fn describe_codec(file: &ArrayRecordFile, object: Arc<dyn RangeRead>, inspection: &mut Inspection, summary: &mut ArrayRecordSummary) {
    if file.num_chunks() == 0 {
        return;
    }
    let walked = file.range_of(0).map(|range| ChunkWalk::new(object).read(range.start, |_records| ()));
    match walked {
        Ok(Ok(Ok(chunk))) => {
            if let ChunkKind::Records { codec, is_transposed } = chunk.kind {
                summary.codec = Some(codec.to_string());
                summary.is_transposed = is_transposed;
            }
        }
        // Reading its records will tell.
        Ok(Ok(Err(_damage))) => {}
        Ok(Err(error)) => inspection.damaged(reason(&error)),
        Err(error) => inspection.damaged(reason(&error)),
    }
}

/// The first records, and the lengths of those whose lengths the index does not tell.
fn read_first(
    file: &ArrayRecordFile,
    options: &InspectOptions,
    cancel: &Cancel,
    inspection: &mut Inspection,
    summary: &mut ArrayRecordSummary,
) -> Result<()> {
    let mut scratch = Scratch::default();
    let mut read_bytes = 0;
    for chunk in 0..file.num_chunks() {
        cancel.check()?;
        if summary.first.len() >= options.first && (file.is_single() || read_bytes >= options.measure_bytes) {
            break;
        }
        match file.read_chunk(chunk, &mut scratch) {
            Ok(records) => {
                for record in records.iter() {
                    if !file.is_single() {
                        summary.measure(record.len() as u64);
                    }
                    if summary.first.len() < options.first {
                        summary.first.push(first_record(record, options.text_len));
                    }
                }
                read_bytes += records.values().len() as u64;
            }
            Err(error) => {
                inspection.damaged(reason(&error));
                break;
            }
        }
        scratch.shrink();
    }
    Ok(())
}

fn first_record(record: &[u8], text_len: usize) -> FirstRecord {
    let is_text = |text: &&str| text.chars().take(text_len).all(|mark| !mark.is_control() || mark.is_whitespace());
    let text = std::str::from_utf8(record).ok().filter(is_text).map(|text| cut(text, text_len));
    let shown = record.get(..SHOWN_BYTES.min(record.len())).unwrap_or_default();
    let hex = text.is_none().then(|| shown.iter().map(|byte| format!("{byte:02x}")).collect());
    FirstRecord { bytes: record.len() as u64, text, hex }
}
