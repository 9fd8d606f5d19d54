//! Any bytes as an index of ids: it is refused, or it answers without a panic and without leaving
//! its file.
//!
//! The checksums are put right, or no input would get past them: the last two bytes say how long
//! the footer is, all before it is content.
#![no_main]

use arrow_array::{ArrayRef, Int64Array, StringArray};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use shardmill_resume::DoneIds;
use shardmill_resume::index::IdIndex;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

fn with_checksums(bytes: &[u8]) -> Option<Vec<u8>> {
    let (front, len) = bytes.split_last_chunk::<2>()?;
    let (content, json) =
        front.split_at_checked(front.len().checked_sub(usize::from(u16::from_le_bytes(*len)))?)?;
    let mut footer: Value = serde_json::from_slice(json).ok()?;
    footer.as_object_mut()?.insert("checksum".to_owned(), xxh3_64(content).into());
    let json = serde_json::to_vec(&footer).ok()?;
    let tail = [
        (json.len() as u64).to_le_bytes(),
        xxh3_64(&json).to_le_bytes(),
        1u64.to_le_bytes(),
        *b"SMIDIDX1",
    ]
    .concat();
    Some([content, &json, &tail].concat())
}

fuzz_target!(|bytes: &[u8]| {
    let file = with_checksums(bytes).unwrap_or_else(|| bytes.to_vec());
    let path = std::env::temp_dir().join(format!("shardmill-fuzz-{}.ids", std::process::id()));
    if std::fs::write(&path, file).is_err() {
        return;
    }
    let Ok(index) = IdIndex::open(&path.display().to_string()) else { return };
    let texts: ArrayRef = Arc::new(StringArray::from(vec![
        "7",
        "007",
        "",
        "ffffffffffffffffffffffffffffffff",
        "a long text that is hashed",
    ]));
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![0, -1, 7, i64::MAX, i64::MIN]));
    for ids in [texts, numbers] {
        let _refused = index.contains(&[Arc::clone(&ids)]);
        let _unknown = index.may_contain(&ids.slice(0, 1), &ids.slice(2, 1));
    }
});
