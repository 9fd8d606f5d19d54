//! Any payload: facts are found or refused, agree with the probe of sizes, and an orientation only
//! exchanges the sides.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shardmill_images::{FactsProbe, ImageFormat, image_facts, image_size, page_facts, page_tags};

fuzz_target!(|payload: &[u8]| {
    if let Ok(tags) = page_tags(payload, 0) {
        for tag in [258, 273, 320, 324, 347, 700] {
            assert!(tags.bytes(tag).is_none_or(|bytes| bytes.len() <= payload.len()));
            let _ = tags.numbers(tag);
        }
    }
    let _ = page_facts(payload, 1);
    let mut probe = FactsProbe::new(payload.len() as u64);
    while let Some(range) = probe.needs() {
        probe.push(&payload[range.start as usize..range.end as usize]);
    }
    let probed = probe.finish();
    let Ok(facts) = image_facts(payload) else { return };
    if facts.format != ImageFormat::Tiff {
        assert_eq!(probed, Ok(facts));
    }
    assert!((1..=8).contains(&facts.orientation));
    let turned = facts.orientation > 4;
    let (width, height) = (facts.stored.width, facts.stored.height);
    assert_eq!(
        (facts.oriented.width, facts.oriented.height),
        if turned { (height, width) } else { (width, height) }
    );
    if !matches!(facts.format, ImageFormat::Tiff | ImageFormat::Gif) {
        assert_eq!(image_size(payload), Ok(facts.stored));
    }
});
