//! What holds for a payload of one format: pixels of the announced size or an error, the same from
//! a used decoder as from a new one, and for a part as for all.

use shardmill_images::{ImageFormat, sniff};
use shardmill_pixels::decode::{Channels, Damaged, DecodeOptions, Decoder, Part};

/// Small enough for many runs a second.
const MAX_PIXELS: u64 = 1 << 18;

thread_local! {
    static USED: std::cell::RefCell<Decoder> = std::cell::RefCell::new(Decoder::new());
}

/// The last byte of `input` selects the options; the payload comes first, so that files are seeds.
/// Bit 3 is unused, so that stored inputs keep their meaning.
pub fn check(format: ImageFormat, input: &[u8]) {
    let Some((flags, payload)) =
        input.split_last().filter(|(_, payload)| sniff(payload) == Some(format))
    else {
        return;
    };
    let bit = |k: u8| flags >> k & 1 == 1;
    let options = DecodeOptions {
        channels: if bit(0) { Channels::Gray } else { Channels::Rgb },
        background: bit(1).then_some([255, 0, 128]),
        orientation: bit(2),
        damaged: if bit(4) { Damaged::Accept } else { Damaged::Error },
        max_pixels: MAX_PIXELS,
        page: usize::from(bit(5)),
    };
    let denominator = if bit(6) { 4 } else { 1 };
    let mut fresh = Decoder::new();
    let once = fresh.decode(payload, &options, |_, _| Part { denominator, ..Part::WHOLE });
    USED.with_borrow_mut(|used| {
        let again = used.decode(payload, &options, |_, _| Part { denominator, ..Part::WHOLE });
        match (once, again) {
            (Ok(once), Ok(again)) => {
                assert_eq!(
                    once.pixels.len(),
                    once.width as usize * once.height as usize * once.channels
                );
                // Invented pixels may be whatever was in the buffer.
                if !once.notes.accepted_damage {
                    assert_eq!(once.pixels, again.pixels);
                }
            }
            (Err(once), Err(again)) => assert_eq!(once.cause(), again.cause()),
            (once, again) => {
                panic!("{:?} {:?}", once.map(|image| image.stored), again.map(|image| image.stored))
            }
        }
    });
    let whole = fresh
        .decode(payload, &options, |_, _| Part { denominator, ..Part::WHOLE })
        .map(|image| (image.width as usize, image.height as usize, image.pixels.to_vec()));
    let (width, height) = whole.as_ref().map_or((3, 3), |(width, height, _)| (*width, *height));
    let columns = width / 3..width / 3 + width.div_ceil(3);
    let mut cropping = Decoder::new();
    let part = Part {
        denominator,
        columns: Some(columns.clone()),
        rows: bit(7).then_some(height / 2..height),
    };
    match (whole, cropping.decode(payload, &options, |_, _| part)) {
        (Ok((_, _, whole)), Ok(part)) if !part.notes.accepted_damage => {
            let (row, of_region) = (width * part.channels, part.region.width * part.channels);
            let first = (columns.start - part.region.left) * part.channels;
            for (whole, part_row) in
                whole.chunks(row).skip(part.region.top).zip(part.pixels.chunks(of_region))
            {
                let bytes = columns.start * part.channels..columns.end * part.channels;
                assert_eq!(whole[bytes.clone()], part_row[first..first + bytes.len()]);
            }
        }
        (Ok(_), Ok(_)) => {}
        // Damage below the rows of a part is not found.
        (Err(_), _) if bit(7) => {}
        (Err(whole), Err(part)) => assert_eq!(whole.cause(), part.cause()),
        (whole, part) => {
            panic!("{:?} {:?}", whole.map(|image| image.0), part.map(|image| image.stored))
        }
    }
}
