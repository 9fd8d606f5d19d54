"""Tokenizer directories: each setting is applied as by ``AutoTokenizer``, or refused by name."""

from __future__ import annotations

import base64
import itertools
import json
import random
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import shardmill as sm
from breadth import IS_WHOLE

pytest.importorskip("tokenizers")
transformers = pytest.importorskip("transformers")
sentencepiece = pytest.importorskip("sentencepiece")

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

NEW = ["<x>", "<y>", "ab", "<end>"]
PARTS = [
    *NEW,
    "<s>",
    "</s>",
    "<unk>",
    "a",
    "b",
    "c",
    "é",
    "日",
    "_",
    "1",
    "!",
    "▁",
    " ",
    " ",
    "  ",
    "\t",
    "\n",
    "<0x41>",
]


def texts() -> list[str]:
    chance = random.Random(5)
    mixed = ["".join(chance.choice(PARTS) for _ in range(chance.randint(1, 9))) for _ in range(60)]
    return [
        "<x>a",
        " <x> a",
        "a <x>a",
        "a<y> b",
        "<end>",
        "<s>a",
        " a",
        "  a",
        "cab<x>",
        "_<x>_",
        *mixed,
    ]


TEXTS = texts()


def byte_level(directory: Path) -> None:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {
        character: number for number, character in enumerate([*alphabet, "Ġa", "bc", "<s>"])
    }
    made = Tokenizer(models.BPE(vocabulary, [("Ġ", "a"), ("b", "c")]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.add_special_tokens(["</s>"])
    made.save(str(directory / "tokenizer.json"))


def metaspace(directory: Path) -> None:
    tokens = [
        "<unk>",
        "<s>",
        "▁",
        "a",
        "b",
        "c",
        "é",
        "1",
        "!",
        "_",
        "▁a",
        "bc",
        "<",
        ">",
        "x",
        "y",
    ]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    made = Tokenizer(models.BPE(vocabulary, [("▁", "a"), ("b", "c")], unk_token="<unk>"))
    made.normalizer = normalizers.NFC()
    made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    made.save(str(directory / "tokenizer.json"))


def unigram(directory: Path) -> None:
    letters = ["a", "b", "c", "é", "1", "!", "_", "▁", "▁a", "bc", "<", ">", "x", "<s>"]
    made = Tokenizer(
        models.Unigram(
            [("<unk>", 0.0), *((text, -1.5 - number) for number, text in enumerate(letters))], 0
        )
    )
    made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    made.save(str(directory / "tokenizer.json"))


def piece_model(directory: Path, kind: str, **options: Any) -> None:
    corpus = directory.parent / "corpus.txt"
    if not corpus.exists():
        chance = random.Random(1)
        words = ["a", "ab", "abc", "bca", "cab", "é", "1", "!", "_x_", "<x>"]
        corpus.write_text(
            "\n".join(" ".join(chance.choice(words) for _ in range(8)) for _ in range(200))
        )
    sentencepiece.SentencePieceTrainer.train(
        input=str(corpus),
        model_prefix=str(directory / "tokenizer"),
        vocab_size=320,
        model_type=kind,
        byte_fallback=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        hard_vocab_limit=False,
        minloglevel=2,
        **options,
    )
    (directory / "tokenizer.vocab").unlink()


def ranks(directory: Path) -> None:
    tokens = [bytes([byte]) for byte in range(256)] + [b" a", b"bc"]
    lines = [f"{base64.b64encode(token).decode()} {rank}\n" for rank, token in enumerate(tokens)]
    (directory / "tokenizer.model").write_text("".join(lines))


#: For each format: what writes it, the options of its class, and the classes that a
#: directory may name.
FORMATS: dict[str, tuple[Callable[[Path], None], dict[str, Any], list[str | None]]] = {
    "byte-level": (byte_level, {}, [None, "PreTrainedTokenizerFast"]),
    "metaspace": (metaspace, {}, [None, "PreTrainedTokenizerFast"]),
    "unigram": (unigram, {}, [None, "TokenizersBackend"]),
    "bpe.model": (
        lambda directory: piece_model(directory, "bpe"),
        {},
        ["LlamaTokenizer", "PreTrainedTokenizerFast"],
    ),
    "symbols.model": (
        lambda directory: piece_model(directory, "bpe", user_defined_symbols=["<y>"]),
        {},
        ["LlamaTokenizer", "LlamaTokenizerFast"],
    ),
    "unigram.model": (
        lambda directory: piece_model(directory, "unigram"),
        {},
        ["TokenizersBackend"],
    ),
    "tiktoken": (ranks, {"pattern": "cl100k", "special_tokens": {}}, [None]),
}

FLAGS = [
    {},
    {"lstrip": True},
    {"rstrip": True},
    {"lstrip": True, "rstrip": True},
    {"single_word": True},
]

SETTINGS: dict[str, list[Any]] = {
    "tokens": [None, "added_tokens.json", "added_tokens_decoder"],
    "flags": FLAGS,
    "normalized": [False, True],
    "special": [False, True],
    "eos": [None, "config", "map", "map with flags", "known"],
    "extra": [
        None,
        "additional_special_tokens",
        "extra_special_tokens",
        "map",
        "both files",
        "extra in the map",
        "extra in both files",
        "another role in the map",
    ],
    "add_prefix_space": [None, True, False],
    "legacy": [None, True, False],
    "split_special_tokens": [None, True],
    "class": [0, 1],
}


def pairwise(dimensions: dict[str, list[Any]], chance: random.Random) -> Iterator[dict[str, Any]]:
    """Combinations that contain every pair of values of different dimensions."""
    names = list(dimensions)
    places = [range(len(dimensions[name])) for name in names]
    open_pairs = {
        (one, left, other, right)
        for one, other in itertools.combinations(range(len(names)), 2)
        for left in places[one]
        for right in places[other]
    }
    while open_pairs:
        trials = [[chance.choice(place) for place in places] for _ in range(60)]
        one, left, other, right = min(open_pairs)
        for trial in trials:
            trial[one], trial[other] = left, right
        best = max(
            trials,
            key=lambda trial: sum(trial[a] == x and trial[b] == y for a, x, b, y in open_pairs),
        )
        open_pairs = {
            pair for pair in open_pairs if (best[pair[0]], best[pair[2]]) != (pair[1], pair[3])
        }
        yield {name: dimensions[name][place] for name, place in zip(names, best, strict=True)}


def write_settings(
    directory: Path, chosen: dict[str, Any], classes: list[str | None], size: int
) -> None:
    config: dict[str, Any] = {}
    special_map: dict[str, Any] = {}
    flags = {"lstrip": False, "rstrip": False, "single_word": False} | chosen["flags"]
    match chosen["tokens"]:
        case "added_tokens.json":
            (directory / "added_tokens.json").write_text(json.dumps({"<x>": size, "ab": size + 1}))
        case "added_tokens_decoder":
            token = flags | {"normalized": chosen["normalized"], "special": chosen["special"]}
            config["added_tokens_decoder"] = {
                str(size + place): token | {"content": content}
                for place, content in enumerate(["<x>", "ab"])
            }
    match chosen["eos"]:
        case "config":
            config["eos_token"] = "<end>"
        case "map":
            special_map["eos_token"] = "<end>"
        case "map with flags":
            special_map["eos_token"] = flags | {
                "content": "<end>",
                "normalized": chosen["normalized"],
            }
        case "known":
            config["eos_token"] = "<s>"
    match chosen["extra"]:
        case "map":
            special_map["additional_special_tokens"] = ["<y>", "<x>"]
        case "both files":
            config["additional_special_tokens"] = ["<y>"]
            special_map["additional_special_tokens"] = ["<x>", "<y>"]
        case "extra in the map":
            special_map["extra_special_tokens"] = ["<y>", "<x>"]
        case "extra in both files":
            config["extra_special_tokens"] = ["<y>"]
            special_map["extra_special_tokens"] = ["<x>", "<y>"]
        case "another role in the map":
            special_map["image_token"] = "<y>"
        case str(name):
            config[name] = ["<y>"]
    for name in ("add_prefix_space", "legacy", "split_special_tokens"):
        if chosen[name] is not None:
            config[name] = chosen[name]
    if (named := classes[chosen["class"] % len(classes)]) is not None:
        config["tokenizer_class"] = named
    (directory / "tokenizer_config.json").write_text(json.dumps(config))
    if special_map:
        (directory / "special_tokens_map.json").write_text(json.dumps(special_map))


def rows_of(path: Path, tokenize: sm.Tokenize) -> list[list[int]]:
    rows = sm.Dataset(path, tokenize=tokenize)
    return [rows[number]["tokens"] for number in range(len(TEXTS))]


def difference(directory: Path, rows: Path, options: dict[str, Any]) -> str | None:
    """What differs from AutoTokenizer, or "refused" if one of the two refuses the directory."""
    try:
        original = transformers.AutoTokenizer.from_pretrained(directory)
    except ValueError:
        # A Unigram model with declared tokens.
        return "refused"
    try:
        ours = sm.Tokenizer(directory, **options)
        chat = rows_of(
            rows,
            sm.Tokenize(messages="m", tokenizer=ours, chat_template="{{ messages[0].content }}"),
        )
        with_ids = (
            None
            if directory.name.endswith(".model")
            else ours.encode_batch(TEXTS, special_in_text="id")
        )
    except ValueError as error:
        named = [
            "add_prefix_space",
            "split_special_tokens",
            "tokenizer_class",
            "`lstrip` or `rstrip`",
        ]
        return (
            "refused"
            if any(name in str(error) for name in named)
            else f"{type(error).__name__}: {error}"
        )
    found = {"chat": chat, "text": ours.encode_batch(TEXTS)} | (
        {} if with_ids is None else {"id": with_ids}
    )
    for mode, encoded in found.items():
        for text, ids in zip(TEXTS, encoded, strict=True):
            expected = original.encode(
                text, add_special_tokens=False, split_special_tokens=mode == "text"
            )
            if ids != expected:
                return f"{mode} {text!r}: {ids}, expected {expected}"
    return None


def assert_equal(directory: Path, combinations: Iterable[tuple[str, dict[str, Any]]]) -> None:
    rows = directory / "rows.jsonl"
    rows.write_text(
        "".join(json.dumps({"m": [{"role": "user", "content": text}]}) + "\n" for text in TEXTS)
    )
    failures, compared = [], 0
    sizes: dict[str, int] = {}
    for name, chosen in combinations:
        write, options, classes = FORMATS[name]
        plain = directory / "plain" / name
        if not plain.exists():
            plain.mkdir(parents=True)
            write(plain)
            sizes[name] = len(transformers.AutoTokenizer.from_pretrained(plain))
        [vocabulary] = plain.iterdir()
        made = directory / "made" / f"{len(failures)}-{compared}-{name}"
        made.mkdir(parents=True, exist_ok=True)
        for old in made.iterdir():
            old.unlink()
        (made / vocabulary.name).hardlink_to(vocabulary)
        write_settings(made, chosen, classes, sizes[name])
        match difference(made, rows, options):
            case None:
                compared += 1
            case "refused":
                pass
            case str(found):
                failures.append(f"{name} {chosen}: {found}")
    assert not failures, f"{len(failures)} of {len(failures) + compared} differ:\n" + "\n".join(
        failures[:20]
    )
    assert compared > 0


def test_settings_in_pairs_give_the_ids_of_transformers_or_are_refused(tmp_path: Path) -> None:
    chance = random.Random(0)
    if IS_WHOLE:
        assert_equal(
            tmp_path, ((name, chosen) for name in FORMATS for chosen in pairwise(SETTINGS, chance))
        )
    else:
        # Each setting with each format, and the pairs of settings in one format or another.
        every = pairwise({"format": list(FORMATS)} | SETTINGS, chance)
        assert_equal(tmp_path, ((chosen["format"], chosen) for chosen in every))


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
def test_random_settings_give_the_ids_of_transformers_or_are_refused(
    name: str, tmp_path: Path
) -> None:
    chance = random.Random(name)
    pick = ({key: chance.choice(values) for key, values in SETTINGS.items()} for _ in range(400))
    assert_equal(tmp_path, ((name, chosen) for chosen in pick))
