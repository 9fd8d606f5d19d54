//! Any bytes as a `.tiktoken` file: they are refused, or make a tokenizer that encodes and decodes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shardmill_tokens::{Options, Sources, SpecialInText, Tokenizer};
use std::collections::BTreeMap;

fuzz_target!(|bytes: &[u8]| {
    let special_tokens = Some(BTreeMap::from([("<|endoftext|>".to_owned(), 1 << 20)]));
    let options = Options { pattern: Some("gpt2".to_owned()), special_tokens };
    let Ok(tokenizer) = Tokenizer::new(&Sources::file("a.tiktoken", bytes.to_vec()), &options)
    else {
        return;
    };
    let mut ids = Vec::new();
    if tokenizer.encode_into("It's 12 <|endoftext|> x\r\n", SpecialInText::Id, &mut ids).is_ok() {
        assert!(tokenizer.decode(&ids).is_ok());
    }
});
