//! Any text: a text in pieces has the ids of the whole, byte-level ids decode to it, and the ranges
//! of tokens are in it.
#![no_main]

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use libfuzzer_sys::fuzz_target;
use shardmill_tokens::{Options, Sources, SpecialInText, Tokenizer};
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// All bytes, some merges, and a special token.
static TOKENIZER: LazyLock<Tokenizer> = LazyLock::new(|| {
    let mut ranks: Vec<Vec<u8>> = (0..=255).map(|byte| vec![byte]).collect();
    ranks.extend([
        b" a".to_vec(),
        b"th".to_vec(),
        b"the".to_vec(),
        b" the".to_vec(),
        b"in".to_vec(),
        b"  ".to_vec(),
        "\u{e9}".into(),
    ]);
    let lines: String = ranks
        .iter()
        .enumerate()
        .map(|(rank, token)| format!("{} {rank}\n", STANDARD.encode(token)))
        .collect();
    let special_tokens = Some(BTreeMap::from([("<s>".to_owned(), 500)]));
    let options = Options { pattern: Some("cl100k".to_owned()), special_tokens };
    Tokenizer::new(&Sources::file("a.tiktoken", lines.into_bytes()), &options).expect("a tokenizer")
});

fuzz_target!(|text: &str| {
    let (mut ids, mut whole, mut ranges) = (Vec::new(), Vec::new(), Vec::new());
    TOKENIZER.encode_into(text, SpecialInText::Id, &mut ids).expect("any text has ids");
    TOKENIZER
        .encode_with_ranges(text, SpecialInText::Id, &mut whole, &mut ranges)
        .expect("and ranges");
    assert_eq!(ids, whole);
    assert_eq!(TOKENIZER.decode(&ids).expect("ids"), text);
    assert!(ranges.iter().all(|range| range.start <= range.end && range.end <= text.len()));
    assert!(ranges.windows(2).all(|pair| pair[0].start <= pair[1].start));
});
