//! Identifies a job: the checkpoint of another job must not decide what is done.

use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The parts of a job by name: source, stages, sink, version and the like.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fingerprint(pub Map<String, Value>);

impl Fingerprint {
    /// # Errors
    /// [`Error::OtherJob`], which names the values that differ.
    pub fn check(&self, now: &Self, path: &str) -> Result<()> {
        let mut differences = Vec::new();
        compare_maps("", &self.0, &now.0, &mut differences);
        if differences.is_empty() {
            return Ok(());
        }
        let more = differences.len().saturating_sub(MAX_DIFFERENCES);
        differences.truncate(MAX_DIFFERENCES);
        let more = if more > 0 { format!("; and {more} more") } else { String::new() };
        Err(Error::OtherJob {
            path: path.to_owned(),
            differences: format!("{}{more}", differences.join("; ")),
        })
    }
}

/// Messages are read by people.
const MAX_TOLD: usize = 200;
const MAX_DIFFERENCES: usize = 5;

/// Adds the innermost values that differ, each with its place.
fn compare(place: &str, was: Option<&Value>, now: Option<&Value>, differences: &mut Vec<String>) {
    match (was, now) {
        (Some(Value::Object(was)), Some(Value::Object(now))) => {
            compare_maps(place, was, now, differences);
        }
        (Some(Value::Array(was)), Some(Value::Array(now))) => {
            for index in 0..was.len().max(now.len()) {
                compare(&format!("{place}[{index}]"), was.get(index), now.get(index), differences);
            }
        }
        _ if was == now => {}
        _ => {
            let told = |value: Option<&Value>| value.map_or_else(|| "nothing".to_owned(), short);
            differences.push(format!("`{place}` was {} and is {}", told(was), told(now)));
        }
    }
}

fn compare_maps(
    place: &str,
    was: &Map<String, Value>,
    now: &Map<String, Value>,
    differences: &mut Vec<String>,
) {
    let dot = if place.is_empty() { "" } else { "." };
    for name in was.keys().chain(now.keys().filter(|name| !was.contains_key(*name))) {
        compare(&format!("{place}{dot}{name}"), was.get(name), now.get(name), differences);
    }
}

fn short(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(MAX_TOLD) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn told(was: &Value, now: &Value) -> String {
        let fingerprint = |value: &Value| Fingerprint(value.as_object().unwrap().clone());
        fingerprint(was)
            .check(&fingerprint(now), "c")
            .map_or_else(|error| error.to_string(), |()| String::new())
    }

    #[test]
    fn only_the_values_that_differ_are_named_with_their_place() {
        let was =
            json!({"stages": [{"filter": {"op": ">", "value": 1}}, {"name": "a"}], "version": "1"});
        let mut now = was.clone();
        assert_eq!(told(&was, &now), "");
        now["stages"][0]["filter"]["value"] = json!(2);
        assert_eq!(
            told(&was, &now),
            "The checkpoint `c` belongs to another job: `stages[0].filter.value` was 1 and is 2"
        );
        now = json!({"stages": [was["stages"][0]], "version": "1", "new": {"x": 1}});
        let expected =
            r#"`stages[1]` was {"name":"a"} and is nothing; `new` was nothing and is {"x":1}"#;
        assert_eq!(
            told(&was, &now),
            format!("The checkpoint `c` belongs to another job: {expected}")
        );
        let many = |value: u8| json!({"x": vec![value; 9]});
        assert!(told(&many(1), &many(2)).ends_with("`x[4]` was 1 and is 2; and 4 more"));
    }
}
