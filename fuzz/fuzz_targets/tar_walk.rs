//! Any bytes as an archive: the walk ends, asks only for ranges inside it, and its members lie inside it.

#![no_main]

use libfuzzer_sys::fuzz_target;
use shardmill_formats::tar::Walk;

fuzz_target!(|archive: &[u8]| {
    let mut walk = Walk::new(archive.len() as u64).reading_on(archive.len() % 2 == 1);
    let mut position = None;
    while let Some(range) = walk.needs() {
        assert!(position < Some(range.start), "the walk stands still");
        position = Some(range.start);
        let bytes = &archive[range.start as usize..range.end as usize];
        match walk.push(bytes) {
            Ok(Some(member)) => {
                let end = member.offset.checked_add(member.size).expect("no overflow");
                assert!(member.header_offset < member.offset && end <= archive.len() as u64);
            }
            Ok(None) => {}
            Err(error) => assert!(!error.ends_walk() || walk.needs().is_none()),
        }
    }
});
