//! Indexes of other libraries, and damaged indexes.

use crate::mds::{Error, INDEX_NAME, Index};

const ENTRY: &str = concat!(
    r#"{"column_encodings": ["bytes"], "column_names": ["b"], "column_sizes": [null], "#,
    r#""compression": "zstd:7", "format": "mds", "hashes": ["sm3"], "#,
    r#""raw_data": {"basename": "a/shard.00000.mds", "bytes": 172, "hashes": {}}, "#,
    r#""samples": 0, "size_limit": 1024, "version": 2, "#,
    r#""zip_data": {"basename": "a/shard.00000.mds.zstd", "bytes": 17, "hashes": {"sm3": "ab"}}}"#,
);

fn parse(entry: &str) -> Result<Index, Error> {
    Index::parse(
        INDEX_NAME,
        format!("{{\"version\": 2, \"shards\": [{entry}], \"extra\": 1}}").as_bytes(),
    )
}

#[test]
fn unknown_keys_and_the_order_of_keys_are_ignored() {
    let index = parse(&ENTRY.replacen('{', "{\"of_tomorrow\": {\"x\": []}, ", 1)).unwrap();
    assert_eq!(index.to_json(), format!("{{\"shards\": [{ENTRY}], \"version\": 2}}"));
    assert_eq!(index.shards[0].below("p/q").file().basename, "p/q/a/shard.00000.mds.zstd");
}

#[test]
fn each_field_that_cannot_be_is_named_with_the_shard() {
    let cases = [
        ("\"version\": 2", "\"version\": 1", "version"),
        ("\"format\": \"mds\"", "\"format\": \"jsonl\"", "format"),
        ("[\"bytes\"]", "[\"byte\"]", "column_encodings"),
        ("[null]", "[8]", "column_sizes"),
        ("[\"b\"]", "[\"b\", \"c\"]", "column_names"),
        ("zstd:7", "zstd:70", "compression"),
        ("a/shard.00000.mds.zstd", "../shard.00000.mds.zstd", "basename"),
        ("a/shard.00000.mds\"", "/shard.00000.mds\"", "basename"),
        ("a/shard.00000.mds\"", "a//shard.00000.mds\"", "basename"),
        ("\"samples\": 0", "\"samples\": 4294967296", "samples"),
        ("\"samples\": 0", "\"samples\": -1", "samples"),
        ("\"samples\": 0", "\"samples\": \"5\"", "samples"),
        ("\"samples\": 0, ", "", "samples"),
        ("\"version\": 2", "\"version\": \"2\"", "version"),
        ("\"format\": \"mds\"", "\"format\": 5", "format"),
        ("[\"bytes\"]", "\"bytes\"", "column_encodings"),
        ("[null]", "[-1]", "column_sizes"),
        ("[\"sm3\"]", "null", "hashes"),
        ("\"size_limit\": 1024", "\"size_limit\": [1]", "size_limit"),
        (
            "\"raw_data\": {\"basename\": \"a/shard.00000.mds\", \"bytes\": 172, \"hashes\": {}}",
            "\"raw_data\": null",
            "raw_data",
        ),
        ("\"bytes\": 172", "\"bytes\": -172", "raw_data"),
        ("\"hashes\": {\"sm3\": \"ab\"}", "\"hashes\": null", "zip_data"),
        ("\"zstd:7\"", "null", "zip_data"),
    ];
    for (from, to, field) in cases {
        let error = parse(&ENTRY.replacen(from, to, 1)).unwrap_err();
        assert!(
            matches!(&error, Error::IndexField { field: found, .. } if *found == field),
            "{to}: {error}"
        );
        assert!(error.to_string().contains("shard.00000.mds"), "{error}");
    }
}

#[test]
fn type_that_a_field_cannot_have_is_shown_with_the_expected_one() {
    let cases = [
        (
            "\"samples\": 0",
            "\"samples\": -1",
            "Field `samples` of shard `a/shard.00000.mds.zstd` in `index.json`: \
             it must be an integer of at least 0, not -1",
        ),
        (
            "\"bytes\": 17,",
            "\"bytes\": null,",
            "Field `zip_data` of shard `a/shard.00000.mds.zstd` in `index.json`: \
             `bytes`: it must be an integer of at least 0, not null",
        ),
        (
            "\"hashes\": [\"sm3\"], ",
            "",
            "Field `hashes` of shard `a/shard.00000.mds.zstd` in `index.json`: it is missing; \
             it must be a list of strings",
        ),
    ];
    for (from, to, message) in cases {
        assert_eq!(parse(&ENTRY.replacen(from, to, 1)).unwrap_err().to_string(), message);
    }
}

#[test]
fn byte_order_mark_before_the_index_is_ignored() {
    let text = format!("\u{feff}{{\"shards\": [{ENTRY}], \"version\": 2}}");
    assert!(Index::is_mds(text.as_bytes()));
    assert_eq!(Index::parse(INDEX_NAME, text.as_bytes()).unwrap(), parse(ENTRY).unwrap());
}

#[test]
fn index_of_another_library_is_distinguished() {
    assert!(Index::is_mds(br#"{"shards": [], "version": 2}"#));
    assert!(Index::is_mds(parse(ENTRY).unwrap().to_json().as_bytes()));
    for other in [
        r#"{"shards": [{"format": "parquet"}], "version": 2}"#,
        r#"{"chunks": []}"#,
        "[]",
        "",
        "{\"weight_map\": {}}",
    ] {
        assert!(!Index::is_mds(other.as_bytes()), "{other}");
    }
    assert!(matches!(Index::parse(INDEX_NAME, b"{}"), Err(Error::Index { .. })));
    assert!(matches!(
        Index::parse(INDEX_NAME, br#"{"shards": [], "version": 3}"#),
        Err(Error::Index { .. })
    ));
}
