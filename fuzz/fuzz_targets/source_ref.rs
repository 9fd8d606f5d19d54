//! Any text as a locator: it parses or is refused; what it parses to survives its own spelling, and
//! its range never overflows.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shardmill_documents::source_ref::SourceRef;

fuzz_target!(|text: &str| {
    let Ok(locator) = SourceRef::parse(Some(text)) else { return };
    if let Some(range) = locator.range() {
        assert!(range.start < range.end && locator.member.is_some());
    }
    let spelled = locator.to_json();
    assert!(spelled.is_ascii());
    assert_eq!(SourceRef::parse(Some(&spelled)), Ok(locator));
});
