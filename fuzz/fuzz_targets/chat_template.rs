//! Any text as a chat template: it is refused, or its spans are in order and inside of the text.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shardmill_tokens::{ChatTemplate, Conversation};
use std::collections::BTreeMap;

fuzz_target!(|template: &str| {
    let roles = BTreeMap::from([("eos_token".to_owned(), "</s>".to_owned())]);
    let Ok(compiled) = ChatTemplate::new(template, &roles, Some("2026-01-31")) else { return };
    let messages = serde_json::json!([
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b", "tool_calls": [{"x": 1.5}]},
    ]);
    let conversation = Conversation { messages, ..Conversation::default() };
    for rendered in [compiled.render(&conversation), compiled.render_by_prefix(&conversation)]
        .into_iter()
        .flatten()
    {
        let mut end = 0;
        for span in &rendered.spans {
            assert!(span.start >= end && rendered.text.get(span.clone()).is_some());
            end = span.end;
        }
    }
});
