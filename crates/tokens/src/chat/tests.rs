//! Templates and conversations.

use super::{ChatTemplate, Conversation};
use crate::error::{Error, Result};
use serde_json::{Value, json};
use std::collections::BTreeMap;

fn template(text: &str) -> Result<ChatTemplate> {
    let roles = BTreeMap::from([("eos_token".to_owned(), "<eos>".to_owned())]);
    ChatTemplate::new(text, &roles, None)
}

fn rendered(text: &str, messages: Value) -> Result<(String, Vec<String>)> {
    let rendered = template(text)?.render(&Conversation { messages, ..Conversation::default() })?;
    let spans = rendered.spans.iter().map(|span| rendered.text[span.clone()].to_owned()).collect();
    Ok((rendered.text, spans))
}

fn reason(outcome: Result<(String, Vec<String>)>) -> String {
    outcome.err().map_or_else(|| "no error".to_owned(), |error| error.to_string())
}

const TURNS: &str = "{% for message in messages %}
    {%- if message.role == 'assistant' %}
[A]{% generation %}{{ message.content }}{{ eos_token }}{%- endgeneration %}
    {%- else %}
[U]{{ message['content'] | trim }}
    {%- endif %}
{% endfor %}
{# {% generation %} in a comment #}{{ '{% generation %}' }}";

#[test]
fn generation_blocks_become_spans() {
    let messages = json!([
        {"role": "user", "content": " Hi "},
        {"role": "assistant", "content": "Hello\u{fdd0}", "tool_calls": null},
    ]);
    let (text, spans) = rendered(TURNS, messages).unwrap();
    assert_eq!(text, "[U]Hi[A]Hello\u{fdd0}<eos>{% generation %}");
    assert_eq!(spans, ["Hello\u{fdd0}<eos>"]);
}

#[test]
fn span_that_the_template_changes_is_refused() {
    const TURN: &str = "{% generation %}{{ messages[0].content }}{% endgeneration %}";
    for text in [
        format!("{{% set turn %}}{TURN}{{% endset %}}{{{{ turn | length }}}}"),
        format!("{{% macro turn() %}}{TURN}{{% endmacro %}}{{{{ turn() | length }}}}"),
        format!("{{% filter length %}}{TURN}{{% endfilter %}}"),
        format!(
            "{{% for turn in [[1]] recursive %}}{{% if turn is iterable %}}\
             {{{{ loop(turn) | length }}}}{{% else %}}{TURN}{{% endif %}}{{% endfor %}}"
        ),
        format!("{{{{ '\\ufdd0' }}}}{TURN}{{{{ '\\ufdd1' }}}}"),
    ] {
        let outcome = rendered(&text, json!([{"role": "assistant", "content": "abc"}]));
        assert!(matches!(outcome, Err(Error::TemplateSpans)), "{text}: {outcome:?}");
    }
}

#[test]
fn row_with_all_noncharacters_is_refused_by_their_names() {
    let content: String = ('\u{fdd0}'..='\u{fdef}').collect();
    let error = rendered(
        TURNS,
        json!([{"role": "user", "content": content}, {"role": "assistant", "content": "ok"}]),
    )
    .unwrap_err();
    assert!(
        error.to_string().starts_with("The row has all noncharacters from U+FDD0 to U+FDEF"),
        "{error}"
    );
    assert_eq!(error.hint().unwrap(), "remove the noncharacters, or filter the row out");
}

#[test]
fn failing_template_names_its_line() {
    let user = || json!([{"role": "user", "content": "x"}]);
    assert_eq!(
        reason(rendered("a\n{{ raise_exception('no tools') }}", user())),
        "The chat template fails on line 2: no tools"
    );
    assert!(
        reason(rendered(
            "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
            user()
        ))
        .contains("fuel")
    );
    assert!(
        reason(rendered("\n{{ 'a'.nothing() }}", user()))
            .starts_with("The chat template fails on line 2: ")
    );
    assert!(
        reason(rendered("{% if %}", user())).starts_with("The chat template fails on line 1: ")
    );
    assert_eq!(
        reason(rendered("{{ [1] | pprint }}", user())),
        "The chat template fails on line 1: filter pprint is unknown"
    );
    let date = template("{{ strftime_now('%Y') }}").unwrap_err();
    assert_eq!(date.hint().unwrap(), "pass now=\"2026-01-31\", or another date");
    let unknown =
        ChatTemplate::new("\n{{ strftime_now('%d %Q') }}", &BTreeMap::new(), Some("2026-01-31"))
            .unwrap_err();
    assert_eq!(
        unknown.to_string(),
        "The chat template fails on line 2: strftime_now has an unknown directive in \"%d %Q\""
    );
    let dated =
        ChatTemplate::new("{{ strftime_now('%d %b %Y') }}", &BTreeMap::new(), Some("2026-01-31"))
            .unwrap();
    assert_eq!(
        dated
            .render(&Conversation { messages: json!([]), ..Conversation::default() })
            .unwrap()
            .text,
        "31 Jan 2026"
    );
}

#[test]
fn invalid_message_is_named() {
    let cases = [
        (json!(null), "The messages are not a list"),
        (json!(["x"]), "Message 0 is not an object"),
        (json!([{"role": "user"}, {"role": null}]), "Message 1 has no role"),
        (
            json!([{"role": "user", "content": [{"type": "image"}]}]),
            "Message 0 has a part of type \"image\", but only text can be encoded",
        ),
    ];
    for (messages, expected) in cases {
        assert_eq!(reason(rendered("", messages)), expected);
    }
}

#[test]
fn values_are_written_as_by_json_dumps() {
    let messages = json!([{"role": "user", "content": {"b": [1, 2.0, 1e20, true], "a": "é\"\n<"}}]);
    let text = "{{ messages[0].content | tojson }}|\
        {{ messages[0].content | tojson(indent=1, sort_keys=true) }}|{{ [] | tojson(indent=4) }}";
    let expected = "{\"b\": [1, 2.0, 1e+20, true], \"a\": \"é\\\"\\n<\"}|{\n \"a\": \
        \"é\\\"\\n<\",\n \"b\": [\n  1,\n  2.0,\n  1e+20,\n  true\n ]\n}|[]";
    assert_eq!(rendered(text, messages).unwrap().0, expected);
}

#[test]
fn turns_follow_from_prefixes() {
    let text = "{% for m in messages %}<{{ m.role }}>{{ m.content }}</>{% endfor %}\
        {% if add_generation_prompt %}<assistant>{% endif %}";
    let messages = json!([
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b"},
        {"role": "user", "content": "c"},
    ]);
    let template = template(text).unwrap();
    let rendered =
        template.render_by_prefix(&Conversation { messages, ..Conversation::default() }).unwrap();
    assert_eq!(
        rendered.spans.iter().map(|span| &rendered.text[span.clone()]).collect::<Vec<_>>(),
        ["b</>"]
    );
    let messages = json!([
        {"role": "assistant", "content": "a"},
        {"role": "user", "content": "b"},
        {"role": "assistant", "content": "c"},
        {"role": "user", "content": "d"},
    ]);
    let rendered =
        template.render_last_turn(&Conversation { messages, ..Conversation::default() }).unwrap();
    assert_eq!(
        rendered.spans.iter().map(|span| &rendered.text[span.clone()]).collect::<Vec<_>>(),
        ["c</>"]
    );
    let changing = ChatTemplate::new(
        "{{ messages | length }}{{ messages[0].content }}",
        &BTreeMap::new(),
        None,
    )
    .unwrap();
    let messages = json!([{"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}]);
    let error = changing
        .render_by_prefix(&Conversation { messages, ..Conversation::default() })
        .unwrap_err();
    assert!(matches!(error, Error::TemplatePrefix { turn: 0 } | Error::Template { .. }), "{error}");
}

#[test]
fn completion_begins_after_the_generation_prompt() {
    let text = "{% for m in messages %}<{{ m.role }}>{{ m.content }}</>{% endfor %}\
        {% if add_generation_prompt %}<assistant>{% endif %}";
    let prompt = Conversation {
        messages: json!([{"role": "user", "content": "a"}]),
        ..Conversation::default()
    };
    let completion = json!([{"role": "assistant", "content": "b"}]);
    let rendered = template(text).unwrap().render_completion(&prompt, &completion).unwrap();
    assert_eq!(
        rendered.spans.iter().map(|span| &rendered.text[span.clone()]).collect::<Vec<_>>(),
        ["b</>"]
    );
    let changing = template("{{ messages | length }}").unwrap();
    assert!(matches!(
        changing.render_completion(&prompt, &completion),
        Err(Error::TemplateCompletion)
    ));
}

#[test]
fn generation_block_sees_all_variables_and_keeps_its_own() {
    let cases = [
        ("{% set s='hello' %}A{% generation %}{{ s[1:] }}{% endgeneration %}", "Aello"),
        (
            "{% set s='hello' %}A{% generation %}{% set s = s ~ 'y' %}\
             {{ s }}{% endgeneration %}{{ s }}",
            "Ahelloyhello",
        ),
        (
            "{% for m in messages %}{%- generation -%}  {{ m.content[loop.index0:] }}\
             {% endgeneration %}\n|{% endfor %}",
            "ab|d|",
        ),
        (
            "{% set ns = namespace(n=1) %}{% generation %}\
             {% set ns.n = 2 %}x{% endgeneration %}{{ ns.n }}",
            "x2",
        ),
        (
            "{% for m in messages %}{% generation %}{% for f in [loop.index] %}\
             {{ f }}{% endfor %}{% endgeneration %}{% endfor %}",
            "12",
        ),
    ];
    for (template, expected) in cases {
        let messages =
            json!([{"role": "user", "content": "ab"}, {"role": "user", "content": "cd"}]);
        assert_eq!(rendered(template, messages).unwrap().0, expected, "{template}");
    }
}

#[test]
fn strings_and_floats_are_those_of_python() {
    let cases = [
        (
            "{{ '\u{1f}\u{a0} a\u{1c}'.strip() }}|{{ 'a\u{1d}' | trim }}|{{ 'xax' | trim('x') }}",
            "a|a|a",
        ),
        (
            "{{ v }}|{{ v | string }}|{{ 1e20 }}|{{ 0.00001 }}|{{ 2.0 }}",
            "1e+16|1e+16|1e+20|1e-05|2.0",
        ),
        (
            "{{ 'a\u{b}b\r\nc\u{2028}'.splitlines() | join('+') }}|\
             {{ 'a\nb'.splitlines(true) | length }}",
            "a+b+c|2",
        ),
        ("{{ 'a\u{1e}b  c'.split() | join('+') }}|{{ \"it's ß2x\".title() }}", "a+b+c|It'S Ss2X"),
        (
            "{{ 'a' is sequence }}{{ {} is sequence }}{{ 1 is sequence }}{{ none is sequence }}",
            "TrueTrueFalseFalse",
        ),
    ];
    for (template, expected) in cases {
        let conversation = Conversation {
            messages: json!([{"role": "user", "content": "x"}]),
            template_kwargs: json!({"v": 1e16}).as_object().cloned().unwrap(),
            ..Conversation::default()
        };
        let template = ChatTemplate::new(template, &BTreeMap::new(), None).unwrap();
        assert_eq!(template.render(&conversation).unwrap().text, expected);
    }
}

#[test]
fn escapes_in_strings_are_those_of_python() {
    let cases = [
        (r"{{ '<\/a>\q\\a' }}", r"<\/a>\q\a"),
        (r"{{ '\a\v\x41\101\u00e9' }}", "\u{7}\u{b}AA\u{e9}"),
        (r#"{{ "\U0001F600\U00000022\"\U1" }}"#, "\u{1f600}\"\"\\U1"),
        ("{{ 'a\\\nb' }}", "ab"),
        (
            concat!(
                r"{% for part in ['\/', '\''] %}{{ part }}{% endfor %}",
                r"{% generation %}{{ '\/' }}{% endgeneration %}",
            ),
            r"\/'\/",
        ),
    ];
    for (template, expected) in cases {
        assert_eq!(
            rendered(template, json!([{"role": "user", "content": "x"}])).unwrap().0,
            expected,
            "{template}"
        );
    }
}

#[test]
fn loop_over_none_is_an_error() {
    let user = || json!([{"role": "user", "content": "x"}]);
    for value in ["none", "tools", "(none)", "none if true", "none or none recursive"] {
        let reason = reason(rendered(
            &format!("a\n{{% for x in {value} %}}{{% else %}}b{{% endfor %}}"),
            user(),
        ));
        assert_eq!(reason, "The chat template fails on line 2: none is not iterable", "{value}");
    }
    for (value, expected) in [
        ("nothing", "e"),
        ("[2, 3] if x > 2", "3"),
        ("[[1][0], (none if false else 4)]", "14"),
        ("'ab'", "ab"),
        ("{1: 2}.items()", "(1, 2)"),
    ] {
        let template = format!("{{% for x in {value} %}}{{{{ x }}}}{{% else %}}e{{% endfor %}}");
        assert_eq!(rendered(&template, user()).unwrap().0, expected, "{value}");
    }
}

#[test]
fn loop_is_not_left_from_inside_of_a_generation_block() {
    let left = "{% for m in messages %}\n{% generation %}{% if true %}\
        {% continue %}{% endif %}{% endgeneration %}{% endfor %}";
    let error = template(left).unwrap_err().to_string();
    assert!(error.contains("line 2") && error.contains("continue"), "{error}");
    let own = "{% generation %}{% for m in messages %}{% if loop.first %}{% continue %}{% endif %}\
        {{ m.content }}{% endfor %}{% endgeneration %}";
    let messages = json!([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]);
    assert_eq!(rendered(own, messages).unwrap(), ("b".to_owned(), vec!["b".to_owned()]));
}
