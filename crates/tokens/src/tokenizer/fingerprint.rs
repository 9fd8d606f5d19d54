//! What determines ids, as 32 hexadecimal digits.

use serde_json::Value;
use sha2::{Digest, Sha256};

/// Keys that do not change ids, or that are not applied.
const WITHOUT: [&str; 3] = ["version", "truncation", "padding"];

/// Of a `tokenizer.json`: order of keys, white space and spelling of numbers do not matter.
pub(crate) fn of_json(value: &Value) -> String {
    let mut hash = Sha256::new();
    hash.update(b"tokenizer.json\0");
    if let Value::Object(root) = value {
        let mut keys: Vec<&String> =
            root.keys().filter(|key| !WITHOUT.contains(&key.as_str())).collect();
        keys.sort_unstable();
        for key in keys {
            add_text(&mut hash, key);
            if let Some(value) = root.get(key) {
                add(&mut hash, value);
            }
        }
    }
    digits(hash)
}

/// Of a file of another format.
pub(crate) fn of_bytes<'a>(
    kind: &str,
    bytes: &[u8],
    pattern: &str,
    special_tokens: impl Iterator<Item = (&'a str, u32)>,
) -> String {
    let mut hash = Sha256::new();
    add_text(&mut hash, kind);
    hash.update((bytes.len() as u64).to_le_bytes());
    hash.update(bytes);
    add_text(&mut hash, pattern);
    for (token, id) in special_tokens {
        add_text(&mut hash, token);
        hash.update(id.to_le_bytes());
    }
    digits(hash)
}

/// With what the settings of a directory change.
pub(crate) fn with_changes(fingerprint: String, changes: &[String]) -> String {
    if changes.is_empty() {
        return fingerprint;
    }
    let mut hash = Sha256::new();
    add_text(&mut hash, &fingerprint);
    changes.iter().for_each(|change| add_text(&mut hash, change));
    digits(hash)
}

fn add(hash: &mut Sha256, value: &Value) {
    match value {
        Value::Null => hash.update(b"n"),
        Value::Bool(value) => hash.update(if *value { b"t" } else { b"f" }),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => {
                hash.update(b"i");
                hash.update(whole.to_le_bytes());
            }
            (None, Some(float)) => {
                hash.update(b"d");
                hash.update(float.to_bits().to_le_bytes());
            }
            (None, None) => add_text(hash, &number.to_string()),
        },
        Value::String(text) => {
            hash.update(b"s");
            add_text(hash, text);
        }
        Value::Array(items) => {
            hash.update(b"[");
            hash.update((items.len() as u64).to_le_bytes());
            items.iter().for_each(|item| add(hash, item));
        }
        Value::Object(entries) => {
            hash.update(b"{");
            hash.update((entries.len() as u64).to_le_bytes());
            let mut entries: Vec<(&String, &Value)> = entries.iter().collect();
            entries.sort_unstable_by_key(|(key, _)| *key);
            for (key, value) in entries {
                add_text(hash, key);
                add(hash, value);
            }
        }
    }
}

fn add_text(hash: &mut Sha256, text: &str) {
    hash.update((text.len() as u64).to_le_bytes());
    hash.update(text);
}

fn digits(hash: Sha256) -> String {
    hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}
