//! Any bytes as a SentencePiece `.model`: they are refused, or make a tokenizer
//! that encodes and decodes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shardmill_tokens::{Options, Sources, SpecialInText, Tokenizer};

fuzz_target!(|bytes: &[u8]| {
    let Ok(tokenizer) =
        Tokenizer::new(&Sources::file("a.model", bytes.to_vec()), &Options::default())
    else {
        return;
    };
    let mut ids = Vec::new();
    if tokenizer.encode_into("It's 12  x\r\n", SpecialInText::Text, &mut ids).is_ok() {
        assert!(tokenizer.decode(&ids).is_ok());
    }
});
