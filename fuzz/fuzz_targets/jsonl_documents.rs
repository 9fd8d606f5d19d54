//! Any bytes as a file of JSON documents: each record becomes a document or is quarantined, and
//! the records are all of the text, however it is cut into pieces.
#![no_main]

mod memory;
mod source;

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use shardmill_documents::Chunk;
use shardmill_documents::materialize::Bodies;
use shardmill_documents::schema::{JobSchema, SchemaChoice, canonical_schema};
use shardmill_documents::source::SplitContext;
use shardmill_documents::source::jsonl::read_jsonl;
use shardmill_documents::source::layout::DocumentKeys;
use shardmill_documents::source::record_options::RecordOptions;
use shardmill_documents::table::to_table;
use shardmill_formats::jsonl::RecordTexts;
use shardmill_formats::limit::DecodeLimit;

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    records: Vec<Record<'a>>,
    is_array: bool,
    /// In place of the records.
    raw: Option<&'a [u8]>,
    /// Bytes that are missing at the end.
    cut: u8,
}

#[derive(Arbitrary, Debug)]
enum Record<'a> {
    /// Lists of equal length, as in WebDataset shards.
    Lists(Vec<Option<&'a str>>),
    /// Chat messages.
    Messages(Vec<&'a str>),
    Other(&'a str, i64),
    Raw(&'a str),
}

impl Input<'_> {
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = match self.raw {
            Some(raw) => raw.to_vec(),
            None => {
                let records: Vec<String> = self.records.iter().map(Record::text).collect();
                if self.is_array {
                    format!("[{}]", records.join(",")).into_bytes()
                } else {
                    records.join("\n").into_bytes()
                }
            }
        };
        bytes.truncate(bytes.len().saturating_sub(usize::from(self.cut)));
        bytes
    }
}

impl Record<'_> {
    fn text(&self) -> String {
        use serde_json::json;
        match self {
            Self::Lists(texts) => {
                let images: Vec<Option<&str>> =
                    texts.iter().map(|text| text.is_none().then_some("i.png")).collect();
                json!({"texts": texts, "images": images}).to_string()
            }
            Self::Messages(texts) => {
                let messages: Vec<_> =
                    texts.iter().map(|text| json!({"role": "user", "content": text})).collect();
                json!({"messages": messages}).to_string()
            }
            Self::Other(name, number) => json!({*name: number}).to_string(),
            Self::Raw(text) => (*text).to_owned(),
        }
    }
}

/// Number of records, and whether the file was read to its end. Texts follow one another in the
/// file, and only blanks, brackets and commas are between them.
fn records(bytes: &[u8]) -> (usize, bool) {
    let file = memory::file(bytes);
    let mut texts = RecordTexts::new(&*file, DecodeLimit::new(memory::LIMIT));
    let (mut count, mut end) = (0, 0);
    loop {
        match texts.next_record() {
            Ok(Some(record)) => {
                let start = usize::try_from(record.offset).expect("the input is small");
                let found = &bytes[start..start + record.text.len()];
                assert_eq!(found, record.text);
                assert!(start >= end && !found.is_empty());
                let lines = bytes[..start].iter().filter(|byte| **byte == b'\n').count();
                assert_eq!(record.line, lines as u64 + 1);
                (count, end) = (count + 1, start + record.text.len());
            }
            Ok(None) => {
                // An array may be empty.
                let opens = usize::from(count == 0);
                let brackets = bytes[end..].iter().filter(|byte| **byte == b'[').count();
                assert!(brackets <= opens);
                let is_between = |byte: &u8| b" \t\r\n\x0c,[]\xef\xbb\xbf".contains(byte);
                assert!(bytes[end..].iter().all(is_between));
                return (count, true);
            }
            Err(_) => return (count, false),
        }
    }
}

fn check(chunk: &mut Chunk) {
    source::check_documents(chunk);
    let column = Bodies::read(chunk, Vec::new()).expect("no file is read").into_column();
    let table = to_table(chunk, &column).expect("types were made to fit");
    assert_eq!(table.num_rows(), chunk.rows.len());
}

fuzz_target!(|input: Input<'_>| {
    let bytes = input.bytes();
    let (count, is_whole) = records(&bytes);
    let options = RecordOptions {
        fields: None,
        max_batch_bytes: Some(1 << 12),
        max_decoded_bytes: Some(memory::LIMIT),
        keys: DocumentKeys::default(),
    };
    let mut documents = 0;
    let mut emit = |mut chunk: Chunk, _: &mut SplitContext<'_>| {
        documents += chunk.documents.len();
        check(&mut chunk);
        Ok(())
    };
    let report = source::read(&bytes, true, 1 << 12, |split, context| {
        // Every other value is rescued.
        let (agreed, choice) = (canonical_schema([]), SchemaChoice::default());
        let job = JobSchema { agreed: &agreed, choice: &choice };
        read_jsonl(split, &options, job, context, &mut emit).expect("bad lines are quarantined");
    });
    // A compressed file has other records.
    let is_plain = !bytes.starts_with(b"\x1f\x8b") && !bytes.starts_with(b"\x28\xb5\x2f\xfd");
    let parts = report.quarantined.iter().filter(|item| !item.is_shard).count();
    if is_plain && is_whole && !report.quarantined.iter().any(|item| item.is_shard) {
        assert_eq!(documents + parts, count);
    }
});
