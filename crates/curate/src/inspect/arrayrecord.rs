//! Inspects an ArrayRecord file: its index, and its first chunks.

use super::summary::Inspection;
use super::{InspectOptions, cut};
use crate::Result;
use serde::Serialize;
use shardmill_engine::Cancel;
use shardmill_formats::arrayrecord::{ArrayRecordFile, ChunkKind, ChunkWalk, Scratch, Verify, WalkedChunk};
use shardmill_storage::RangeRead;
use std::sync::Arc;

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

pub(super) fn inspect_arrayrecord(object: Arc<dyn RangeRead>, options: &InspectOptions, cancel: &Cancel, inspection: &mut Inspection) -> Result<()> {
    let Some(file) = inspection.readable(ArrayRecordFile::open(Arc::clone(&object), Verify::Full)) else { return Ok(()) };
    inspection.samples = file.num_records();
    inspection.rows.other = file.num_records();
    inspection.bytes_by_modality.other = file.decoded_size();
    let mut summary = ArrayRecordSummary {
        records: file.num_records(),
        chunks: file.num_chunks() as u64,
        group_size: if file.num_chunks() == 0 { 0 } else { file.records_of(0).end },
        writer_options: file.writer_options().map(str::to_owned),
        stored_bytes: file.size(),
        decoded_bytes: file.decoded_size(),
        shortest: u64::MAX,
        ..ArrayRecordSummary::default()
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
    let Some(range) = inspection.readable(file.range_of(0)) else { return };
    // Damaged records are reported when they are read.
    let walked = inspection.readable(ChunkWalk::new(object).read(range.start, |_records| ()));
    if let Some(Ok(WalkedChunk { kind: ChunkKind::Records { codec, is_transposed }, .. })) = walked {
        summary.codec = Some(codec.to_string());
        summary.is_transposed = is_transposed;
    }
}

/// The first records, and the lengths of those for which the index states none.
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
        let Some(records) = inspection.readable(file.read_chunk(chunk, &mut scratch)) else { break };
        for record in records.iter() {
            if !file.is_single() {
                summary.measure(record.len() as u64);
            }
            if summary.first.len() < options.first {
                summary.first.push(first_record(record, options.text_len));
            }
        }
        read_bytes += records.values().len() as u64;
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
