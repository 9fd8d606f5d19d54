//! Small tokenizers, whole and damaged.

mod directory;

use super::{Options, PIECE_BYTES, Sources, SpecialInText, Tokenizer};
use crate::error::{Error, Result};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tokenizers::utils::DEEPSEEK_PATTERNS;

/// A byte-level BPE: all bytes, and the merges of "ab", "abc" and " a".
fn byte_level() -> Value {
    let mut vocabulary = serde_json::Map::new();
    for (byte, id) in (0..=u8::MAX).zip(0_u32..) {
        vocabulary.insert(super::bytes::spelled(&[byte]), id.into());
    }
    for (token, id) in [("ab", 256), ("abc", 257), ("Ġa", 258)] {
        vocabulary.insert(token.to_owned(), id.into());
    }
    json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "normalizer": null,
        "post_processor": null,
        "decoder": {"type": "ByteLevel"},
        "added_tokens": [flags("<eos>", 259, true), flags("tool", 260, false)],
        "pre_tokenizer": {
            "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true,
        },
        "model": {"type": "BPE", "vocab": vocabulary, "merges": ["a b", "ab c", "Ġ a"]},
    })
}

/// Damages a document.
type Change = fn(&mut Value);

fn flags(content: &str, id: u32, is_special: bool) -> Value {
    json!({
        "id": id,
        "content": content,
        "single_word": false,
        "lstrip": false,
        "rstrip": false,
        "normalized": false,
        "special": is_special,
    })
}

fn opened(document: &Value) -> Result<Tokenizer> {
    Tokenizer::new(
        &Sources::file("tokenizer.json", document.to_string().into_bytes()),
        &Options::default(),
    )
}

fn encoded(tokenizer: &Tokenizer, text: &str, special: SpecialInText) -> Result<Vec<u32>> {
    let mut ids = Vec::new();
    tokenizer.encode_into(text, special, &mut ids).map(|_spelled| ids)
}

fn refusal(change: impl FnOnce(&mut Value)) -> String {
    let mut document = byte_level();
    change(&mut document);
    opened(&document).err().map_or_else(|| "no error".to_owned(), |error| error.to_string())
}

#[test]
fn special_token_in_text_is_text_an_id_or_an_error() {
    let tokenizer = opened(&byte_level()).unwrap();
    assert!(!encoded(&tokenizer, "a<eos>b", SpecialInText::Text).unwrap().contains(&259));
    assert_eq!(encoded(&tokenizer, "a<eos>b", SpecialInText::Id).unwrap(), [97, 259, 98]);
    let error = encoded(&tokenizer, "a<eos>b", SpecialInText::Error).unwrap_err();
    assert_eq!(error.to_string(), "Special token \"<eos>\" is in the text at byte 1");
    assert_eq!(encoded(&tokenizer, "abtool", SpecialInText::Text).unwrap(), [256, 260]);
    assert!(encoded(&tokenizer, "", SpecialInText::Id).unwrap().is_empty());
}

#[test]
fn ids_become_text_and_unknown_ids_are_an_error() {
    let tokenizer = opened(&byte_level()).unwrap();
    assert_eq!(tokenizer.decode(&[257, 258, 259]).unwrap(), "abc a<eos>");
    assert_eq!(tokenizer.decode(&[0xc3]).unwrap(), "\u{fffd}");
    assert_eq!(
        tokenizer.decode(&[261]).unwrap_err().to_string(),
        "Id 261 is not in the vocabulary of `tokenizer.json`, whose highest is 260"
    );
    assert_eq!(
        (
            tokenizer.vocab_size(),
            tokenizer.token_id(" a"),
            tokenizer.token_id("<eos>"),
            tokenizer.token(258)
        ),
        (261, Some(258), Some(259), Some("Ġa"))
    );
    assert_eq!(
        tokenizer.required_id("<EOS>").unwrap_err().hint().unwrap(),
        "similar tokens are \"<eos>\""
    );
}

#[test]
fn fingerprint_survives_a_new_order_and_not_a_lost_merge() {
    let fingerprint = |document: &Value| opened(document).unwrap().fingerprint().to_owned();
    let known = fingerprint(&byte_level());
    let mut other = byte_level();
    let root = other.as_object_mut().unwrap();
    let mut entries: Vec<_> = root.clone().into_iter().collect();
    entries.reverse();
    *root = entries.into_iter().collect();
    root.insert("version".to_owned(), json!("2.0"));
    root.insert(
        "truncation".to_owned(),
        json!({"max_length": 16, "strategy": "LongestFirst", "stride": 0, "direction": "Right"}),
    );
    assert_eq!(fingerprint(&other), known);
    assert_eq!(opened(&other).unwrap().ignored().len(), 1);
    other["model"]["merges"].as_array_mut().unwrap().pop();
    assert_ne!(fingerprint(&other), known);
    assert_eq!(known.len(), 32);
}

#[test]
fn invalid_file_is_refused_when_it_is_opened() {
    let open = |bytes: &[u8]| {
        Tokenizer::new(&Sources::file("tokenizer.json", bytes.to_vec()), &Options::default())
    };
    assert!(matches!(open(b"{\"model\": "), Err(Error::NotJson { .. })));
    assert!(matches!(open(b"\xff"), Err(Error::NotText { offset: 0, .. })));
    assert!(matches!(open(b"{}"), Err(Error::UnknownType { .. })));
    let path = "`tokenizer.json`";
    let cases: [(Change, &str); 8] = [
        (
            |document| document["model"]["dropout"] = json!(0.1),
            "cannot be used: BPE models with dropout not supported yet",
        ),
        (
            |document| document["pre_tokenizer"]["add_prefix_space"] = json!(true),
            "cannot be used: a `ByteLevel` pre-tokenizer with `add_prefix_space: true` is not \
             supported",
        ),
        (
            |document| document["model"]["merges"][2] = json!("Ġ z"),
            "has a merge of unknown token \"Ġz\" (merge 2)",
        ),
        (
            |document| document["model"]["vocab"]["ab"] = json!(97),
            "has id 97 for two tokens, \"a\" and \"ab\"",
        ),
        (
            |document| document["added_tokens"][1]["id"] = json!(259),
            "has id 259 for two tokens, \"<eos>\" and \"tool\"",
        ),
        (
            |document| document["model"]["vocab"]["ab"] = json!(1 << 30),
            "is not valid: token \"ab\" has no id from 0 to 16777215",
        ),
        (
            |document| {
                document["pre_tokenizer"] = json!({
                    "type": "Split",
                    "pattern": {"Regex": "(a"},
                    "behavior": "Isolated",
                    "invert": false,
                });
            },
            "has a pattern that does not compile, \"(a\": ",
        ),
        (|document| document["pre_tokenizer"] = json!({"type": "Nonsense"}), "cannot be used: "),
    ];
    for (change, expected) in cases {
        let found = refusal(change);
        assert!(found.starts_with(&format!("{path} {expected}")), "{found}");
    }
    let mut lacking = byte_level();
    lacking["model"]["vocab"].as_object_mut().unwrap().remove("q");
    assert!(
        opened(&lacking).is_err_and(|error| error.to_string().contains("no token for bytes 0x71"))
    );
}

#[test]
fn every_truncation_of_a_file_is_an_error() {
    let whole = byte_level().to_string().into_bytes();
    for end in (0..whole.len()).step_by(97) {
        let sources = Sources::file("tokenizer.json", whole[..end].to_vec());
        assert!(Tokenizer::new(&sources, &Options::default()).is_err(), "{end} bytes");
    }
}

#[test]
fn pattern_without_a_grammar_is_applied_and_its_limit_is_an_error() {
    let mut document = byte_level();
    document["pre_tokenizer"] = json!({"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": "(?=b)"}, "behavior": "Isolated", "invert": false},
        {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false},
    ]});
    assert_eq!(
        encoded(&opened(&document).unwrap(), "abc", SpecialInText::Text).unwrap(),
        [97, 98, 99]
    );
    document["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] =
        json!("(?:(x+x+)+)(?=y)(?<=x)");
    let error =
        encoded(&opened(&document).unwrap(), &"x".repeat(200), SpecialInText::Text).unwrap_err();
    assert!(matches!(error, Error::PatternLimit { .. }), "{error}");
}

#[test]
fn limit_of_a_pattern_names_the_byte_of_the_whole_text_unless_it_was_normalized() {
    let exceeded = |change: Change, text: &str| {
        let mut document = byte_level();
        document["pre_tokenizer"] = json!({"type": "Sequence", "pretokenizers": [
            {"type": "WhitespaceSplit"},
            {
                "type": "Split",
                "pattern": {"Regex": "(?:(x+x+)+)(?=y)(?<=x)"},
                "behavior": "Isolated",
                "invert": false,
            },
            {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false},
        ]});
        change(&mut document);
        match encoded(&opened(&document).unwrap(), text, SpecialInText::Text) {
            Err(Error::PatternLimit { offset, .. }) => offset,
            other => panic!("{other:?}"),
        }
    };
    let slow = "x".repeat(200);
    let long = "abc ".repeat(PIECE_BYTES / 2);
    assert_eq!(exceeded(|_| (), &format!("abtool {slow}")), Some(7));
    assert_eq!(exceeded(|_| (), &format!("{long}{slow}")), Some(long.len()), "in the second piece");
    let is_normalized: Change = |document| document["added_tokens"][1]["normalized"] = json!(true);
    assert_eq!(exceeded(is_normalized, &format!("abtool {slow}")), Some(7));
    assert_eq!(exceeded(|document| document["normalizer"] = json!({"type": "NFC"}), &slow), None);
}

fn with_pattern(pattern: &str) -> Value {
    let mut document = byte_level();
    document["pre_tokenizer"] = json!({"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false},
        {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false},
    ]});
    document["model"]["vocab"]["aa"] = json!(261);
    document["model"]["merges"] = json!(["a a"]);
    document["added_tokens"] = json!([]);
    document
}

#[test]
fn pattern_means_what_it_means_to_oniguruma() {
    // Letters become one token where no word ends between them.
    let cases: [(&str, &str, &[u32]); 9] = [
        (r"\wa", "½aa", &[0xc2, 0xbd, 0x61, 0x61]),
        (r"\wa", "①aa", &[0xe2, 0x91, 0xa0, 261]),
        (r"[\w]a", "½aa", &[0xc2, 0xbd, 261]),
        (r"\ba", "½aa", &[0xc2, 0xbd, 261]),
        ("[[:alpha:]]a", "éaa", &[0xc3, 0xa9, 0x61, 0x61]),
        ("[^]^$[:space:]]a", "\u{a0}aa", &[0xc2, 0xa0, 261]),
        ("(?m).a", "\naa", &[0x0a, 0x61, 0x61]),
        ("^a", "\naa", &[0x0a, 0x61, 0x61]),
        ("a$", "aa\n", &[0x61, 0x61, 0x0a]),
    ];
    for (pattern, text, expected) in cases {
        assert_eq!(
            encoded(&opened(&with_pattern(pattern)).unwrap(), text, SpecialInText::Text).unwrap(),
            expected,
            "{pattern}"
        );
    }
    for pattern in [r"\Ga", "[+--]", r"\pL", "[[:^alpha:]]"] {
        let refused = opened(&with_pattern(pattern))
            .err()
            .map_or_else(String::new, |error| error.to_string());
        assert!(refused.contains("another meaning"), "{pattern}: {refused}");
    }
    let mut document = with_pattern("x");
    document["normalizer"] =
        json!({"type": "Replace", "pattern": {"Regex": "[[:alpha:]]|$"}, "content": "a"});
    assert_eq!(
        encoded(&opened(&document).unwrap(), "é1", SpecialInText::Text).unwrap(),
        [0x61, 0x31, 0x61]
    );
}

#[test]
fn digits_in_groups_of_two_are_not_taken_for_groups_of_three() {
    let mut document = byte_level();
    let pattern = concat!(
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+",
        r"|\p{N}{1,2}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    );
    document["pre_tokenizer"] = json!({"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false},
        {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false},
    ]});
    document["model"]["vocab"]["12"] = json!(261);
    document["model"]["vocab"]["34"] = json!(262);
    document["model"]["vocab"]["23"] = json!(263);
    document["model"]["merges"] = json!(["2 3", "1 2", "3 4"]);
    document["added_tokens"] = json!([]);
    assert_eq!(
        encoded(&opened(&document).unwrap(), "1234", SpecialInText::Text).unwrap(),
        [261, 262]
    );
}

#[test]
fn pieces_of_a_long_text_have_the_ids_of_the_whole() {
    let tokenizer = opened(&byte_level()).unwrap();
    let text = "abc ab, a1 b  abc\nab <eos> tool ab's ".repeat(70_000);
    let pieces = tokenizer.pieces(&text);
    assert!(pieces.len() > 2 && pieces.iter().all(|piece| piece.len() <= PIECE_BYTES));
    let whole = {
        let mut ids = Vec::new();
        tokenizer.encode_traced(&text, SpecialInText::Id, &mut ids, &mut Vec::new()).unwrap();
        ids
    };
    assert_eq!(encoded(&tokenizer, &text, SpecialInText::Id).unwrap(), whole);
    let mut threaded = Vec::new();
    tokenizer.encode_long(&text, SpecialInText::Id, 4, || false, &mut threaded).unwrap();
    assert_eq!(threaded, whole);
    let texts = [text.as_str(), "", "abc"];
    let batch = tokenizer.encode_batch(&texts, SpecialInText::Id, 3, || false).unwrap();
    assert_eq!(batch, [whole, Vec::new(), vec![257]]);
    let error =
        tokenizer.encode_batch(&["a", "<eos>"], SpecialInText::Error, 1, || false).unwrap_err();
    assert_eq!(error.to_string(), "Text 1: Special token \"<eos>\" is in the text at byte 0");
}

/// As Kimi K2 writes it.
const KIMI: &str = concat!(
    r"[\p{Han}]+",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*",
    r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+",
    r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);

/// 2 MiB of random text without spaces.
fn without_spaces(alphabet: &[&str]) -> String {
    let mut state: u64 = 1;
    let mut text = String::new();
    while text.len() < 2 * PIECE_BYTES {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        text.push_str(alphabet[usize::try_from(state >> 33).unwrap() % alphabet.len()]);
    }
    text
}

#[test]
fn text_without_spaces_is_cut_and_has_the_ids_of_the_whole_in_every_grammar() {
    let split = |pattern: &str| {
        json!({
            "type": "Split",
            "pattern": {"Regex": pattern},
            "behavior": "Isolated",
            "invert": false,
        })
    };
    let qwen = super::ranks::native_pattern("cl100k").replace(r"\p{N}{1,3}", r"\p{N}");
    let patterns = super::ranks::NATIVE.iter().map(|(_, native)| *native).chain([KIMI, &qwen]);
    let mut grammars: Vec<Value> = patterns.map(split).collect();
    grammars.push(json!({"type": "Sequence", "pretokenizers": DEEPSEEK_PATTERNS.map(split)}));
    let byte = json!({
        "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false,
    });
    let mut tokenizers = vec![opened(&byte_level()).unwrap()];
    for grammar in grammars {
        let mut document = byte_level();
        let mut members =
            grammar["pretokenizers"].as_array().cloned().unwrap_or_else(|| vec![grammar.clone()]);
        members.push(byte.clone());
        document["pre_tokenizer"] = json!({"type": "Sequence", "pretokenizers": members});
        tokenizers.push(opened(&document).unwrap());
    }
    let letters = ["a", "b", "C", "é", "中", "か", "ʰ"];
    let others = [".", ",", "\n", "'", "s", "1", "-", "\u{301}", "\r", "\t", "<eos>", "tool"];
    let text = without_spaces(&[&letters[..], &letters, &others].concat());
    for (number, tokenizer) in tokenizers.into_iter().enumerate() {
        assert!(tokenizer.pieces(&text).len() > 2, "grammar {number}");
        for special in [SpecialInText::Id, SpecialInText::Text] {
            let mut whole = Vec::new();
            let spelled =
                tokenizer.encode_traced(&text, special, &mut whole, &mut Vec::new()).unwrap();
            assert_eq!(encoded(&tokenizer, &text, special).unwrap(), whole);
            assert_eq!(spelled, text.matches("<eos>").count());
        }
    }
}

#[test]
fn special_tokens_are_counted_whatever_becomes_of_them() {
    let mut document = byte_level();
    let count = |document: &Value, text: &str, special| {
        opened(document).unwrap().encode_into(text, special, &mut Vec::new()).unwrap()
    };
    let texts = [
        ("", 0),
        ("<eos", 0),
        ("<eos>", 1),
        ("tool<eos>a<eos><eos>tool", 3),
        ("a <eos> tool <eos>", 2),
    ];
    for flag in ["special", "normalized", "lstrip", "rstrip"] {
        document["added_tokens"][0][flag] = json!(true);
        for (text, spelled) in texts {
            assert_eq!(
                [SpecialInText::Text, SpecialInText::Id]
                    .map(|special| count(&document, text, special)),
                [spelled; 2],
                "{flag} {text}"
            );
        }
    }
    document["added_tokens"][0]["single_word"] = json!(true);
    assert_eq!(
        [SpecialInText::Text, SpecialInText::Id].map(|special| count(
            &document,
            "a<eos> <eos> tool",
            special
        )),
        [1; 2]
    );
}

#[test]
fn token_is_dropped_if_another_took_all_of_its_white_space() {
    let mut document = byte_level();
    document["added_tokens"][0]["rstrip"] = json!(true);
    document["added_tokens"][1]["content"] = json!("  ");
    let ids = |document: &Value| {
        encoded(&opened(document).unwrap(), "<eos>  c", SpecialInText::Id).unwrap()
    };
    assert_eq!(ids(&document), [259, 260, 99]);
    document["added_tokens"][1]["lstrip"] = json!(true);
    assert_eq!(ids(&document), [259, 99]);
}

#[test]
fn special_token_after_a_vocabulary_with_a_token_twice_stays_special() {
    let tokenizer = opened(&json!({
        "version": "1.0",
        "normalizer": null,
        "pre_tokenizer": null,
        "post_processor": null,
        "decoder": null,
        "added_tokens": [flags("<s>", 4, true)],
        "model": {
            "type": "Unigram",
            "unk_id": 0,
            "vocab": [["<unk>", 0.0], ["a", -1.0], ["b", -1.0], ["<unk>", -2.0]],
        },
    }))
    .unwrap();
    assert_eq!(tokenizer.vocab_size(), 5);
    assert_eq!(encoded(&tokenizer, "a<s>b", SpecialInText::Id).unwrap(), [1, 4, 2]);
    assert_eq!(encoded(&tokenizer, "a<s>b", SpecialInText::Text).unwrap(), [1, 0, 2]);
}

fn ranks(lines: &str, pattern: Option<&str>, special: Option<&[(&str, u32)]>) -> Result<Tokenizer> {
    let special_tokens = special.map(|special| {
        special.iter().map(|(token, id)| ((*token).to_owned(), *id)).collect::<BTreeMap<_, _>>()
    });
    let options = Options { pattern: pattern.map(str::to_owned), special_tokens };
    Tokenizer::new(&Sources::file("a.tiktoken", lines.as_bytes().to_vec()), &options)
}

fn all_bytes() -> String {
    use base64::Engine as _;
    let line = |rank: u32| {
        format!(
            "{} {rank}\n",
            base64::prelude::BASE64_STANDARD.encode([u8::try_from(rank).unwrap()])
        )
    };
    (0..256).map(line).collect()
}

#[test]
fn ranks_need_a_pattern_and_special_tokens() {
    let lines = format!("{}YWI= 256\n", all_bytes());
    let tokenizer = ranks(&lines, Some("gpt2"), Some(&[("<|end|>", 300)])).unwrap();
    assert_eq!(encoded(&tokenizer, "ab<|end|>", SpecialInText::Id).unwrap(), [256, 300]);
    assert_eq!(tokenizer.decode(&[256, 300]).unwrap(), "ab<|end|>");
    let message = |tokenizer: Result<Tokenizer>| {
        tokenizer.err().map_or_else(|| "no error".to_owned(), |error| error.to_string())
    };
    assert_eq!(
        message(ranks(&lines, None, Some(&[]))),
        "`a.tiktoken` does not contain its pattern"
    );
    assert_eq!(
        message(ranks(&lines, Some("o200k"), None)),
        "`a.tiktoken` does not contain its special tokens"
    );
    assert_eq!(
        message(ranks(&lines, Some("p50k"), Some(&[]))),
        "pattern must be \"gpt2\", \"cl100k\", \"o200k\" or a regular expression, not \"p50k\""
    );
    assert_eq!(
        message(ranks(&lines, Some("gpt2"), Some(&[("x", 256)]))),
        "special_tokens has id 256 for \"x\", which is the id of \"ab\""
    );
    let cases = [
        ("!!! 257\n", "`a.tiktoken` line 258 is not valid: its token is not base64: "),
        ("YWJj 256\n", "`a.tiktoken` has rank 256 on line 258 and on line 257"),
        ("YWI= 257\n", "`a.tiktoken` has token \"ab\" twice, on line 258 too"),
        ("YWJj\n", "`a.tiktoken` line 258 is not valid: it is not a token in base64 and a rank"),
        (
            "YWJj -1\n",
            "`a.tiktoken` line 258 is not valid: its rank is not a number from 0 to 16777215",
        ),
    ];
    for (line, expected) in cases {
        let found = message(ranks(&format!("{lines}{line}"), Some("gpt2"), Some(&[])));
        assert!(found.starts_with(expected), "{found}");
    }
}

#[test]
fn labels_are_the_tokens_that_overlap_a_span() {
    let tokenizer = opened(&byte_level()).unwrap();
    let mut ids = Vec::new();
    let mut labelled = Vec::new();
    tokenizer
        .encode_labelled("abc a<eos>é", &[2..4, 10..11], SpecialInText::Id, &mut ids, &mut labelled)
        .unwrap();
    assert_eq!(ids, [257, 258, 259, 0xc3, 0xa9]);
    assert_eq!(labelled, [true, true, false, true, false]);
}

#[test]
fn token_of_the_model_that_is_added_too_has_labels_within_a_word() {
    let mut document = byte_level();
    document["added_tokens"] = json!([flags("ab", 256, false)]);
    document["added_tokens"][0]["single_word"] = json!(true);
    let tokenizer = opened(&document).unwrap();
    let (mut ids, mut labelled) = (Vec::new(), Vec::new());
    tokenizer
        .encode_labelled(
            "éab ab",
            std::slice::from_ref(&(2..3)),
            SpecialInText::Text,
            &mut ids,
            &mut labelled,
        )
        .unwrap();
    assert_eq!(ids, [0xc3, 0xa9, 256, 0x20, 256]);
    assert_eq!(labelled, [false, false, true, false, false]);
}

#[test]
fn encoding_ends_where_it_is_asked_to_stop() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    let tokenizer = opened(&byte_level()).unwrap();
    let text = "abc ".repeat(PIECE_BYTES);
    let checks = AtomicUsize::new(0);
    let is_stopped = || checks.fetch_add(1, Ordering::Relaxed) == 2;
    let error = tokenizer
        .encode_long(&text, SpecialInText::Text, 1, is_stopped, &mut Vec::new())
        .unwrap_err();
    assert!(matches!(error, Error::Stopped), "{error}");
}
