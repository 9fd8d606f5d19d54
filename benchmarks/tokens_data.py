"""Real text of the tokens benchmark.

    python -m benchmarks.tokens_data --out=DIR

It is that of the Debian packages linux-doc-6.1 and dict-gcide, which apt downloads: technical
English and a dictionary, each text once. Documents are about 4 KB long. Beside them lie the same
documents as JSONL, conversations made of them, and a byte-level BPE that is trained on them.

With ``--source`` and ``--gigabytes`` there is more of it: a larger set has the documents of another
one again and again, each time in another order, in a Parquet file each. The set of a long document
adds one that consists of many.
"""

from __future__ import annotations

import gzip
import json
import random
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.measure import Metrics, Options, make_set, read_options

PACKAGES = ("linux-doc-6.1", "dict-gcide")
END = "<|endoftext|>"
TEMPLATE = """{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\\n' }}
    {%- if message.role == 'assistant' %}
        {%- generation %}{{- message.content + '<|im_end|>' }}{%- endgeneration %}
    {%- else %}
        {{- message.content + '<|im_end|>' }}
    {%- endif %}
    {{- '\\n' }}
{%- endfor %}"""
_DOCUMENT_CHARACTERS = 4096
_ROW_GROUP = 256
_VOCABULARY = 50_000


@dataclass(frozen=True, kw_only=True)
class SetOptions(Options):
    """A data set.

    Attributes:
        megabytes: Maximum text that is kept, of about 64.
        source: A set whose documents are repeated.
        gigabytes: Text of the set that repeats them.
        long_megabytes: Text of one document that is added to them, instead.
    """

    megabytes: int = 1000
    source: Path | None = None
    gigabytes: float = 0
    long_megabytes: int = 0


def write_set(options: SetOptions, directory: Path) -> Metrics:
    """Writes the documents of the packages, conversations and the tokenizer."""
    documents, size = [], 0
    for document in _documents():
        documents.append(document)
        size += len(document.encode())
        if size >= options.megabytes * 1_000_000:
            break
    random.Random(42).shuffle(documents)
    write_documents(documents, directory)
    return {"documents": len(documents), "text_bytes": size}


def write_repeated(source: Path, gigabytes: float, directory: Path) -> Metrics:
    """Writes the documents of a set until there is enough text, and its tokenizer."""
    documents = pq.read_table(source / "documents.parquet")
    size = sum(len(text.encode()) for text in documents["text"].to_pylist())
    copies = max(1, round(gigabytes * 1e9 / size))
    (directory / "documents").mkdir()
    for copy in range(copies):
        order = list(range(len(documents)))
        random.Random(copy).shuffle(order)
        path = directory / "documents" / f"part-{copy:05}.parquet"
        pq.write_table(documents.take(order), path, row_group_size=_ROW_GROUP, compression="zstd")
    shutil.copytree(source / "model", directory / "model")
    return {"documents": copies * len(documents), "text_bytes": copies * size}


def write_long(source: Path, megabytes: int, directory: Path) -> Metrics:
    """Writes the documents of a set, a long one, and the tokenizer.

    The long document consists of as many of the others as it takes.
    """
    documents = pq.read_table(source / "documents.parquet")["text"].to_pylist()
    (directory / "documents").mkdir()
    shutil.copy(source / "documents.parquet", directory / "documents")
    draw, parts, size = random.Random(0), [], 0
    while size < megabytes * 1_000_000:
        parts.append(draw.choice(documents))
        size += len(parts[-1].encode())
    table = pa.table({"text": ["\n".join(parts)]})
    pq.write_table(table, directory / "documents" / "long.parquet", compression="zstd")
    shutil.copytree(source / "model", directory / "model")
    return {"documents": len(documents) + 1}


def write_documents(documents: list[str], directory: Path, vocabulary: int = _VOCABULARY) -> None:
    """Writes documents as Parquet and JSONL, conversations of them, and a tokenizer.

    The tokenizer is trained on them.
    """
    pq.write_table(
        pa.table({"text": documents}),
        directory / "documents.parquet",
        row_group_size=_ROW_GROUP,
        compression="zstd",
    )
    with (directory / "documents.jsonl").open("w") as file:
        file.writelines(
            json.dumps({"id": str(n), "text": text}) + "\n" for n, text in enumerate(documents)
        )
    chats = [_chat(text) for text in documents]
    pq.write_table(
        pa.table({"messages": chats}), directory / "chats.parquet", row_group_size=_ROW_GROUP
    )
    _train(documents, directory / "model", vocabulary)


def texts_of(packages: Sequence[str]) -> Iterator[bytes]:
    """Downloads Debian packages and yields their compressed texts."""
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run(
            ["apt-get", "download", "--quiet", *packages],
            cwd=scratch,
            check=True,
            capture_output=True,
        )
        for package in sorted(Path(scratch).glob("*.deb")):
            subprocess.run(["dpkg-deb", "--extract", package, scratch], check=True)
        root = Path(scratch)
        for path in sorted([*root.rglob("*.rst.gz"), *root.rglob("*.dict.dz")]):
            yield gzip.decompress(path.read_bytes())


def _documents() -> Iterator[str]:
    for content in texts_of(PACKAGES):
        text = content.decode(errors="replace")
        yield from (
            text[at : at + _DOCUMENT_CHARACTERS] for at in range(0, len(text), _DOCUMENT_CHARACTERS)
        )


def _chat(text: str) -> list[dict[str, str]]:
    """Four turns, of which the assistant's are three quarters."""
    cuts = [0, len(text) // 8, len(text) // 2, len(text) * 5 // 8, len(text)]
    roles = ["user", "assistant", "user", "assistant"]
    parts = zip(roles, cuts, cuts[1:], strict=False)
    return [{"role": role, "content": text[start:end].strip()} for role, start, end in parts]


def _train(documents: list[str], directory: Path, vocabulary: int) -> None:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[END, "<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(documents, trainer)
    directory.mkdir()
    tokenizer.save(str(directory / "tokenizer.json"))
    config = {"eos_token": END, "chat_template": TEMPLATE}
    (directory / "tokenizer_config.json").write_text(json.dumps(config))


if __name__ == "__main__":
    chosen = read_options(SetOptions)
    if chosen.source is None:
        make_set(
            chosen.out,
            {"kind": "tokens", "megabytes": chosen.megabytes},
            lambda at: write_set(chosen, at),
        )
    elif chosen.long_megabytes:
        described = {"kind": "tokens, long", "long_megabytes": chosen.long_megabytes}
        make_set(chosen.out, described, partial(write_long, chosen.source, chosen.long_megabytes))
    else:
        described = {"kind": "tokens, repeated", "gigabytes": chosen.gigabytes}
        make_set(chosen.out, described, partial(write_repeated, chosen.source, chosen.gigabytes))
