//! Quoted JSON strings.

const WIDTH: usize = 32;

const fn is_special(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

/// Length of the prefix that needs no escape.
fn plain_len(text: &[u8]) -> usize {
    let (blocks, rest) = text.as_chunks::<WIDTH>();
    let whole = blocks
        .iter()
        .take_while(|block| !block.iter().fold(false, |found, byte| found | is_special(*byte)))
        .count();
    let start = whole * WIDTH;
    let tail = blocks.get(whole).map_or(rest, |block| block.as_slice());
    start + tail.iter().position(|byte| is_special(*byte)).unwrap_or(tail.len())
}

/// `text` as a JSON string. Non-ASCII characters stay as they are.
pub(crate) fn quote(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    let mut rest = text.as_bytes();
    loop {
        let (plain, special) = rest.split_at_checked(plain_len(rest)).unwrap_or((rest, &[]));
        out.extend_from_slice(plain);
        let Some((byte, behind)) = special.split_first() else { break };
        escape(*byte, out);
        rest = behind;
    }
    out.push(b'"');
}

/// `text` as an ASCII-only JSON string.
pub(super) fn quote_ascii(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    write_ascii(text, out);
    out.push(b'"');
}

/// The content of an ASCII-only string.
pub(super) fn write_ascii(text: &str, out: &mut Vec<u8>) {
    for character in text.chars() {
        match u8::try_from(character) {
            Ok(byte @ b' '..=b'~') if !is_special(byte) => out.push(byte),
            Ok(byte) if byte < 0x80 => escape(byte, out),
            _ => character
                .encode_utf16(&mut [0; 2])
                .iter()
                .for_each(|unit| out.extend_from_slice(format!("\\u{unit:04x}").as_bytes())),
        }
    }
}

fn escape(byte: u8, out: &mut Vec<u8>) {
    let short = match byte {
        b'"' => b'"',
        b'\\' => b'\\',
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        0x08 => b'b',
        0x0c => b'f',
        _ => {
            out.extend_from_slice(format!("\\u{byte:04x}").as_bytes());
            return;
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_text_is_what_serde_json_reads_back(text in ".{0,80}|[\\x00-\\x7f]{0,100}") {
            let mut quoted = Vec::new();
            quote(&text, &mut quoted);
            prop_assert_eq!(serde_json::from_slice::<String>(&quoted).unwrap(), text);
        }
    }
}
