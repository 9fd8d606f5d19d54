"""Text to tokens, on the same texts.

The systems are shardmill, tokenizers, tiktoken, a PyTorch DataLoader, datatrove and transformers.
Imports are not timed, nor is loading the tokenizer in the encode and chat scenarios; the tools of
the other scenarios load it within the timing. The token count and a checksum of the ids are the
same for all systems in the encode scenario, and for the first 100 conversations.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.measure import Metrics, Options, record_of, run_entry, status_bytes

_LENGTH = 2048
_BATCH = 8
#: Packs of an epoch where memory is measured: all of the text, and with the long document a third
#: of it.
_EPOCH_PACKS = 8_000
_END = "<|endoftext|>"


@dataclass(frozen=True, kw_only=True)
class TokensOptions(Options):
    """What is tokenized.

    Attributes:
        data: Directory of the data set.
        threads: Threads, or worker processes, of the tool.
        share: Part of the documents; slow tools get fewer.
        epochs: Passes over the documents.
    """

    data: Path
    threads: int = 2
    share: float = 1.0
    epochs: int = 1

    @property
    def documents(self) -> Path:
        """File or directory of the texts."""
        many = self.data / "documents"
        return many if many.is_dir() else self.data / "documents.parquet"

    @property
    def model(self) -> Path:
        """Directory of the tokenizer."""
        return self.data / "model"


def _shardmill() -> Any:
    """The module with what it imports when a loader is made, since imports are not timed."""
    import numpy  # noqa: F401
    import pyarrow  # noqa: F401
    import shardmill
    from shardmill import Dataset, Loader, Tokenize, Tokenizer  # noqa: F401

    return shardmill


def _texts(options: TokensOptions) -> list[str]:
    import pyarrow.parquet as pq

    texts = pq.read_table(options.documents)["text"].to_pylist()
    return texts[: max(1, int(len(texts) * options.share))]


def _text_bytes(options: TokensOptions) -> int:
    """Without a copy of all texts, which would show in the peak memory."""
    import pyarrow.parquet as pq

    file = pq.ParquetFile(options.data / "documents.parquet")
    groups = (file.read_row_group(number, ["text"]) for number in range(file.num_row_groups))
    return sum(len(text.encode()) for group in groups for text in group["text"].to_pylist())


def _rate(size: int, seconds: float, **more: Any) -> Metrics:
    return {"text_bytes": size, "seconds": seconds, "mb_per_s": size / 1e6 / seconds, **more}


def _digest(lists: Iterable[Sequence[int]]) -> tuple[int, int]:
    """Number of ids, and a sum that changes with ids and rows."""
    import numpy as np

    tokens = total = 0
    for row, ids in enumerate(lists):
        tokens += len(ids)
        total += (row + 1) * int(np.asarray(ids, dtype=np.int64).sum())
    return tokens, total % (1 << 61)


def encode_shardmill(options: TokensOptions) -> Metrics:
    """Parquet to Arrow lists of ids, by the loader."""
    sm = _shardmill()

    tokenizer = sm.Tokenizer(options.model)
    data = sm.Dataset(options.documents, tokenize=sm.Tokenize("text", tokenizer=tokenizer))

    def loader() -> Any:
        return sm.Loader(
            data, batch_size=256, output="arrow", runtime=sm.Runtime(threads=options.threads)
        )

    start = time.perf_counter()
    tokens = sum(len(batch.column("tokens").flatten()) for batch in loader())
    seconds = time.perf_counter() - start
    if options.documents.is_dir():
        return _rate(_repeated_bytes(options), seconds, tokens=tokens)
    tokens, digest = _digest(
        row for batch in loader() for row in batch.column("tokens").to_pylist()
    )
    return _rate(
        sum(len(text.encode()) for text in _texts(options)), seconds, tokens=tokens, digest=digest
    )


def encode_reader(options: TokensOptions) -> Metrics:
    """The loader without tokens: Parquet to Arrow strings."""
    sm = _shardmill()

    data = sm.Dataset(options.documents, columns=["text"])
    start = time.perf_counter()
    loader = sm.Loader(
        data, batch_size=256, output="arrow", runtime=sm.Runtime(threads=options.threads)
    )
    rows = sum(batch.num_rows for batch in loader)
    return _rate(_repeated_bytes(options), time.perf_counter() - start, rows=rows)


def _repeated_bytes(options: TokensOptions) -> int:
    """As ``make_set`` noted them."""
    return int(record_of(options.data)["text_bytes"])


def first_shardmill(options: TokensOptions) -> Metrics:
    """From nothing to the first batch of packs, shuffled, with no token counted before."""
    sm = _shardmill()
    import torch  # noqa: F401 - imported before the clock starts

    os.environ["SHARDMILL_CACHE_DIR"] = str(options.scratch / "cache")
    tokenizer = sm.Tokenizer(options.model)
    start = time.perf_counter()
    data = sm.Dataset(
        options.documents, tokenize=sm.Tokenize("text", tokenizer=tokenizer, eos=_END)
    )
    loader = sm.Loader(
        data,
        packing=sm.Packing("tokens", length=_LENGTH, plan="ahead", epoch_packs=1_000_000),
        batch_size=_BATCH,
        shuffle=True,
        output="torch",
        runtime=sm.Runtime(threads=options.threads),
    )
    batches = iter(loader)
    shape = tuple(next(batches)["tokens"].shape)
    seconds = time.perf_counter() - start
    return _rate(_repeated_bytes(options), seconds, is_success=shape == (_BATCH, _LENGTH))


def encode_engine(options: TokensOptions) -> Metrics:
    """The engine alone: texts in memory, ids that stay in Rust."""
    import shardmill as sm
    from shardmill._native.tokens import count_all
    from shardmill.data._tokenizer import native_tokenizer

    tokenizer = native_tokenizer(sm.Tokenizer(options.model))
    texts = _texts(options)
    start = time.perf_counter()
    tokens = count_all(tokenizer, texts, threads=options.threads)
    return _rate(
        sum(len(text.encode()) for text in texts), time.perf_counter() - start, tokens=tokens
    )


def encode_tokenizers(options: TokensOptions) -> Metrics:
    """The library of Hugging Face, its fastest call."""
    os.environ["RAYON_NUM_THREADS"] = str(options.threads)
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(options.model / "tokenizer.json"))
    tokenizer.encode_special_tokens = True
    texts = _texts(options)
    start = time.perf_counter()
    encoded = tokenizer.encode_batch_fast(texts, add_special_tokens=False)
    seconds = time.perf_counter() - start
    tokens, digest = _digest(encoding.ids for encoding in encoded)
    return _rate(sum(len(text.encode()) for text in texts), seconds, tokens=tokens, digest=digest)


def encode_tiktoken(options: TokensOptions) -> Metrics:
    """Tiktoken with the same vocabulary.

    Its ids are the ranks but for those of the special tokens.
    """
    import tiktoken

    ranks, first = _ranks(options.model)
    pattern = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"
    encoding = tiktoken.Encoding(
        "trained", pat_str=pattern, mergeable_ranks=ranks, special_tokens={}
    )
    texts = _texts(options)
    start = time.perf_counter()
    encoded = encoding.encode_ordinary_batch(texts, num_threads=options.threads)
    seconds = time.perf_counter() - start
    tokens, digest = _digest([id + first for id in ids] for ids in encoded)
    return _rate(sum(len(text.encode()) for text in texts), seconds, tokens=tokens, digest=digest)


def _ranks(model: Path) -> tuple[dict[bytes, int], int]:
    """Tokens as bytes with their ranks, and the id of the first."""
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    document = json.loads((model / "tokenizer.json").read_text())
    special = len(document["added_tokens"])
    byte_of = {mark: byte for byte, mark in bytes_to_unicode().items()}
    vocabulary = {token: id for token, id in document["model"]["vocab"].items() if id >= special}
    return {
        bytes(byte_of[mark] for mark in token): id - special for token, id in vocabulary.items()
    }, special


def packed_shardmill(options: TokensOptions) -> Metrics:
    """Parquet to packed tensors, counted in the first pass."""
    sm = _shardmill()
    import torch  # noqa: F401 - imported by all systems before their clock starts

    os.environ["SHARDMILL_CACHE_DIR"] = str(options.scratch / "cache")
    tokenizer = sm.Tokenizer(options.model)
    tokenize = sm.Tokenize("text", tokenizer=tokenizer, eos=_END)
    size = _text_bytes(options)
    seconds = []
    rows = 0
    for _ in range(options.epochs):
        data = sm.Dataset(options.data / "documents.parquet", tokenize=tokenize)
        start = time.perf_counter()
        loader = sm.Loader(
            data,
            packing=sm.Packing("tokens", length=_LENGTH),
            batch_size=_BATCH,
            output="torch",
            runtime=sm.Runtime(threads=options.threads),
        )
        rows = sum(batch["tokens"].shape[0] for batch in loader)
        seconds.append(time.perf_counter() - start)
    return _rate(size, seconds[0], packs=rows, counted_seconds=min(seconds[1:], default=None))


def memory_shardmill(options: TokensOptions) -> Metrics:
    """NumPy batches of two shuffled lanes, torch not imported.

    ``growth`` compares the peak of the last epoch with that of the first.
    """
    sm = _shardmill()
    os.environ["SHARDMILL_CACHE_DIR"] = str(options.scratch / "cache")
    data = sm.Dataset(
        options.documents,
        tokenize=sm.Tokenize("text", tokenizer=sm.Tokenizer(options.model), eos=_END),
    )
    loader = sm.Loader(
        data,
        packing=sm.Packing("tokens", length=_LENGTH, plan="ahead", epoch_packs=_EPOCH_PACKS),
        batch_size=_BATCH,
        lanes=2,
        shuffle=True,
        output="numpy",
        runtime=sm.Runtime(threads=options.threads),
    )
    start, packs, peaks = time.perf_counter(), 0, []
    for _ in range(options.epochs):
        packs += sum(batch["tokens"].shape[0] for batch in loader)
        peaks.append(status_bytes("VmHWM") / 1e6)
    seconds = time.perf_counter() - start
    return {
        "packs": packs,
        "seconds": seconds,
        "epoch_peak_mb": peaks,
        "growth": peaks[-1] / peaks[0],
    }


def packed_dataloader(options: TokensOptions) -> Metrics:
    """An IterableDataset in worker processes tokenizes a row group at a time and groups the ids."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    import torch

    class Packs(torch.utils.data.IterableDataset[Any]):
        def __iter__(self) -> Iterator[Any]:
            import pyarrow.parquet as pq
            from tokenizers import Tokenizer

            tokenizer: Any = Tokenizer.from_file(str(options.model / "tokenizer.json"))
            end = tokenizer.token_to_id(_END)
            worker = torch.utils.data.get_worker_info()
            assert worker is not None
            file = pq.ParquetFile(options.data / "documents.parquet")
            groups = int(file.num_row_groups * options.share)
            kept: list[int] = []
            for group in range(worker.id, groups, worker.num_workers):
                texts = file.read_row_group(group)["text"].to_pylist()
                for encoding in tokenizer.encode_batch_fast(texts, add_special_tokens=False):
                    kept.extend(encoding.ids)
                    kept.append(end)
                whole = len(kept) // _LENGTH * _LENGTH
                yield from torch.tensor(kept[:whole]).view(-1, _LENGTH)
                kept = kept[whole:]

    import pyarrow.parquet as pq

    file = pq.ParquetFile(options.data / "documents.parquet")
    groups = int(file.num_row_groups * options.share)
    size = sum(
        len(text.encode()) for text in file.read_row_groups(range(groups))["text"].to_pylist()
    )
    start = time.perf_counter()
    batches = torch.utils.data.DataLoader(Packs(), batch_size=_BATCH, num_workers=options.threads)
    rows = sum(batch.shape[0] for batch in batches)
    return _rate(size, time.perf_counter() - start, packs=rows)


def write_shardmill(options: TokensOptions) -> Metrics:
    """JSONL to Parquet of tokens, by the command."""
    import pyarrow  # noqa: F401 - as above
    from shardmill import Dataset, Tokenize, Tokenizer, Writer  # noqa: F401
    from shardmill.cli._commands import run

    size = _text_bytes(options)
    out = options.scratch / "tokens"
    arguments = [
        "--tokenizer",
        str(options.model),
        "--eos",
        _END,
        "--threads",
        str(options.threads),
        "--no-progress",
    ]
    start = time.perf_counter()
    code = run(["tokenize", str(options.data / "documents.jsonl"), str(out), *arguments])
    seconds = time.perf_counter() - start
    return _rate(size, seconds, is_success=code == 0)


def write_datatrove(options: TokensOptions) -> Metrics:
    """Datatrove's JsonlReader and DocumentTokenizer, a task for each core.

    The input is cut into as many files.
    """
    from datatrove.executor import LocalPipelineExecutor  # pyright: ignore - of the peer
    from datatrove.pipeline.readers import JsonlReader  # pyright: ignore - of the peer
    from datatrove.pipeline.tokens import DocumentTokenizer  # pyright: ignore - of the peer

    lines = (options.data / "documents.jsonl").read_text().splitlines(keepends=True)
    lines = lines[: int(len(lines) * options.share)]
    parts = options.scratch / "input"
    parts.mkdir(parents=True)
    for part in range(options.threads):
        (parts / f"{part}.jsonl").write_text("".join(lines[part :: options.threads]))
    size = sum(len(json.loads(line)["text"].encode()) for line in lines)
    steps = [
        JsonlReader(str(parts), compression=None),
        DocumentTokenizer(
            str(options.scratch / "tokens"),
            tokenizer_name_or_path=str(options.model / "tokenizer.json"),
            eos_token=_END,
            shuffle_documents=False,
        ),
    ]
    executor = LocalPipelineExecutor(
        steps,
        tasks=options.threads,
        workers=options.threads,
        logging_dir=str(options.scratch / "logs"),
    )
    start = time.perf_counter()
    executor.run()
    return _rate(size, time.perf_counter() - start)


def chat_shardmill(options: TokensOptions) -> Metrics:
    """Conversations to tokens with labels for the assistant."""
    sm = _shardmill()

    tokenize = sm.Tokenize(
        messages="messages", tokenizer=sm.Tokenizer(options.model), labels="assistant"
    )
    data = sm.Dataset(options.data / "chats.parquet", tokenize=tokenize)
    start = time.perf_counter()
    loader = sm.Loader(
        data, batch_size=256, output="arrow", runtime=sm.Runtime(threads=options.threads)
    )
    batches = list(loader)
    seconds = time.perf_counter() - start
    first = batches[0].slice(0, 100)
    size = _text_bytes(options)
    rows = sum(batch.num_rows for batch in batches)
    tokens, digest = _digest(first.column("tokens").to_pylist())
    labelled = sum(
        label != -100 for labels in first.column("labels").to_pylist() for label in labels
    )
    return _rate(
        size,
        seconds,
        conversations_per_s=rows / seconds,
        digest=digest,
        tokens=tokens,
        labelled=labelled,
    )


def chat_transformers(options: TokensOptions) -> Metrics:
    """``apply_chat_template`` with the assistant's mask, conversation by conversation."""
    import pyarrow.parquet as pq
    from transformers import PreTrainedTokenizerFast

    tokenizer: Any = PreTrainedTokenizerFast(
        tokenizer_file=str(options.model / "tokenizer.json"), eos_token=_END
    )
    config = json.loads((options.model / "tokenizer_config.json").read_text())
    chats = pq.read_table(options.data / "chats.parquet")["messages"].to_pylist()
    chats = chats[: max(100, int(len(chats) * options.share))]
    texts = pq.read_table(options.data / "documents.parquet")["text"].to_pylist()
    size = sum(len(text.encode()) for text in texts[: len(chats)])
    start = time.perf_counter()
    found = [
        tokenizer.apply_chat_template(
            chat,
            chat_template=config["chat_template"],
            tokenize=True,
            return_dict=True,
            return_assistant_tokens_mask=True,
        )
        for chat in chats
    ]
    seconds = time.perf_counter() - start
    tokens, digest = _digest(one["input_ids"] for one in found[:100])
    labelled = sum(sum(one["assistant_masks"]) for one in found[:100])
    return _rate(
        size,
        seconds,
        conversations_per_s=len(chats) / seconds,
        digest=digest,
        tokens=tokens,
        labelled=labelled,
    )


SYSTEMS = {
    ("encode", "shardmill"): encode_shardmill,
    ("encode", "engine"): encode_engine,
    ("encode", "reader"): encode_reader,
    ("encode", "tokenizers"): encode_tokenizers,
    ("encode", "tiktoken"): encode_tiktoken,
    ("first", "shardmill"): first_shardmill,
    ("memory", "shardmill"): memory_shardmill,
    ("packed", "shardmill"): packed_shardmill,
    ("packed", "dataloader"): packed_dataloader,
    ("write", "shardmill"): write_shardmill,
    ("write", "datatrove"): write_datatrove,
    ("chat", "shardmill"): chat_shardmill,
    ("chat", "transformers"): chat_transformers,
}


def measure(options: TokensOptions) -> Metrics:
    """Runs one system once."""
    return SYSTEMS[options.scenario, options.system](options)


if __name__ == "__main__":
    run_entry(TokensOptions, measure)
