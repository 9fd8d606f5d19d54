//! Any text as the options of a reader or writer: it is refused, or what a file keeps of it says
//! the same once more.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shardmill_formats::arrayrecord::{ReaderOptions, WriterOptions};

fuzz_target!(|text: &str| {
    let _refused_or_not = ReaderOptions::parse(text);
    let Ok(options) = WriterOptions::parse(text) else { return };
    let recorded = options.recorded();
    match WriterOptions::parse(&recorded) {
        Ok(again) => assert_eq!(again, options, "{recorded}"),
        Err(error) => panic!("{recorded}: {error}"),
    }
});
