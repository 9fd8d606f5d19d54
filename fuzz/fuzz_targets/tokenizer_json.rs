//! Any bytes as `tokenizer.json`: they are refused, or make a tokenizer that encodes and decodes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shardmill_tokens::{Options, Sources, SpecialInText, Tokenizer};

fuzz_target!(|bytes: &[u8]| {
    let sources = Sources::file("tokenizer.json", bytes.to_vec());
    let Ok(tokenizer) = Tokenizer::new(&sources, &Options::default()) else { return };
    let mut ids = Vec::new();
    if tokenizer.encode_into("It's 12 \u{1f600} x\r\n", SpecialInText::Id, &mut ids).is_ok() {
        assert!(tokenizer.decode(&ids).is_ok());
    }
    assert_eq!(
        Tokenizer::new(&sources, &Options::default()).expect("as before").fingerprint(),
        tokenizer.fingerprint()
    );
});
