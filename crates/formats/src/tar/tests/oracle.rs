//! Round trips with the `tar` crate: it reads what this crate writes, and the reverse.

use std::io::Read;

use ::tar::{Archive, Builder, EntryType, Header};
use proptest::collection::vec;
use proptest::prelude::*;

use super::{archive_of, payload, walk};

type Files = Vec<(String, Vec<u8>)>;

fn files() -> impl Strategy<Value = Files> {
    // Lengths around the sizes of the name fields (100, 155 + 1 + 100) and of a block.
    let name = prop_oneof![
        // Not `..` or a leading `./`: the `tar` crate rejects the one and drops the other.
        "[a-z0-9][a-z0-9._-]{0,20}",
        "[a-z]{1,9}/[äöü日本🦀a-z ]{1,60}",
        "[a-z]{95,105}",
        "[a-z]{1,90}/[a-z]{60,99}",
        "([a-zé]{1,80}/){2,8}[a-z]{1,90}",
    ];
    let size = prop_oneof![0_usize..3, 510_usize..515, 1000_usize..3000];
    let file = (name, size, any::<u8>()).prop_map(|(name, size, fill)| (name, vec![fill; size]));
    vec(file, 0..6)
}

/// Name, payload offset and size of each file, as the `tar` crate sees it.
fn seen_by_oracle(archive: &[u8]) -> Vec<(String, u64, Vec<u8>)> {
    let mut seen = Vec::new();
    for entry in Archive::new(archive).entries().unwrap() {
        let mut entry = entry.unwrap();
        if entry.header().entry_type() != EntryType::Regular {
            continue;
        }
        let name = String::from_utf8(entry.path_bytes().into_owned()).unwrap();
        let offset = entry.raw_file_position();
        let mut body = Vec::new();
        entry.read_to_end(&mut body).unwrap();
        seen.push((name, offset, body));
    }
    seen
}

fn seen_by_us(archive: &[u8]) -> Vec<(String, u64, Vec<u8>)> {
    let members = walk(archive).sound();
    members.into_iter().map(|m| (m.name.clone(), m.offset, payload(archive, &m))).collect()
}

fn assert_same(archive: &[u8], files: &Files) {
    let ours = seen_by_us(archive);
    assert_eq!(ours, seen_by_oracle(archive));
    let read: Files = ours.into_iter().map(|(name, _, body)| (name, body)).collect();
    assert_eq!(&read, files);
}

fn header_for(mut header: Header, body: &[u8]) -> Header {
    header.set_size(body.len() as u64);
    header.set_mode(0o644);
    header.set_cksum();
    header
}

proptest! {
    #[test]
    fn what_we_write_the_tar_crate_reads(files in files()) {
        assert_same(&archive_of(&files), &files);
    }

    #[test]
    fn gnu_archives_of_the_tar_crate_are_read(files in files()) {
        let mut builder = Builder::new(Vec::new());
        for (name, body) in &files {
            let mut header = header_for(Header::new_gnu(), body);
            builder.append_data(&mut header, name, body.as_slice()).unwrap();
        }
        assert_same(&builder.into_inner().unwrap(), &files);
    }

    #[test]
    fn ustar_archives_of_the_tar_crate_are_read(files in files()) {
        let mut builder = Builder::new(Vec::new());
        let mut stored = Vec::new();
        for (name, body) in files {
            let mut header = Header::new_ustar();
            // Names that cannot be split into prefix and name have no ustar form.
            if header.set_path(&name).is_err() {
                continue;
            }
            builder.append(&header_for(header, &body), body.as_slice()).unwrap();
            stored.push((name, body));
        }
        assert_same(&builder.into_inner().unwrap(), &stored);
    }

    #[test]
    fn pax_archives_of_the_tar_crate_are_read(files in files()) {
        let mut builder = Builder::new(Vec::new());
        for (name, body) in &files {
            let size = body.len().to_string();
            let records =
                [("mtime", &b"1.5"[..]), ("path", name.as_bytes()), ("size", size.as_bytes())];
            builder.append_pax_extensions(records).unwrap();
            let mut header = Header::new_ustar();
            header.set_path("replaced").unwrap();
            builder.append(&header_for(header, body), body.as_slice()).unwrap();
        }
        assert_same(&builder.into_inner().unwrap(), &files);
    }
}
