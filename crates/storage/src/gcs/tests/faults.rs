//! Servers and networks that go wrong.

use super::server::{Fault, Server};
use super::*;
use crate::gcs::connection::{Asked, Connection, Version};
use crate::gcs::site::bearer;
use std::io::{self, Read};
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};

fn opened_under(fault: Fault) -> (Server, Result<GcsObject>) {
    let server = Server::start(content());
    server.state().faults.push_back(fault);
    let opened = open(&server);
    (server, opened)
}

fn open_then(faults: impl IntoIterator<Item = Fault>) -> (Server, GcsObject) {
    let server = Server::start(content());
    let object = open(&server).unwrap();
    server.take_ranges();
    server.state().faults.extend(faults);
    (server, object)
}

#[test]
fn missing_object_is_not_found() {
    let (server, opened) = opened_under(Fault::Status(404));
    let error = opened.unwrap_err();
    assert!(matches!(&error, Error::NotFound { path } if path == PATH) && error.hint().unwrap().contains("bucket"));
    assert_eq!(server.take_ranges().len(), 1);
}

#[test]
fn object_that_may_not_be_read_is_a_permission_error_that_names_the_variable() {
    for status in [401, 403] {
        let (server, opened) = opened_under(Fault::Status(status));
        let error = opened.unwrap_err();
        assert_eq!(error.io_kind(), Some(io::ErrorKind::PermissionDenied));
        assert!(error.hint().unwrap().contains("GOOGLE_OAUTH_ACCESS_TOKEN"));
        assert_eq!(server.take_ranges().len(), 1);
    }
}

#[test]
fn passing_faults_are_tried_again_over_the_same_connection_where_it_is_left() {
    let (server, object) = open_then([Fault::Status(503), Fault::Status(429)]);
    assert_eq!(read(&object, 0..9).unwrap(), bytes(0..9));
    assert_eq!(server.take_ranges(), ["bytes=0-8"; 3]);
    assert_eq!(server.state().connections, 1);
    let (server, object) = open_then([Fault::HangUp, Fault::Short(3)]);
    assert_eq!(object.read_ranges(&[0..9, 100..109]).unwrap(), [bytes(0..9), bytes(100..109)]);
    assert_eq!(server.take_ranges(), ["bytes=0-108"; 3]);
    assert_eq!(server.state().connections, 3);
}

#[test]
fn three_failures_are_an_error_that_says_where_and_why() {
    let (server, object) = open_then([Fault::Status(503), Fault::Status(503), Fault::Status(503)]);
    let Err(Error::Read { path, offset: 7, len: 2, source }) = read(&object, 7..9) else { panic!("a read error is due") };
    assert!(path == PATH && source.to_string().contains("503") && source.to_string().contains(&server.base));
    assert_eq!(server.take_ranges().len(), 3);
    assert_eq!(read(&object, 7..9).unwrap(), bytes(7..9));
}

#[test]
fn short_body_is_never_taken_for_the_whole() {
    let (_server, object) = open_then([Fault::Short(1), Fault::Short(1), Fault::Short(1)]);
    assert!(matches!(read(&object, 0..9), Err(Error::Read { .. })));
    let (server, object) = open_then([Fault::Short(1), Fault::Short(1), Fault::Short(1)]);
    assert!(matches!(object.read_ranges(&[0..9, 50..59]), Err(Error::Read { .. })));
    assert_eq!(server.take_ranges().len(), 3);
}

#[test]
fn server_that_is_not_there_is_an_open_error_that_names_it() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let site = Site { base: base.clone(), authorization: || Ok(None), backoff: Duration::from_millis(1) };
    let Err(Error::Open { source, .. }) = GcsObject::open(PATH, TAIL, &site) else { panic!("an open error is due") };
    assert!(source.kind() == io::ErrorKind::ConnectionRefused && source.to_string().contains(&base), "{source}");
}

#[test]
fn object_of_another_size_or_generation_is_changed_and_never_read() {
    let (server, object) = open_then([]);
    server.state().object.truncate(1000);
    assert!(matches!(read(&object, 0..9), Err(Error::Changed { .. })));
    assert!(matches!(read(&object, 5000..5009), Err(Error::Changed { .. })));
    let server = Server::start(content());
    server.state().generation = Some(1);
    let object = open(&server).unwrap();
    server.state().generation = Some(2);
    assert!(matches!(object.read_ranges(&[0..1, 5..9]), Err(Error::Changed { .. })));
    assert_eq!(read(&object, SIZE - 9..SIZE).unwrap(), bytes(SIZE - 9..SIZE));
}

#[test]
fn hostile_content_range_is_an_error_at_once() {
    let end = SIZE - 1;
    for header in [
        "bytes 0-0/0".to_owned(),
        format!("bytes */{SIZE}"),
        format!("bytes {}-{end}/*", SIZE - TAIL),
        format!("bytes {}-{end}/{SIZE}", SIZE - TAIL + 1),
        format!("bytes {}-{}/{SIZE}", SIZE - TAIL, end - 1),
        "bytes 18446744073708503038-18446744073709551614/18446744073709551615".to_owned(),
        "bytes 0-18446744073709551615/18446744073709551616".to_owned(),
        "nonsense".to_owned(),
    ] {
        let (server, opened) = opened_under(Fault::ContentRange(header.clone()));
        // A size that nobody can check is believed, but no byte is that was not sent.
        match opened {
            Ok(object) => assert!(object.size() == u64::MAX && object.read_at(0, &mut [0; 9]).is_err(), "{header}"),
            Err(error) => assert!(matches!(error, Error::Open { .. }), "{header}"),
        }
        assert!(server.take_ranges().len() <= 2, "{header}");
    }
    for header in ["bytes 1-9/3145728", "bytes 0-9/3145728", "bytes 0-7/3145728", "bytes 0-8/*"] {
        let (server, object) = open_then([Fault::ContentRange(header.to_owned())]);
        assert!(matches!(read(&object, 0..9), Err(Error::Read { .. })), "{header}");
        assert_eq!(server.take_ranges().len(), 1);
    }
}

#[test]
fn length_that_cannot_be_had_does_not_end_the_process() {
    let size = u64::MAX;
    let (_server, opened) = opened_under(Fault::ContentRange(format!("bytes {}-{}/{size}", size - TAIL, size - 1)));
    let object = opened.unwrap();
    assert!(object.read_ranges(std::slice::from_ref(&(0..size - TAIL))).is_err());
}

#[test]
fn whole_object_is_taken_for_a_tail_that_covers_it_and_refused_otherwise() {
    let server = Server::start(content());
    server.state().faults.push_back(Fault::Whole);
    let object = GcsObject::open(PATH, SIZE, &site(&server)).unwrap();
    assert_eq!(read(&object, 0..SIZE).unwrap(), content());
    for fault in [Fault::Whole, Fault::WholeWithoutLength] {
        assert!(matches!(opened_under(fault).1, Err(Error::Open { .. })));
    }
    let (server, object) = open_then([Fault::Whole]);
    assert!(read(&object, 0..9).is_err());
    assert_eq!(server.take_ranges().len(), 1);
    assert_eq!(read(&object, 0..9).unwrap(), bytes(0..9));
}

#[test]
fn redirect_is_not_followed() {
    let (server, opened) = opened_under(Fault::Redirect);
    let Err(Error::Open { source, .. }) = opened else { panic!("an open error is due") };
    assert!(source.to_string().contains("307"));
    assert_eq!(server.take_ranges().len(), 1);
}

#[test]
fn token_that_was_renewed_is_taken_up_when_the_old_one_expires() {
    static IS_RENEWED: AtomicBool = AtomicBool::new(false);
    let server = Server::start(content());
    server.state().token = "old".to_owned();
    let authorization = || Ok(bearer(if IS_RENEWED.load(Ordering::SeqCst) { "new" } else { "old" }));
    let object = GcsObject::open(PATH, TAIL, &Site { authorization, ..site(&server) }).unwrap();
    server.state().token = "new".to_owned();
    assert!(matches!(read(&object, 0..9), Err(Error::Denied { status: 401, .. })));
    IS_RENEWED.store(true, Ordering::SeqCst);
    assert_eq!(read(&object, 0..9).unwrap(), bytes(0..9));
    assert!(!format!("{object:?}").contains("new"));
    let sent: Vec<_> = server.state().authorizations.iter().flatten().cloned().collect();
    assert_eq!(sent, ["Bearer old", "Bearer old", "Bearer old", "Bearer new"]);
}

#[test]
fn child_process_gets_a_connection_of_its_own_even_while_its_parent_held_the_lock() {
    let server = Server::start(content());
    let site = site(&server);
    let connection = Connection::new(site.url_of(PATH).unwrap(), &site).unwrap();
    let version = Version { size: SIZE, generation: None };
    let get = |process: u32| {
        let drain = |_: &Range<u64>, body: &mut dyn Read| io::copy(body, &mut io::sink());
        connection.get_as(process, &Asked::Span(0..9, &version), drain).unwrap().1
    };
    let parent = std::process::id();
    get(parent);
    connection
        .get_as(parent, &Asked::Span(0..9, &version), |_, body| {
            // As in a child that was forked at this moment: the lock stays taken for ever.
            assert_eq!((get(parent + 1), get(parent + 2), get(parent + 1)), (9, 9, 9));
            io::copy(body, &mut io::sink())
        })
        .unwrap();
    get(parent);
    assert_eq!(server.state().connections, 3);
}
