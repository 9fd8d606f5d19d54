//! Settings of a directory of a tokenizer.

use super::*;

fn in_directory(config: &Value) -> Result<Tokenizer> {
    let files = [("tokenizer.json", byte_level()), ("tokenizer_config.json", config.clone())];
    let files = files.map(|(name, value)| (name.to_owned(), value.to_string().into_bytes()));
    Tokenizer::new(&Sources::directory("m", files.to_vec()), &Options::default())
}

#[test]
fn setting_of_a_directory_that_is_not_applied_is_refused_by_name() {
    let long = "a".repeat(70_000);
    for (config, expected) in [
        (
            json!({"add_prefix_space": true}),
            "has add_prefix_space: true, which is not supported: the tokenizer.json puts no space \
             before a text",
        ),
        (
            json!({"do_lower_case": true}),
            "has do_lower_case: true, which is not supported: the normalizer of the \
             tokenizer.json behaves differently",
        ),
        (
            json!({"added_tokens_decoder": []}),
            "is not valid: added_tokens_decoder is not an object",
        ),
        (
            json!({"added_tokens_decoder": {"x": {}}}),
            "is not valid: entry \"x\" of added_tokens_decoder is not an id with an object that \
             has content",
        ),
        (
            json!({"added_tokens_decoder": {"300": {"content": "<new>"}}}),
            "is not valid: token \"<new>\" has id 300, but the next id of the tokenizer is 261",
        ),
        (json!({"eos_token": long}), "is not valid: added token \"aaaa"),
    ] {
        let error = in_directory(&config)
            .err()
            .map_or_else(|| "no error".to_owned(), |error| error.to_string());
        assert!(
            error.starts_with("`m/tokenizer") && error.contains(expected) && error.len() < 300,
            "{error}"
        );
    }
}

#[test]
fn tokens_of_a_directory_change_the_fingerprint_if_they_change_ids() {
    let plain = in_directory(&json!({})).unwrap();
    assert_eq!(plain.fingerprint(), opened(&byte_level()).unwrap().fingerprint());
    let same = in_directory(
        &json!({"eos_token": "<eos>", "added_tokens_decoder": {"260": flags("tool", 260, false)}}),
    )
    .unwrap();
    assert_eq!(same.fingerprint(), plain.fingerprint());
    let more = in_directory(&json!({"eos_token": "<end>"})).unwrap();
    assert_ne!(more.fingerprint(), plain.fingerprint());
    assert_eq!(encoded(&more, "a<end>tool", SpecialInText::Id).unwrap(), [97, 261, 260]);
    let split = in_directory(&json!({"split_special_tokens": true})).unwrap();
    assert!(split.check_ids(true).is_err() && plain.check_ids(false).is_ok());
}
