//! Data sets written by MosaicML's own writer (0.13.0, by tests/compat/mds_peer.py): each is read,
//! and written again byte for byte.

use crate::limit::DecodeLimit;
use crate::mds::{Index, MdsFile, MdsOptions, ShardEncoder, ShardOptions, index_json};
use crate::records::memory::memory;
use crate::table::TableFile;
use arrow_array::cast::AsArray;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

fn directory(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "src/mds/tests/golden", name].iter().collect()
}

#[test]
fn what_the_peer_wrote_is_read_and_written_again_byte_for_byte() {
    for name in ["plain", "br", "bz2", "gz", "snappy", "zstd"] {
        let text = fs::read_to_string(directory(name).join("index.json")).unwrap();
        let index = Index::parse("index.json", text.as_bytes()).unwrap();
        assert_eq!(index.to_json(), text, "{name}");
        let config = index.shards[0].config.clone();
        let hashes: Vec<&str> = config.hashes.iter().map(String::as_str).collect();
        let limit = config.size_limit.map(|limit| u32::try_from(limit).unwrap());
        let options = ShardOptions::parse(
            limit,
            config.compression.as_ref().map(crate::mds::Compression::name),
            &hashes,
        )
        .unwrap();
        let mut encoder = ShardEncoder::new(config.columns.clone(), options);
        let (mut written, mut types) = (Vec::new(), None);
        for entry in &index.shards {
            let bytes = fs::read(directory(name).join(&entry.file().basename)).unwrap();
            let object = memory(&entry.file().basename, &bytes);
            types = types.or(MdsFile::first_array_types(
                Arc::clone(&object),
                Some(entry),
                DecodeLimit::default(),
            )
            .unwrap()
            .map(Arc::new));
            let options = MdsOptions {
                entry: Some(Arc::new(entry.clone())),
                array_types: types.clone(),
                ..MdsOptions::default()
            };
            let file = MdsFile::open(object, &options).unwrap();
            file.verify().unwrap();
            let columns: Vec<usize> = (0..file.schema().fields().len()).collect();
            for block in 0..file.blocks().len() {
                written.extend(encoder.push(&file.read(block, &columns, None).unwrap()).unwrap());
            }
        }
        written.extend(encoder.finish().unwrap());
        let entries: Vec<_> = written.iter().map(|shard| shard.entry.clone()).collect();
        if name == "plain" {
            assert_eq!(index_json(&entries), text);
            assert!(entries.len() > 2);
        }
        for (shard, theirs) in written.iter().zip(&index.shards) {
            // The output of compressors may differ; their input must not.
            assert_eq!(shard.entry.raw_data, theirs.raw_data, "{name}");
            if name == "plain" {
                assert_eq!(shard.bytes, fs::read(directory(name).join(&shard.basename)).unwrap());
            }
        }
        assert_eq!(written.len(), index.shards.len());
    }
}

#[test]
fn values_of_the_peer_are_those_that_it_was_given() {
    let index =
        Index::parse("index.json", &fs::read(directory("zstd").join("index.json")).unwrap())
            .unwrap();
    let entry = Arc::new(index.shards[0].clone());
    let bytes = fs::read(directory("zstd").join(&entry.file().basename)).unwrap();
    let file = MdsFile::open(
        memory(&entry.file().basename, &bytes),
        &MdsOptions { entry: Some(entry), ..MdsOptions::default() },
    )
    .unwrap();
    let column = |name: &str| {
        Arc::clone(file.read(0, &[file.schema().index_of(name).unwrap()], None).unwrap().column(0))
    };
    assert_eq!(column("a_str").as_string_view().value(1), "hé\0\u{1f600}1");
    assert_eq!(
        column("str_int").as_string_view().iter().flatten().collect::<Vec<_>>(),
        ["1", "10"]
    );
    assert_eq!(
        column("uint64").as_primitive::<arrow_array::types::UInt64Type>().values().as_ref(),
        [u64::MAX, u64::MAX - 1]
    );
    let json = column("json");
    let expected = concat!(
        r#"{"b": [1, 2.5, null, 1e+22, 0.1], "a": "\u00e9\n\"\ud83d\ude00", "#,
        r#""n": 0, "deep": {"x": [{"y": true}]}}"#,
    );
    assert_eq!(json.as_string_view().value(0), expected);
    assert_eq!(
        column("nd_fixed").as_fixed_size_list().value(1).as_fixed_size_list().value_length(),
        3
    );
}
