//! Any payload: the probe asks only for what is inside, ends, and agrees
//! with the walk of TIFF pages.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shardmill_images::{SizeProbe, tiff_index};

fuzz_target!(|payload: &[u8]| {
    let mut probe = SizeProbe::new(payload.len() as u64);
    while let Some(range) = probe.needs() {
        assert!(range.start < range.end && range.end <= payload.len() as u64);
        probe.push(&payload[range.start as usize..range.end as usize]);
    }
    let size = probe.finish();
    if let Ok(index) = tiff_index(payload) {
        assert_eq!(size.ok(), index.page(0).and_then(|page| page.size()).ok());
    }
});
