//! Shards as rows, and damaged shards.

use super::write::golden;
use crate::limit::DecodeLimit;
use crate::mds::{
    ArrayTypes, Columns, Compression, EncodedShard, Error, HashAlgorithm, MdsFile, MdsOptions,
    ShardEncoder, ShardOptions, rebuild_shard,
};
use crate::records::memory::memory;
use crate::table::TableFile;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Int64Type, UInt16Type};
use arrow_array::{ArrayRef, BinaryArray, Int64Array, RecordBatch, StringArray};
use arrow_buffer::BooleanBuffer;
use std::sync::Arc;

fn shards(
    columns: &[(&str, &str)],
    options: ShardOptions,
    rows: &RecordBatch,
) -> Vec<EncodedShard> {
    let mut encoder = ShardEncoder::new(Columns::new(columns.iter().copied()).unwrap(), options);
    let mut shards = encoder.push(rows).unwrap();
    shards.extend(encoder.finish().unwrap());
    shards
}

fn golden_shard(compression: Option<&str>) -> EncodedShard {
    let (columns, rows) = golden();
    let options = ShardOptions::parse(Some(1 << 26), compression, &["sha1", "xxh3_64"]).unwrap();
    shards(&columns, options, &rows).remove(0)
}

fn open(shard: &EncodedShard) -> Result<MdsFile, Error> {
    open_bytes(shard, &shard.bytes)
}

fn open_bytes(shard: &EncodedShard, bytes: &[u8]) -> Result<MdsFile, Error> {
    let options =
        MdsOptions { entry: Some(Arc::new(shard.entry.clone())), ..MdsOptions::default() };
    MdsFile::open(memory(&format!("data/{}", shard.basename), bytes), &options)
}

fn read(file: &MdsFile) -> Result<Vec<RecordBatch>, String> {
    let columns: Vec<usize> = (0..file.schema().fields().len()).collect();
    (0..file.blocks().len())
        .map(|block| file.read(block, &columns, None).map_err(|error| error.to_string()))
        .collect()
}

const COMPRESSIONS: [&str; 8] = ["br", "br:0", "bz2", "gz:1", "gz", "snappy", "zstd", "zstd:22"];

#[test]
fn golden_vector_is_read_with_its_types() {
    for compression in std::iter::once(None).chain(COMPRESSIONS.map(Some)) {
        let shard = golden_shard(compression);
        let file = open(&shard).unwrap();
        let batches = read(&file).unwrap();
        let [rows] = batches.as_slice() else { panic!("{} blocks", batches.len()) };
        let names: Vec<_> =
            rows.schema().fields().iter().map(|field| field.name().clone()).collect();
        assert_eq!(names, ["emb", "id", "text", "tok"], "{compression:?}");
        let emb = rows.column(0).as_fixed_size_list();
        assert_eq!(
            emb.values().as_primitive::<Float32Type>().values().as_ref(),
            [0.5, -1.0, 2.0, 3.0]
        );
        assert_eq!(rows.column(1).as_primitive::<Int64Type>().values().as_ref(), [7, -1]);
        assert_eq!(
            rows.column(2).as_string_view().iter().flatten().collect::<Vec<_>>(),
            ["hé", ""]
        );
        let tok = rows.column(3).as_list::<i32>();
        assert_eq!(
            (tok.value_offsets(), tok.values().as_primitive::<UInt16Type>().values().as_ref()),
            ([0, 3, 4].as_slice(), [1, 2, 300, 9].as_slice())
        );
        assert_eq!(
            file.schema().field(3).metadata().get("mds.encoding").map(String::as_str),
            Some("ndarray:uint16")
        );
        file.verify().unwrap();
    }
}

#[test]
fn shard_opens_from_its_own_config_without_an_index() {
    let shard = golden_shard(Some("zstd"));
    let file = MdsFile::open(memory("x.mds.zstd", &shard.bytes), &MdsOptions::default()).unwrap();
    assert_eq!(read(&file).unwrap()[0].num_rows(), 2);
    assert!(matches!(
        MdsFile::open(memory("x.mds", &shard.bytes), &MdsOptions::default()),
        Err(Error::Shard { .. })
    ));
}

#[test]
fn columns_and_selections_give_the_same_as_all_of_it() {
    let values: Vec<String> =
        (0..20_000).map(|row| format!("{row}{}", "x".repeat(row % 700))).collect();
    let rows = RecordBatch::try_from_iter([
        ("n", Arc::new(Int64Array::from_iter_values(0..20_000)) as ArrayRef),
        ("s", Arc::new(StringArray::from_iter_values(&values)) as ArrayRef),
    ])
    .unwrap();
    let shard = shards(&[("s", "str"), ("n", "int")], ShardOptions::default(), &rows).remove(0);
    let file = open(&shard).unwrap();
    assert!(file.blocks().len() > 2, "{}", file.blocks().len());
    assert_eq!(file.blocks().iter().map(|block| block.rows).sum::<u64>(), 20_000);
    let mut first = 0;
    for (number, block) in file.blocks().iter().enumerate() {
        let len = usize::try_from(block.rows).unwrap();
        let all = file.read(number, &[1, 0], None).unwrap();
        assert_eq!(all.column(0).as_string_view().value(len - 1), values[first + len - 1]);
        for step in [1, 2, 97] {
            let selection: BooleanBuffer = (0..len).map(|row| row % step == 0).collect();
            let some = file.read(number, &[1], Some(&selection)).unwrap();
            let expected: Vec<_> =
                (0..len).step_by(step).map(|row| values[first + row].as_str()).collect();
            assert_eq!(
                some.column(0).as_string_view().iter().flatten().collect::<Vec<_>>(),
                expected
            );
        }
        let none = file.read(number, &[], Some(&BooleanBuffer::new_unset(len))).unwrap();
        assert_eq!((none.num_rows(), none.num_columns()), (0, 0));
        first += len;
    }
}

#[test]
fn each_wrong_field_of_an_index_is_named_with_its_shard() {
    let shard = golden_shard(Some("gz"));
    let changed = |change: &dyn Fn(&mut EncodedShard)| {
        let mut changed = shard.clone();
        change(&mut changed);
        let error = match open(&changed) {
            Ok(file) => read(&file).unwrap_err(),
            Err(error) => error.to_string(),
        };
        assert!(error.contains("data/shard.00000.mds.gz"), "{error}");
        error
    };
    assert!(changed(&|shard| shard.entry.samples = 1).contains("`samples`"));
    assert!(changed(&|shard| shard.entry.raw_data.bytes += 1).contains("`raw_data.bytes`"));
    assert!(
        changed(&|shard| shard.entry.zip_data.as_mut().unwrap().bytes += 1).contains("`bytes`")
    );
    assert!(
        changed(&|shard| shard.entry.config.columns = Columns::new([("a", "int")]).unwrap())
            .contains("`column_names`")
    );
    let other = Columns::new([
        ("emb", "ndarray:float32:2"),
        ("id", "uint64"),
        ("text", "str"),
        ("tok", "ndarray:uint16"),
    ])
    .unwrap();
    assert!(
        changed(&|shard| shard.entry.config.columns = other.clone()).contains("`column_encodings`")
    );
    let digest = |shard: &mut EncodedShard, is_zip: bool, algorithm: &str| {
        let file =
            if is_zip { shard.entry.zip_data.as_mut().unwrap() } else { &mut shard.entry.raw_data };
        file.hashes.insert(algorithm.to_owned(), "00".to_owned());
    };
    for (is_zip, algorithm) in
        [(false, "sha1"), (true, "sha1"), (false, "xxh3_64"), (true, "xxh3_64")]
    {
        let error = changed(&|shard| digest(shard, is_zip, algorithm));
        assert!(
            error.contains(&format!("Hash `{algorithm}`")) && error.contains("the index says `00`"),
            "{error}"
        );
    }
}

#[test]
fn no_row_of_a_shard_with_a_wrong_hash_is_served() {
    let mut shard = golden_shard(None);
    let last = shard.bytes.len() - 1;
    shard.bytes[last] ^= 1;
    let file = open(&shard).unwrap();
    for _try in 0..2 {
        assert!(read(&file).unwrap_err().contains("Hash `sha1`"));
        assert!(file.read(0, &[1], Some(&BooleanBuffer::new_set(2))).is_err());
    }
}

#[test]
fn first_sample_decides_about_arrays_and_another_one_is_named() {
    let (columns, rows) = golden();
    let shard = shards(&columns, ShardOptions::default(), &rows).remove(0);
    let types: ArrayTypes = [("tok".to_owned(), (crate::mds::Number::UInt16, 2))].into();
    let options = MdsOptions { array_types: Some(Arc::new(types)), ..MdsOptions::default() };
    let file = MdsFile::open(memory("x.mds", &shard.bytes), &options).unwrap();
    let error = read(&file).unwrap_err();
    assert!(
        error.contains("Column `tok` of sample `0` in shard `x.mds`")
            && error.contains("1 dimensions of uint16"),
        "{error}"
    );
}

#[test]
fn pickles_are_refused_by_name_and_given_as_bytes_on_request() {
    let rows = RecordBatch::try_from_iter([(
        "p",
        Arc::new(BinaryArray::from_iter_values([b"\x80\x04N."])) as ArrayRef,
    )])
    .unwrap();
    let shard = shards(&[("p", "pkl")], ShardOptions::default(), &rows).remove(0);
    let error = read(&open(&shard).unwrap()).unwrap_err();
    assert!(error.contains("Column `p`"), "{error}");
    let options = MdsOptions { has_pickle_bytes: true, ..MdsOptions::default() };
    let file = MdsFile::open(memory("x.mds", &shard.bytes), &options).unwrap();
    assert_eq!(read(&file).unwrap()[0].column(0).as_binary_view().value(0), b"\x80\x04N.");
}

#[test]
fn empty_shard_has_no_rows() {
    let rows = RecordBatch::try_from_iter([(
        "b",
        Arc::new(BinaryArray::from_iter_values([[7; 100]])) as ArrayRef,
    )])
    .unwrap();
    let shards = shards(
        &[("b", "bytes")],
        ShardOptions { size_limit: Some(1), ..ShardOptions::default() },
        &rows,
    );
    let file = open(&shards[0]).unwrap();
    assert_eq!((file.num_samples(), file.blocks().len()), (0, 0));
    file.verify().unwrap();
}

#[test]
fn entry_is_rebuilt_as_it_was_written() {
    for compression in std::iter::once(None).chain(COMPRESSIONS.map(Some)) {
        let shard = golden_shard(compression);
        let rebuilt =
            rebuild_shard(memory(&format!("x/{}", shard.basename), &shard.bytes), &shard.basename)
                .unwrap();
        assert_eq!((rebuilt.entry, rebuilt.is_uncompressed_copy), (shard.entry, false));
    }
    let (raw, zip) = (golden_shard(None), golden_shard(Some("zstd")));
    let unpacked = Compression::parse("zstd").unwrap();
    let bytes = unpacked
        .decompress(&mut zip.bytes.as_slice(), DecodeLimit::default(), &mut |_start| {
            Ok(u64::from(u32::MAX))
        })
        .unwrap();
    assert_ne!(bytes, raw.bytes);
    assert!(
        rebuild_shard(memory("x/shard.00000.mds", &bytes), "shard.00000.mds")
            .unwrap()
            .is_uncompressed_copy
    );
}

#[test]
fn shard_that_was_compressed_later_has_no_entry() {
    let bytes = Compression::parse("gz").unwrap().compress(&golden_shard(None).bytes).unwrap();
    let refused = rebuild_shard(memory("x/shard.00000.mds.gz", &bytes), "shard.00000.mds.gz");
    assert!(matches!(&refused, Err(Error::Shard { field: "compression", .. })), "{refused:?}");
}

#[test]
fn head_of_a_compressed_shard_stays_below_the_limit() {
    let shard = golden_shard(Some("zstd"));
    let options = MdsOptions { limit: DecodeLimit::new(64), ..MdsOptions::default() };
    let refused = MdsFile::open(memory("x.mds.zstd", &shard.bytes), &options);
    assert!(matches!(&refused, Err(Error::TooLarge(_))), "{refused:?}");
}

#[test]
fn digests_are_those_of_the_standards() {
    // From Python's hashlib and xxhash, of b"abc".
    let expected = [
        ("md5", "900150983cd24fb0d6963f7d28e17f72"),
        ("sha1", "a9993e364706816aba3e25717850c26c9cd0d89d"),
        ("sha256", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        ("sha3_224", "e642824c3f8cf24ad09234ee7d3c766fc9a3a5168d0c94ad73b46fdf"),
        ("blake2s", "508c5e8c327c14e2e1a72ba34eeb452f37458b209ed63a294d999b4c86675982"),
        ("xxh32", "32d153ff"),
        ("xxh64", "44bc2cf5ad770999"),
        ("xxh3_64", "78af5f94892f3950"),
        ("xxh128", "06b05ab6733a618578af5f94892f3950"),
        ("xxh3_128", "06b05ab6733a618578af5f94892f3950"),
    ];
    for (name, digest) in expected {
        assert_eq!(HashAlgorithm::parse(name).unwrap().hex(b"abc"), digest, "{name}");
    }
    assert_eq!(HashAlgorithm::parse("shake_128"), None);
}

/// Returns whether it could be read; must not panic or allocate more memory than there are bytes.
fn survives(name: &str, bytes: &[u8]) -> bool {
    let options = MdsOptions { has_pickle_bytes: true, ..MdsOptions::default() };
    MdsFile::open(memory(name, bytes), &options)
        .is_ok_and(|file| file.verify().is_ok() && read(&file).is_ok())
}

#[test]
fn shard_that_is_cut_anywhere_is_an_error() {
    for (name, shard) in [
        ("x.mds", golden_shard(None)),
        ("x.mds.zstd", golden_shard(Some("zstd"))),
        ("x.mds.snappy", golden_shard(Some("snappy"))),
    ] {
        for len in 0..shard.bytes.len() {
            assert!(!survives(name, &shard.bytes[..len]), "{name} {len}");
        }
        assert!(survives(name, &shard.bytes));
    }
}

#[test]
fn flipped_bits_and_huge_numbers_never_panic() {
    for compression in [None, Some("br"), Some("bz2"), Some("gz"), Some("snappy"), Some("zstd")] {
        let shard = golden_shard(compression);
        let name = format!("x/{}", shard.basename);
        for at in 0..shard.bytes.len() {
            for mask in [1, 0x80, 0xff] {
                let mut bytes = shard.bytes.clone();
                bytes[at] ^= mask;
                let _either = survives(&name, &bytes);
            }
        }
        for at in 0..shard.bytes.len().saturating_sub(4) {
            for word in [u32::MAX, i32::MAX as u32, 0] {
                let mut bytes = shard.bytes.clone();
                bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
                let _either = survives(&name, &bytes);
            }
        }
    }
}

#[test]
fn hostile_configs_are_errors() {
    let shard = golden_shard(None);
    let start = 16;
    let end = usize::try_from(u32::from_le_bytes(shard.bytes[4..8].try_into().unwrap())).unwrap();
    let config = std::str::from_utf8(&shard.bytes[start..end]).unwrap();
    let cases = [
        ("\"version\": 2", "\"version\": 3"),
        ("\"format\": \"mds\"", "\"format\": \"sdm\""),
        ("[8, 8, null, null]", "[8, 8, null, 8888]"),
        ("\"int\"", "\"inT\""),
        ("ndarray:float32:2", "ndarray:float32:0"),
        ("\"emb\", \"id\"", "\"id\", \"emb\""),
        ("\"compression\": null", "\"compression\": 1234"),
    ];
    for (from, to) in cases {
        assert_eq!(from.len(), to.len(), "offsets stay");
        let mut bytes = shard.bytes.clone();
        bytes[start..end].copy_from_slice(config.replacen(from, to, 1).as_bytes());
        let error = MdsFile::open(memory("x.mds", &bytes), &MdsOptions::default()).unwrap_err();
        assert!(matches!(error, Error::Shard { .. }), "{error}");
    }
}
