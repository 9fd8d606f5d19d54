//! Any payload: every page that can be copied is a TIFF of one page and of the announced length,
//! which copies to itself.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shardmill_images::{PageCopy, PageExtraction, TiffWalk, extract_page, tiff_index};

/// Overlapping directories make many pages of few bytes; a handful of them
/// shows what there is to see.
const PAGES: usize = 8;

fuzz_target!(|payload: &[u8]| {
    let payload_len = payload.len() as u64;
    let bytes = |range: std::ops::Range<u64>| {
        assert!(range.start < range.end && range.end <= payload_len);
        &payload[range.start as usize..range.end as usize]
    };
    let mut walk = TiffWalk::new(payload_len);
    while let Some(range) = walk.needs() {
        if walk.push(bytes(range)).is_err() {
            return;
        }
    }
    let Ok(index) = walk.finish() else { return };
    assert!(index.page(index.len()).is_err());
    for k in 0..index.len().min(PAGES) {
        let size = index.page(k).expect("the page is counted").size();
        let Ok(mut extraction) = PageExtraction::new(&index, k) else {
            continue;
        };
        while let Some(range) = extraction.needs() {
            if extraction.push(bytes(range)).is_err() {
                break;
            }
        }
        let Ok(plan) = extraction.finish() else {
            continue;
        };
        let copy = extract_page(payload, k).expect("the plan was made");
        assert_eq!(copy.len() as u64, plan.len(payload_len));
        if let PageCopy::Pieces { head, segments } = plan {
            assert!(copy.len() <= head.len() + payload.len());
            assert!(segments.iter().all(|range| range.end <= payload_len));
            let copied = tiff_index(&copy).expect("the copy is a TIFF");
            assert_eq!(copied.len(), 1);
            assert_eq!(copied.page(0).and_then(|page| page.size()).ok(), size.ok());
            assert_eq!(extract_page(&copy, 0).as_deref(), Ok(&copy[..]));
        }
    }
});
