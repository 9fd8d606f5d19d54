//! Any bytes as an archive: the walk ends, asks only for ranges inside it, and its members and
//! links lie inside it.

#![no_main]

use libfuzzer_sys::fuzz_target;
use shardmill_formats::tar::{Entry, Links, Walk};

fuzz_target!(|archive: &[u8]| {
    let mut walk = Walk::new(archive.len() as u64).reading_on(archive.len() % 2 == 1);
    let mut position = None;
    let (mut links, mut targets) = (Links::default(), Vec::new());
    while let Some(range) = walk.needs() {
        assert!(position < Some(range.start), "the walk stands still");
        position = Some(range.start);
        let bytes = &archive[range.start as usize..range.end as usize];
        match walk.push(bytes) {
            Ok(Some(entry)) => {
                targets.extend(links.note(&entry));
                if let Entry::File(member) = entry {
                    let end = member.offset.checked_add(member.size).expect("no overflow");
                    assert!(member.header_offset < member.offset && end <= archive.len() as u64);
                }
            }
            Ok(None) => {}
            Err(error) => assert!(!error.ends_walk() || walk.needs().is_none()),
        }
    }
    for target in &targets {
        if let Ok(Some((offset, size))) = links.file(target) {
            assert!(offset + size <= archive.len() as u64, "a link leads outside");
        }
    }
});
