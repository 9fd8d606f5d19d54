"""Chat templates beside `apply_chat_template` of transformers, one construct at a time."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm

pytestmark = pytest.mark.usefixtures("counts_below")

tokenizers = pytest.importorskip("tokenizers")
transformers = pytest.importorskip("transformers")

MESSAGES = [
    {"role": "user", "content": "Hi there\n"},
    {
        "role": "assistant",
        "content": 'it\'s \u00ad "x" \u200b\u00a0\u2028\ufeff\ue000\u0378\x7f\x01\\ é中😀',
    },
]
VARIABLES: dict[str, Any] = {
    "floats": {
        "f": 1e22,
        "g": [1e-7, 1.0, -0.5],
        "none": None,
        "yes": True,
        "deep": [[1, "a"], {}],
    },
    "lines": "a\n\nb\u2028c\n",
}


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Any:
    directory = tmp_path_factory.mktemp("bytes")
    trained = tokenizers.Tokenizer(tokenizers.models.BPE())
    trained.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    trained.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trained.train_from_iterator(
        [], tokenizers.trainers.BpeTrainer(initial_alphabet=alphabet, show_progress=False)
    )
    trained.save(str(directory / "tokenizer.json"))
    return transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(directory / "tokenizer.json")
    ), directory


def rendered(directory: Path, template: str, path: Path) -> str:
    pq.write_table(pa.table({"messages": [MESSAGES]}), path / "rows.parquet")
    chat_template = sm.ChatTemplate(template, template_kwargs=VARIABLES)
    tokenize = sm.Tokenize(messages="messages", tokenizer=directory, chat_template=chat_template)
    row = sm.Dataset(path / "rows.parquet", tokenize=tokenize)[0]
    return sm.Tokenizer(directory).decode(row["tokens"])


@pytest.mark.parametrize(
    "template",
    [
        # Line ends of the source, also inside of strings.
        "{% if true %}\r\na{% endif %}\r\nb\rc{{ 'd\r\ne\rf' }}\r\n",
        "{% set x %}\r\na\r{% endset %}{{ x | length }}",
        # Values inside of containers, and strings with characters that are not printable.
        "{{ floats }}|{{ floats | string }}|{{ [floats.g, (1e20,), ()] }}",
        "{{ [messages[1].content] }}|{{ {'k': \"it's\"} }}|{{ ['\"', \"'\\\"\"] }}",
        "{{ [nothing] }}|{{ '' ~ [1, none] }}|{{ [1.5, 2] | join('-') }}",
        "{{ '{} {}'.format([1e22], true) }}|{{ '-'.join(['a', 'b']) }}",
        # Escapes.
        r"""{{ '<\/a>\a\v\q\\n\x41\101\u00e9\U0001F600\U00000027' }}|{{ 'a\'b' }}|{{ "\\\"" }}""",
        "{{ 'a\\\nb' }}",
        # Filters.
        "{{ messages[1].content | tojson(ensure_ascii=true) }}|{{ floats | tojson(indent=2) }}|"
        "{{ [] | tojson }}",
        "{{ lines | indent(2) }}|{{ lines | indent('>>') }}|{{ lines | indent(2, true, true) }}|"
        "{{ '' | indent(first=true) }}",
        '{{ "<a href=\'/x\'>&\\"" | e }}|{{ 1 | escape }}|{{ none | e }}',
        "{{ messages[0] | attr('role') is defined }}|{{ messages[0].role }}",
        "{{ 'x' | int }}|{{ 'x' | int(5) }}|{{ ' 7 ' | int }}|{{ '1_0' | int }}|"
        "{{ '_1' | int }}|{{ '1.9' | int }}|{{ -1.9 | int }}",
        "{{ '0x1F' | int(0, 16) }}|{{ '0b11' | int(base=2) }}|{{ none | int }}|"
        "{{ [] | int(3) }}|{{ true | int }}|{{ 'inf' | int }}",
        "{{ 'x' | float }}|{{ 'x' | float(2.5) }}|{{ ' 1e3 ' | float }}|{{ '1_0.5' | float }}|"
        "{{ none | float }}|{{ 3 | float }}",
        "{{ 'a b_c, d' | wordcount }}|{{ 'foo bar baz qux' | truncate(9) }}|"
        "{{ 'foo bar baz qux' | truncate(9, true) }}",
        "{{ 'foo bar baz qux' | truncate(11, false, '..', 0) }}|{{ 'short' | truncate }}|"
        "{{ 'ab' | center(7) }}|{{ 'a' | center(4) }}",
        "{{ messages | join(', ', attribute='role') }}|{{ [1, [2]] | join }}",
        # Methods of strings.
        "{{ 'a,b,c'.rsplit(',', 1) }}|{{ ' a  b c '.rsplit(none, 1) }}|{{ ' a  b '.rsplit() }}|"
        "{{ 'a,b'.rsplit(',') }}",
        "{{ 'a=b=c'.partition('=') }}|{{ 'a=b=c'.rpartition('=') }}|{{ 'a'.partition('=') }}|"
        "{{ 'a'.rpartition('=') }}",
        "{{ 'ab'.center(5) }}|{{ 'ab'.center(5, '*') }}|{{ 'a'.center(4, '*') }}|"
        "{{ 'é'.ljust(3, '.') }}|{{ 'é'.rjust(3) }}",
        "{{ '42'.zfill(5) }}|{{ '-42'.zfill(5) }}|{{ ''.zfill(2) }}|{{ 'ab'.zfill(1) }}",
        "{{ 'prefix-a'.removeprefix('prefix-') }}|{{ 'a.txt'.removesuffix('.txt') }}|"
        "{{ 'a'.removesuffix('b') }}",
        "{{ 'aBß'.swapcase() }}|{{ 'a\\tb\\n\\tc'.expandtabs() }}|{{ 'a\\tb'.expandtabs(4) }}|"
        "{{ 'abcb'.index('b') }}|{{ 'abcb'.rindex('b') }}",
        # Values that pass through variables.
        "{% set ns = namespace(x=[1]) %}{% set ns.x = ns.x + [2.0] %}{% set ns.x = ns.x[1:] %}"
        "{{ ns.x }}",
        "{% macro f(a, b=[1e22]) -%}  {{ a }}{{ b }}{% endmacro %}{{ f('x') }}"
        "{% for m in messages[1:] %}\n{{ m.role }}{% endfor %}",
    ],
)
def test_template_renders_as_by_transformers(tmp_path: Path, tokenizer: Any, template: str) -> None:
    oracle, directory = tokenizer
    expected = oracle.apply_chat_template(
        MESSAGES, chat_template=template, tokenize=False, **VARIABLES
    )
    assert rendered(directory, template, tmp_path) == expected


@pytest.mark.parametrize(
    "template",
    [
        "{% include 'x' ignore missing %}",
        "{{ 'abc'.index('x') }}",
        "{{ ''.partition('') }}",
        "{{ messages[0].nothing | int }}",
        "{% for tool in tools %}{% endfor %}",
    ],
)
def test_template_that_transformers_refuses_is_refused(
    tmp_path: Path, tokenizer: Any, template: str
) -> None:
    oracle, directory = tokenizer
    with pytest.raises(Exception):  # noqa: B017
        oracle.apply_chat_template(MESSAGES, chat_template=template, tokenize=False, **VARIABLES)
    with pytest.raises(ValueError, match="The chat template fails on line 1"):
        rendered(directory, template, tmp_path)


@pytest.mark.parametrize(
    ("kwargs", "reason"),
    [
        ({"b": 1, "a": float("nan")}, "template_kwargs['a']=nan has none"),
        ({"a": [1, float("inf")]}, "template_kwargs['a']=[1, inf] has none"),
        ({"a": {1}}, "template_kwargs['a']={1} has none"),
    ],
)
def test_variable_without_a_json_value_is_named(kwargs: dict[str, Any], reason: str) -> None:
    with pytest.raises(sm.OptionError, match=re.escape(reason)):
        sm.ChatTemplate("{{ a }}", template_kwargs=kwargs)
