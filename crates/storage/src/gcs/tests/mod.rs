//! Objects over a server in this process, which counts requests and connections.

mod faults;
mod server;

use super::object::GcsObject;
use super::site::Site;
use crate::{Error, RangeRead, Result};
use server::Server;
use std::ops::Range;
use std::thread;
use std::time::Duration;

const PATH: &str = "gs://bucket/folder/shard-00000";
const SIZE: u64 = 3 << 20;
const TAIL: u64 = 1 << 20;

fn content() -> Vec<u8> {
    bytes(0..SIZE)
}

/// Each byte tells its place, so that a shifted range shows.
fn bytes(range: Range<u64>) -> Vec<u8> {
    range.map(|position| (position / 4).to_le_bytes()[usize::try_from(position % 4).unwrap()]).collect()
}

fn site(server: &Server) -> Site {
    Site { base: server.base.clone(), authorization: || Ok(None), backoff: Duration::from_millis(1) }
}

fn open(server: &Server) -> Result<GcsObject> {
    GcsObject::open(PATH, TAIL, &site(server))
}

fn read(object: &GcsObject, range: Range<u64>) -> Result<Vec<u8>> {
    let mut buffer = vec![0; usize::try_from(range.end - range.start).unwrap_or_default()];
    object.read_at(range.start, &mut buffer)?;
    Ok(buffer)
}

#[test]
fn opening_is_one_request_for_the_tail_and_tells_the_size() {
    let server = Server::start(content());
    server.state().generation = Some(1_700_000_000_000_000);
    let object = open(&server).unwrap();
    assert_eq!(object.path(), PATH);
    assert_eq!((object.size(), object.identity().modified_ns), (SIZE, 1_700_000_000_000_000_000));
    assert_eq!(server.take_ranges(), ["bytes=-1048576"]);
    assert_eq!(server.state().targets, ["GET /storage/v1/b/bucket/o/folder%2Fshard-00000?alt=media HTTP/1.1"]);
    assert_eq!(server.state().authorizations, [None]);
}

#[test]
fn reads_within_the_tail_cost_no_request_and_what_lies_before_it_costs_one() {
    let server = Server::start(content());
    let object = open(&server).unwrap();
    server.take_ranges();
    for range in [SIZE - TAIL..SIZE, SIZE - 1..SIZE, SIZE - 64..SIZE - 10, SIZE..SIZE, 7..7] {
        assert_eq!(read(&object, range.clone()).unwrap(), bytes(range));
    }
    assert_eq!(server.take_ranges(), [""; 0]);
    assert_eq!(read(&object, SIZE - TAIL - 10..SIZE - TAIL + 10).unwrap(), bytes(SIZE - TAIL - 10..SIZE - TAIL + 10));
    assert_eq!(read(&object, 0..100).unwrap(), bytes(0..100));
    assert_eq!(server.take_ranges(), ["bytes=2097142-2097151", "bytes=0-99"]);
    assert_eq!(server.state().connections, 1);
}

#[test]
fn batch_of_near_ranges_is_one_request_in_the_order_that_was_asked() {
    let server = Server::start(content());
    let object = open(&server).unwrap();
    server.take_ranges();
    let ranges = [SIZE - 5..SIZE, 1000..2000, 0..10, SIZE - TAIL - 1..SIZE - TAIL + 1, 1500..2500, 2000..2000, 1000..2000, 10..20];
    let found = object.read_ranges(&ranges).unwrap();
    assert_eq!(found, ranges.map(bytes));
    assert_eq!(server.take_ranges(), ["bytes=0-2097151"]);
    assert_eq!(object.read_ranges(&[SIZE - 5..SIZE, SIZE - 9..SIZE - 7]).unwrap(), [bytes(SIZE - 5..SIZE), bytes(SIZE - 9..SIZE - 7)]);
    assert!(object.read_ranges(&[]).unwrap().is_empty());
    assert_eq!(server.take_ranges(), [""; 0]);
    assert_eq!(server.state().connections, 1);
}

#[test]
fn tail_longer_than_the_object_is_all_of_it_and_a_tail_of_nothing_still_opens() {
    let server = Server::start(content());
    let object = GcsObject::open(PATH, 1 << 30, &site(&server)).unwrap();
    assert_eq!(read(&object, 0..SIZE).unwrap(), content());
    assert_eq!(server.take_ranges(), ["bytes=-1073741824"]);
    let object = GcsObject::open(PATH, 0, &site(&server)).unwrap();
    assert_eq!(read(&object, 5..9).unwrap(), bytes(5..9));
    assert_eq!(server.take_ranges(), ["bytes=-1", "bytes=5-8"]);
}

#[test]
fn empty_object_opens_and_holds_nothing() {
    let server = Server::start(Vec::new());
    let object = open(&server).unwrap();
    assert_eq!(object.size(), 0);
    assert!(read(&object, 0..0).unwrap().is_empty());
    assert!(matches!(read(&object, 0..1), Err(Error::ShortRead { .. })));
}

#[test]
fn range_behind_the_end_is_a_short_read_before_any_request_or_reservation() {
    let server = Server::start(content());
    let object = open(&server).unwrap();
    server.take_ranges();
    for range in [SIZE - 1..SIZE + 1, 0..u64::MAX, u64::MAX..u64::MAX, Range { start: 9, end: 8 }] {
        assert!(matches!(object.read_ranges(&[0..1, range]), Err(Error::ShortRead { .. })));
    }
    assert!(matches!(object.read_at(u64::MAX, &mut [0; 2]), Err(Error::ShortRead { .. })));
    assert_eq!(server.take_ranges(), [""; 0]);
}

#[test]
fn many_threads_share_one_connection() {
    let server = Server::start(content());
    let object = open(&server).unwrap();
    thread::scope(|scope| {
        for thread in 0..8 {
            let object = &object;
            scope.spawn(move || {
                for step in 0..20 {
                    let start = thread * 100_000 + step * 1000;
                    assert_eq!(read(object, start..start + 777).unwrap(), bytes(start..start + 777));
                }
            });
        }
    });
    assert_eq!(server.state().ranges.len(), 161);
    assert_eq!(server.state().connections, 1);
}
