//! Any bytes as `tekken.json`: they are refused, or make a tokenizer that encodes and decodes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shardmill_tokens::{Options, Sources, SpecialInText, Tokenizer};

fuzz_target!(|bytes: &[u8]| {
    let sources = Sources::file("tekken.json", bytes.to_vec());
    let Ok(tokenizer) = Tokenizer::new(&sources, &Options::default()) else { return };
    let mut ids = Vec::new();
    if tokenizer.encode_into("It's 12 [INST] x\r\n", SpecialInText::Text, &mut ids).is_ok() {
        assert!(tokenizer.decode(&ids).is_ok());
    }
});
