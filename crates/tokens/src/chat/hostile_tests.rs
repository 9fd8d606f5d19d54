//! Templates that would exhaust the stack, the memory or the time.

use super::{ChatTemplate, Conversation};
use serde_json::json;
use std::collections::BTreeMap;

/// What a template renders, or why it does not, on a thread with the default stack.
fn outcome(text: String) -> Result<String, String> {
    let render = move || {
        let template =
            ChatTemplate::new(&text, &BTreeMap::new(), None).map_err(|error| error.to_string())?;
        let conversation = Conversation {
            messages: json!([{"role": "user", "content": "x"}]),
            ..Conversation::default()
        };
        template
            .render(&conversation)
            .map(|rendered| rendered.text)
            .map_err(|error| error.to_string())
    };
    let thread = std::thread::Builder::new()
        .stack_size(2 << 20)
        .spawn(render)
        .map_err(|error| error.to_string())?;
    thread.join().unwrap_or_else(|_| Err("the thread panicked".to_owned()))
}

fn assert_refused(text: String, reason: &str) {
    let shown: String = text.chars().take(200).collect();
    let error = outcome(text).expect_err(&shown);
    assert!(
        error.starts_with("The chat template fails on line ") && error.contains(reason),
        "{shown}: {error}"
    );
}

#[test]
fn value_that_is_nested_ever_deeper_is_refused() {
    const DEEP: &str = "nested more than 200 levels deep";
    let repeated = |assignment: &str| {
        format!(
            "{{% set ns = namespace(x=[1]) %}}\n\
             {{% for i in range(50000) %}}{assignment}{{% endfor %}}"
        )
    };
    for end in [
        "",
        "{{ ns.x | tojson | length }}",
        "{{ ns.x | string | length }}",
        "{{ ns.x }}",
        "{{ ns.x == ns.x }}",
    ] {
        assert_refused(repeated("{% set ns.x = [ns.x] %}") + end, DEEP);
    }
    for assignment in [
        "{% set ns.x = {'a': ns.x} %}",
        "{% set ns.x = (ns.x,) %}",
        "{% set ns.x = ns.x | batch(1) | list %}",
        "{% set ns.x, y = [ns.x], 1 %}",
        "{% set ns.x = [ns.x[0:]] %}",
        "{% with y = [ns.x] %}{% set ns.x = y %}{% endwith %}",
        "{% for y in [[ns.x]] %}{% set ns.x = y %}{% endfor %}",
    ] {
        assert_refused(repeated(assignment), DEEP);
    }
    let nested = format!("{}x{}", "[".repeat(40), "]".repeat(40));
    assert_refused(
        format!("{{% macro f(x) %}}{{{{ f({nested}) }}}}{{% endmacro %}}{{{{ f([]) }}}}"),
        DEEP,
    );
    assert_refused(
        format!("{{% for x in [[[[]]]] recursive %}}{{{{ loop({nested}) }}}}{{% endfor %}}"),
        DEEP,
    );
    assert_refused(format!("{{% set x = [] %}}{}", "{% set x = [x] %}".repeat(50_000)), DEEP);
}

#[test]
fn computed_lists_do_not_collect() {
    for assignment in ["ns.x[0:]", "ns.x * 1", "ns.x | reverse", "ns.x + []"] {
        let text = format!(
            "{{% set ns = namespace(x=[1, 2]) %}}{{% for i in range(20000) %}}\
             {{% set ns.x = {assignment} %}}{{% endfor %}}{{{{ ns.x | length }}}}"
        );
        assert_eq!(outcome(text).unwrap(), "2", "{assignment}");
    }
}

#[test]
fn namespace_that_would_contain_itself_is_refused() {
    for text in [
        "{% set ns = namespace() %}{% set ns.x = ns %}{{ ns }}",
        "{% set a = namespace() %}{% set b = namespace(x=a) %}{% set a.x = [b] %}{{ a }}",
        "{% set ns = namespace(x=1) %}{% for i in range(9999) %}{% for y in [ns.x] %}\
         {% set ns.x = loop %}{% endfor %}{% endfor %}",
    ] {
        assert_refused(text.to_owned(), "a namespace cannot hold a namespace or a loop");
    }
    let nested =
        "{% set a = namespace(n=1) %}{% set b = namespace(a=a) %}{% set a.n = 2 %}{{ b.a.n }}";
    assert_eq!(outcome(nested.to_owned()).unwrap(), "2");
}

#[test]
fn value_that_doubles_is_refused() {
    let doubled = |times: usize, value: &str, end: &str| {
        format!(
            "{{% set ns = namespace(x={value}, y={value}) %}}\
             {{% for i in range({times}) %}}{end}{{% endfor %}}{{{{ ns.x | length }}}}"
        )
    };
    assert_refused(doubled(60, "[1]", "{% set ns.x = [ns.x, ns.x] %}"), "more than 1000000 values");
    assert_refused(
        doubled(
            60,
            "[1]",
            "{% set ns.x = [ns.x, ns.x] %}{% set ns.y = [ns.y, ns.y] %}{{ ns.x == ns.y }}",
        ),
        "more than 1000000 values",
    );
    assert_refused(doubled(60, "[1]", "{% set ns.x = ns.x + ns.x %}"), "more than 1000000 values");
    assert_refused(doubled(60, "'ab'", "{% set ns.x = ns.x ~ ns.x %}"), "ran out of fuel");
    assert_refused(
        doubled(60, "'ab'", "{% set ns.x %}{{ ns.x }}{{ ns.x }}{% endset %}"),
        "ran out of fuel",
    );
    assert_refused(
        doubled(60, "'a' * 9000000", "{% set ns.x = ns.x ~ ns.x %}"),
        "more than 64 MiB of text",
    );
    assert_refused(
        "{{ (['a' * 1000000] * 1000) | tojson | length }}".to_owned(),
        "more than 64 MiB",
    );
    assert_refused("{{ (['a' * 1000000] * 1000) | join | length }}".to_owned(), "more than 64 MiB");
    assert_refused("{{ ''.join(['a' * 1000000] * 1000) | length }}".to_owned(), "more than 64 MiB");
}

#[test]
fn width_that_exhausts_the_memory_is_refused() {
    for text in [
        "{{ '{:100000000000000}'.format('a') | length }}",
        "{{ '{:.100000000000000f}'.format(1.5) | length }}",
        "{{ '{:>1900000000}'.format(1) | length }}",
        "{{ ('{:65536}' * 100).format('a') | length }}",
        "{{ 'a'.center(1900000000) }}",
        "{{ 'a'.zfill(1900000000) }}",
    ] {
        assert_refused(text.to_owned(), "more than 1048576");
    }
    assert_refused("{{ ('{0}' * 100000).format('a' * 1000000) }}".to_owned(), "more than 64 MiB");
    assert_eq!(
        outcome("{{ '{:>5}|{:.2f}|{}|{a}'.format('a', 1.5, 12345678, a=2) }}".to_owned()).unwrap(),
        "    a|1.50|12345678|2"
    );
}

#[test]
fn long_chain_in_one_expression_is_refused_when_the_template_is_compiled() {
    for text in [
        format!("{{{{ x{} }}}}", "[0:]".repeat(100_000)),
        format!("{{{{ x{} }}}}", " | list".repeat(100_000)),
        format!("{{{{ 1{} }}}}", " + 1".repeat(100_000)),
        format!("{{{{ {}x }}}}", "not ".repeat(100_000)),
        format!("{{{{ {}1 }}}}", "-".repeat(100_000)),
        format!("{{{{ {}1 }}}}", "1 if x else ".repeat(80_000)),
        format!("{{{{ x{} }}}}", "[0]".repeat(100_000)),
        format!(
            "{{{{ {}x{} }}}}",
            "(".repeat(30),
            " | list | list | list | list | list | list | list | list | list | list | list | list \
             | list | list)"
                .repeat(30)
        ),
        format!("{{{{ {}", format!("({}", "not ".repeat(99)).repeat(60)),
    ] {
        assert_refused(text, "operators in a row");
    }
    assert_refused(format!("{{% if x %}}{}{{% endif %}}", "{% elif y %}".repeat(80_000)), "elif");
    assert_eq!(outcome(format!("{{{{ 0{} }}}}", " + 1".repeat(390))).unwrap(), "390");
    assert_eq!(
        outcome(format!("{{{{ [[1, 2]{}] | length }}}}", ", [1, 2]".repeat(3000))).unwrap(),
        "3001"
    );
    assert_eq!(
        outcome(format!("{{% if x %}}{}{{% else %}}e{{% endif %}}", "{% elif y %}".repeat(240)))
            .unwrap(),
        "e"
    );
}

#[test]
fn recursion_without_end_is_refused() {
    assert_refused("{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}".to_owned(), "");
    assert_refused(
        "{% macro f(x) %}{% call f(x) %}{{ f(x) }}{% endcall %}{{ caller() }}\
         {% endmacro %}{{ f(1) }}"
            .to_owned(),
        "",
    );
    assert_refused("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}".to_owned(), "");
    assert_refused(
        format!("{}x{}", "{% if x %}".repeat(10_000), "{% endif %}".repeat(10_000)),
        "recursion",
    );
    assert_refused(
        format!("{{{{ {}x{} }}}}", "f(".repeat(399), ")".repeat(399)),
        "64 brackets within each other",
    );
}

#[test]
fn tag_for_other_templates_is_refused() {
    for tag in [
        "include 'x' ignore missing",
        "import 'x' as x",
        "from 'x' import y",
        "extends 'x'",
        "block x",
    ] {
        assert_refused(format!("\n{{% {tag} %}}"), "needs other templates");
    }
}

/// In a test that would take half a minute if each use were compared with each declaration.
#[test]
fn many_declared_arguments_of_a_macro_are_found_many_times() {
    let uses = format!("{{{{ [{}] | length }}}}", "kwargs, ".repeat(60_000));
    let text = format!(
        "{{% macro f() %}}{{% set {}kwargs = 1 %}}{uses}{{% endmacro %}}{{{{ 1 }}}}",
        "a, ".repeat(180_000)
    );
    assert_eq!(outcome(text).unwrap(), "1");
}

#[test]
fn undeclared_arguments_of_a_macro_are_refused() {
    for name in ["varargs", "kwargs"] {
        let called = |call: &str| {
            format!("\n{{% macro f() %}}{{{{ {name} }}}}{{% endmacro %}}{{{{ {call} }}}}")
        };
        assert_refused(called("f()"), "declare each argument");
        assert_refused(called("f(1)"), "too many arguments");
    }
    for text in [
        "{% macro f(kwargs) %}{{ kwargs }}{% endmacro %}{{ f(1) }}",
        "{% macro f(a) %}{% set kwargs = a %}{{ kwargs }}{% endmacro %}{{ f(1) }}",
        "{% macro f(a) %}{{ a.kwargs }}{% endmacro %}{{ f({'kwargs': 1}) }}",
        "{% set kwargs = 1 %}{{ kwargs }}",
    ] {
        assert_eq!(outcome(text.to_owned()).unwrap(), "1", "{text}");
    }
}

#[test]
fn checks_of_variables_do_not_change_the_text() {
    let cases = [
        ("{%- set a = [1]\n -%}  {{ a }}", "[1]"),
        (
            "{% macro f(a, b=[2], c=3) -%}  {{ a }}{{ b }}{{ c is defined }}{% endmacro %}\
             {{ f(1) }}{{ f() }}",
            "1[2]True[2]True",
        ),
        (
            "{% macro f() %}{{ caller([1]) }}{% endmacro %}{% call(x) f() %}{{ x }}{% endcall %}",
            "[1]",
        ),
        ("{% with a=[1], b=(2, 3) %}\n{{ a }}{{ b }}{% endwith %}", "[1](2, 3)"),
        (
            "{% for k, v in {'a': [1]}.items() %}\n{{ k }}{{ v }}{{ loop.last }}{% endfor %}",
            "a[1]True",
        ),
        ("{% set a, (b, c) = 1, (2, [3]) %}{{ a }}{{ b }}{{ c }}", "12[3]"),
        ("{% set a %}b{% endset %}{{ a }}{% set a | upper %}c{% endset %}{{ a }}", "bC"),
        (
            "{% set a = nothing | default(none) %}{{ a is none }}{% set b = {}.x + '' if false %}\
             {{ b is defined }}",
            "TrueFalse",
        ),
        (
            "{% for i in [1, 2] %}{% set outer = loop %}{% for j in [1] %}\
             {{ outer.index }}{% endfor %}{% endfor %}",
            "12",
        ),
        (
            "{% macro f(a, b=[2], c=3) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ f(*[[1], 2]) }}\
             {{ f(**{'a': [4]}) }}{{ f([5], c=[6] + [7]) }}",
            "[1]23[4][2]3[5][2][6, 7]",
        ),
        (
            "{% for x in[1, 2]if x>1 %}{{ x }}{% endfor %}{% for x in [1, 2] if x in [2] %}\
             {{ x }}{% endfor %}",
            "22",
        ),
        (
            "{% for x in [[1], [2]] recursive %}{% if x is iterable %}({{ loop(x) }}){% else %}\
             {{ x }}{% endif %}{% endfor %}",
            "(1)(2)",
        ),
        (
            "{% set ns = namespace(x=[1]) %}{% set ns.x, a = ns.x + [2], 3 %}{{ ns.x }}{{ a }}\
             {% set ns.x %}b{% endset %}{{ ns.x }}",
            "[1, 2]3b",
        ),
        (
            "{% for g in [{'a': 1}] | groupby('a') %}{{ g.grouper }}{{ g.list }}\
             {{ g }}{% endfor %}",
            "1[{'a': 1}](1, [{'a': 1}])",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(outcome(text.to_owned()).unwrap(), expected, "{text}");
    }
}

#[test]
fn computed_lists_of_namespaces_do_not_collect() {
    for assignment in
        ["{% set a = namespace(x=a.x[0:]) %}", "{% set a = namespace({'x': [a.x | reverse][0]}) %}"]
    {
        let text =
            format!("{{% set a = namespace(x=[1]) %}}{}{{{{ a.x }}}}", assignment.repeat(20_000));
        assert_eq!(outcome(text).unwrap(), "[1]", "{assignment}");
    }
}

#[test]
fn dict_of_dicts_does_not_collect() {
    let assigned = "{% set ns.x = ns.x | chain({'a': i}) %}";
    let text = format!(
        "{{% set ns = namespace(x={{'b': 1}}) %}}{{% for i in range(50000) %}}{assigned}\
         {{% endfor %}}{{{{ ns.x }}}}"
    );
    assert_eq!(outcome(text).unwrap(), "{'a': 49999, 'b': 1}");
}

#[test]
fn template_of_a_megabyte_is_compiled_and_a_longer_one_is_refused() {
    const TAG: &str = "{% set a=[] %}";
    let longest = TAG.repeat((1 << 20) / TAG.len());
    assert_eq!(outcome(longest.clone()).unwrap(), "");
    let error = outcome(longest + TAG).unwrap_err();
    assert_eq!(error, "The chat template fails: it has 1048586 bytes, and the limit is 1 MiB");
}
