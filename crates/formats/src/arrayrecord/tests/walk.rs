//! Walks over whole files: every chunk is visited, and every changed byte is detected.

use super::*;

fn walked(bytes: Vec<u8>) -> Vec<Walked> {
    let size = bytes.len() as u64;
    let mut walk = ChunkWalk::new(Arc::new(Memory(bytes)));
    let (mut chunks, mut position) = (Vec::new(), 0);
    while position < size {
        let chunk = walk.read(position, |_records| ()).unwrap();
        let end = chunk.as_ref().map_or_else(|damage| damage.end, |chunk| Some(chunk.end));
        chunks.push(chunk);
        let Some(end) = end else { break };
        position = end;
    }
    chunks
}

fn records() -> Vec<Vec<u8>> {
    vec![vec![7; 70_000], vec![], b"last".to_vec()]
}

#[test]
fn walk_meets_signature_chunks_footer_padding_and_postscript() {
    let chunks = walked(write(&records(), &WriterOptions::default()));
    let kinds: Vec<ChunkKind> = chunks.into_iter().map(|chunk| chunk.unwrap().kind).collect();
    let of = |codec| ChunkKind::Records { codec, is_transposed: false };
    let user = [of(Codec::Zstd); 3];
    let expected = [
        &[ChunkKind::Signature],
        &user[..],
        &[of(Codec::Zstd), ChunkKind::Padding, of(Codec::None), ChunkKind::Padding],
    ]
    .concat();
    assert_eq!(kinds, expected);
}

#[test]
fn every_changed_byte_is_detected() {
    let options = WriterOptions { compression: Compression::None, ..WriterOptions::default() };
    let bytes = write(&records(), &options);
    assert!(walked(bytes.clone()).iter().all(Result::is_ok));
    let places = (0..bytes.len())
        .step_by(1009)
        .chain(0..200)
        .chain(65_530..65_570)
        .chain(69_900..70_400)
        .chain(131_072..131_200);
    for place in places {
        let mut damaged = bytes.clone();
        damaged[place] ^= 0x40;
        assert!(walked(damaged).iter().any(Result::is_err), "byte {place}");
    }
}

#[test]
fn damage_after_a_sound_header_gives_the_begin_of_the_next_chunk() {
    let mut bytes = write(
        &records(),
        &WriterOptions { compression: Compression::None, ..WriterOptions::default() },
    );
    let sound = walked(bytes.clone());
    bytes[65_536] ^= 1;
    bytes[200] ^= 1;
    let damaged = walked(bytes);
    assert_eq!(damaged.len(), sound.len());
    assert_eq!(damaged.iter().filter(|chunk| chunk.is_err()).count(), 1);
}

#[test]
fn beginning_of_every_file_is_recognized() {
    let bytes = write(&[], &WriterOptions::default());
    assert!(is_signature(&bytes) && is_signature(&bytes[..64]));
    assert!(!is_signature(&bytes[..63]) && !is_signature(b"PAR1"));
}
