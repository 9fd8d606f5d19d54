"""Batches of packs for variable-length attention and context parallelism: attention within the
packs, and losses of the parts of ranks, are those of each document by itself.
"""

import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from shardmill.load._packing import Packing

torch = pytest.importorskip("torch")

#: Documents of one token, shorter and longer than a pack of 32.
LENGTHS = [5, 1, 17, 40, 3, 8, 2, 31, 12, 9]


def batch_of(path: Path, packing: sm.Packing, output: Any = "torch", batch_size: int = 3) -> Any:
    generator = np.random.default_rng(7)
    tokens = [generator.integers(1, 50, length).tolist() for length in LENGTHS]
    labels = [[-100 if token % 5 == 0 else token for token in row] for row in tokens]
    kind = pa.list_(pa.int64())
    table = pa.table({"tokens": pa.array(tokens, kind), "labels": pa.array(labels, kind)})
    pq.write_table(table, path / "documents.parquet")
    loader = sm.Loader(
        path / "documents.parquet", packing=packing, batch_size=batch_size, output=output
    )
    return next(iter(loader))


def packing_of(columns: Any = ("tokens", "labels"), **options: Any) -> sm.Packing:
    pads = {"labels": -100} if "labels" in columns else 0
    return sm.Packing(columns, pad_value=pads, **{"length": 32, **options})


def documents(batch: Any) -> list[tuple[int, slice]]:
    """Pack and place of each document, without padding."""
    found = []
    room = batch["padded_lengths"] if "padded_lengths" in batch else batch["document_lengths"]
    for pack, (lengths, padded) in enumerate(zip(batch["document_lengths"], room, strict=True)):
        start = 0
        for length, place in zip(lengths.tolist(), padded.tolist(), strict=True):
            found.append((pack, slice(start, start + length)))
            start += place
    return found


class TinyModel:
    """One attention layer in double precision: a rank needs the keys of all others."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(3)

        def weights(*shape: int) -> Any:
            return torch.randn(*shape, generator=generator, dtype=torch.float64)

        self.tokens, self.positions = weights(50, 8), weights(64, 8)
        self.query, self.key, self.value, self.out = (weights(8, 8) for _ in range(4))

    def embedded(self, tokens: Any, positions: Any) -> Any:
        return self.tokens[tokens.long()] + self.positions[positions.long()]

    def logits(self, queries: Any, keys: Any, mask: Any) -> Any:
        attended = torch.nn.functional.scaled_dot_product_attention(
            queries @ self.query, keys @ self.key, keys @ self.value, attn_mask=mask
        )
        return (queries + attended) @ self.out @ self.tokens.T

    def of_document(self, tokens: Any) -> Any:
        rows = self.embedded(tokens, torch.arange(len(tokens)))
        return self.logits(rows, rows, torch.ones(len(tokens), len(tokens)).tril().bool())


def summed_loss(logits: Any, labels: Any) -> Any:
    return torch.nn.functional.cross_entropy(logits, labels.long(), reduction="sum")


def loss_by_document(batch: Any, *, is_next: bool) -> float:
    """The loss of the whole batch as models compute it, of each document by itself."""
    model, total = TinyModel(), 0.0
    for pack, place in documents(batch):
        logits, labels = (
            model.of_document(batch["tokens"][pack, place]),
            batch["labels"][pack, place],
        )
        pairs = (logits, labels) if is_next else (logits[:-1], labels[1:])
        total += float(summed_loss(*pairs))
    return total


def loss_of_parts(parts: list[Any]) -> float:
    """The sum over the ranks, each with its own queries and the keys of all ranks."""
    model, total = TinyModel(), 0.0
    # A row for each token: pack, document and position.
    places = [
        torch.stack(
            [
                torch.arange(len(part["tokens"]))[:, None].expand_as(part["tokens"]),
                part["segment_ids"],
                part["positions"],
            ]
        ).flatten(1)
        for part in parts
    ]
    rows = [model.embedded(part["tokens"], part["positions"]).flatten(0, 1) for part in parts]
    every, keys = torch.cat(places, 1), torch.cat(rows)
    for part, own, queries in zip(parts, places, rows, strict=True):
        is_same = (own[:2, :, None] == every[:2, None]).all(0)
        mask = is_same & (own[2][:, None] >= every[2])
        total += float(
            summed_loss(model.logits(queries, keys, mask), part["shift_labels"].flatten())
        )
    return total


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("per", ["document", "row"])
@pytest.mark.parametrize("strategy", ["concat", "best_fit"])
def test_losses_of_the_parts_add_up_to_that_of_the_batch(
    tmp_path: Path, size: int, per: Any, strategy: Any
) -> None:
    for is_next in (False, True):
        options = {"strategy": strategy, "multiple_of": 2 * size if per == "document" else 1}
        packing = packing_of(**options, next_token=is_next)
        batch = batch_of(tmp_path, packing)
        parts = [packing.context_parallel(batch, rank, size, per=per) for rank in range(size)]
        assert loss_of_parts(parts) == pytest.approx(loss_by_document(batch, is_next=is_next))
        assert all("labels" not in part for part in parts)
        assert sum(int((part["shift_labels"] != -100).sum()) for part in parts) > 50


@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("per", ["document", "row"])
@pytest.mark.parametrize("output", ["torch", "numpy"])
def test_ranks_take_the_first_and_the_last_chunks(
    tmp_path: Path, size: int, per: Any, output: str
) -> None:
    packing = packing_of("tokens", length=48, multiple_of=2 * size)
    batch = batch_of(tmp_path, packing, output)
    bounds = packing.cu_seqlens(batch)
    cut = bounds.tolist() if per == "document" else list(range(0, 3 * 48 + 1, 48))
    flat = batch["tokens"].reshape(-1)
    for rank in range(size):
        places: list[int] = []
        for start, end in zip(cut, cut[1:], strict=False):
            chunk = (end - start) // (2 * size)
            for number in (rank, 2 * size - 1 - rank):
                places += range(start + number * chunk, start + (number + 1) * chunk)
        part = packing.context_parallel(batch, rank, size, per=per)
        assert type(part["tokens"]) is type(flat)
        assert tuple(part["tokens"].shape) == tuple(part["positions"].shape) == (3, 48 // size)
        assert part["tokens"].reshape(-1).tolist() == flat[places].tolist()
        assert part["cu_seqlens"].tolist() == bounds.tolist()
        local = [sum(place < bound for place in places) for bound in bounds.tolist()]
        assert part["local_cu_seqlens"].tolist() == local
        assert part["document_lengths"] is batch["document_lengths"]


def test_tokens_are_the_labels_of_a_batch_without_any(tmp_path: Path) -> None:
    packing = packing_of("tokens", multiple_of=8)
    batch = batch_of(tmp_path, packing)
    with_next = packing_of("tokens", multiple_of=8, next_token=True)
    parts = [packing.context_parallel(batch, rank, 4) for rank in range(4)]
    marked = [
        with_next.context_parallel(batch_of(tmp_path, with_next), rank, 4) for rank in range(4)
    ]
    for part, other in zip(parts, marked, strict=True):
        assert part["shift_labels"].dtype == torch.int64
        differs = part["shift_labels"] != other["shift_labels"]
        # The token after a pack is a label with next_token alone.
        assert (part["shift_labels"][differs] == -100).all()


def test_labels_of_another_name_and_padding_are_taken(tmp_path: Path) -> None:
    table = pa.table({"tokens": [[1, 2, 3, 4], [5, 6]], "targets": [[-1, 2, 3, 4], [5, 6]]})
    pq.write_table(table, tmp_path / "few.parquet")
    packing = sm.Packing(["tokens", "targets"], length=8, pad_value={"targets": -1})
    batch = next(iter(sm.Loader(tmp_path / "few.parquet", packing=packing, output="numpy")))
    part = packing.context_parallel(batch, 0, 1, labels="targets")
    assert part["shift_labels"].tolist() == [[2, 3, 4, -1, 6, -1, -1, -1]]
    with pytest.raises(sm.MissingColumnError, match="no column 'labels2', it has tokens, targets"):
        packing.context_parallel(batch, 0, 1, labels="labels2")


def test_part_that_cannot_be_cut_is_refused_with_its_length(tmp_path: Path) -> None:
    packing = packing_of(multiple_of=4)
    batch = batch_of(tmp_path, packing)
    message = (
        r"a document of \d+ tokens cannot be cut into 8 equal chunks, .*\nhint: .* multiple_of=8"
    )
    with pytest.raises(sm.OptionError, match=message):
        packing.context_parallel(batch, 0, 4)
    with pytest.raises(sm.OptionError, match="a pack of 32 tokens .*\nhint: .* multiple of 6"):
        packing.context_parallel(batch, 0, 3, per="row")
    with pytest.raises(sm.OptionError, match="rank must be an integer from 0 to 1, not 2"):
        packing.context_parallel(batch, 2, 2)
    with pytest.raises(sm.OptionError, match="per must be one of 'document', 'row', not 'pack'"):
        packing.context_parallel(batch, 0, 2, per="pack")  # pyright: ignore[reportArgumentType]
    part = packing.context_parallel(batch, 0, 2)
    for use in (
        lambda: packing.context_parallel(part, 0, 2),
        lambda: packing.varlen(part, style="flash"),
        lambda: packing.cu_seqlens(part),
        lambda: packing_of(length=16).cu_seqlens(batch),
        lambda: packing.cu_seqlens({"tokens": batch["tokens"]}),
    ):
        with pytest.raises(sm.OptionError, match="does not consist of arrays with packs of"):
            use()


@pytest.mark.parametrize("options", [{}, {"multiple_of": 8}, {"strategy": "best_fit"}])
def test_attention_with_a_mask_or_bounds_is_that_of_each_document(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    packing = packing_of("tokens", **options)
    batch = batch_of(tmp_path, packing)
    shape = (*batch["tokens"].shape, 4)
    query, key, value = torch.randn(
        3, *shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64
    )

    def attention(places: Any, mask: Any = None) -> Any:
        return torch.nn.functional.scaled_dot_product_attention(
            query[places], key[places], value[places], attn_mask=mask, is_causal=mask is None
        )

    segments = batch["segment_ids"]
    is_same = (segments[:, :, None] == segments[:, None]) & (segments[:, :, None] > 0)
    masked = attention(slice(None), is_same & torch.ones(32, 32).tril().bool())
    arguments = packing.varlen(batch, style="torch")
    flat = [tensor.flatten(0, 1) for tensor in (query, key, value)]
    bounds = arguments["cu_seq_q"].tolist()
    by_bounds = torch.cat(
        [
            torch.nn.functional.scaled_dot_product_attention(
                *(tensor[start:end] for tensor in flat), is_causal=True
            )
            for start, end in zip(bounds, bounds[1:], strict=False)
        ]
    ).reshape(shape)
    assert arguments["max_q"] == max(np.diff(bounds))
    for place in documents(batch):
        expected = attention(place)
        torch.testing.assert_close(masked[place], expected)
        torch.testing.assert_close(by_bounds[place], expected)


@pytest.mark.parametrize("output", ["torch", "numpy"])
@pytest.mark.parametrize("multiple_of", [1, 4])
def test_arguments_have_the_names_of_each_kernel(
    tmp_path: Path, output: str, multiple_of: int
) -> None:
    packing = packing_of("tokens", multiple_of=multiple_of)
    batch = batch_of(tmp_path, packing, output)
    bounds = packing.cu_seqlens(batch)
    longest = int(max(np.diff(bounds.tolist())))
    arguments: Any = {}
    names = {
        "flash": ["cu_seqlens_q", "cu_seqlens_k", "max_seqlen_q", "max_seqlen_k"],
        "torch": ["cu_seq_q", "cu_seq_k", "max_q", "max_k"],
        "transformers": [
            "cu_seq_lens_q",
            "cu_seq_lens_k",
            "max_length_q",
            "max_length_k",
            "seq_idx",
        ],
    }
    for style, expected in names.items():
        arguments = packing.varlen(batch, style=style)  # pyright: ignore[reportArgumentType]
        assert list(arguments) == expected
        for name in expected[:2]:
            assert type(arguments[name]) is type(bounds)
            assert "int32" in str(arguments[name].dtype)
            assert arguments[name].tolist() == bounds.tolist()
        assert [type(arguments[name]) for name in expected[2:4]] == [int, int]
        assert {arguments[name] for name in expected[2:4]} == {longest}
        fixed = packing.varlen(batch, style=style, max_documents=40)  # pyright: ignore[reportArgumentType]
        padded = bounds.tolist() + [96] * (41 - len(bounds))
        assert fixed[expected[0]].tolist() == fixed[expected[1]].tolist() == padded
        assert {fixed[name] for name in expected[2:4]} == {32}
    of_tokens = arguments["seq_idx"]
    assert tuple(of_tokens.shape) == (1, 96)
    assert np.bincount(of_tokens.reshape(-1).tolist()).tolist() == np.diff(bounds.tolist()).tolist()


def test_arguments_are_those_of_the_collator_of_transformers(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    packing = packing_of("tokens", length=sum(LENGTHS))
    batch = batch_of(tmp_path, packing, batch_size=1)
    collate = transformers.DataCollatorWithFlattening(
        return_flash_attn_kwargs=True, return_seq_idx=True
    )
    rows = pq.read_table(tmp_path / "documents.parquet")["tokens"].to_pylist()
    expected = collate([{"input_ids": row} for row in rows])
    for name, value in packing.varlen(batch, style="transformers").items():
        assert type(value) is type(expected[name])
        assert (
            value == expected[name]
            if isinstance(value, int)
            else (value.dtype == expected[name].dtype and torch.equal(value, expected[name]))
        )


@dataclass
class Older:
    """``PackedSeqParams`` of Megatron Core 0.16."""

    qkv_format: Any = None
    cu_seqlens_q: Any = None
    cu_seqlens_kv: Any = None
    cu_seqlens_q_padded: Any = None
    cu_seqlens_kv_padded: Any = None
    max_seqlen_q: Any = None
    max_seqlen_kv: Any = None


@dataclass
class Newer(Older):
    total_tokens: Any = None


@pytest.mark.parametrize("kind", [Older, Newer])
def test_megatron_gets_bounds_with_and_without_padding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Any
) -> None:
    module = ModuleType("megatron.core.packed_seq_params")
    module.PackedSeqParams = kind  # pyright: ignore[reportAttributeAccessIssue]
    for name in ("megatron", "megatron.core"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    packing = packing_of("tokens", multiple_of=4)
    batch = batch_of(tmp_path, packing)
    found = packing.varlen(batch, style="megatron")
    assert type(found) is kind
    assert found.qkv_format == "thd"
    padded = packing.cu_seqlens(batch).tolist()
    assert found.cu_seqlens_q_padded.tolist() == found.cu_seqlens_kv_padded.tolist() == padded
    # A token is where its document begins, and documents are as long as their tokens.
    tokens, room = np.diff(found.cu_seqlens_q.tolist()), np.diff(padded)
    real = {pack * 32 + place.start: place.stop - place.start for pack, place in documents(batch)}
    assert tokens.tolist() == [
        real.get(start, size) for start, size in zip(padded[:-1], room, strict=True)
    ]
    assert found.cu_seqlens_kv.tolist() == found.cu_seqlens_q.tolist()
    assert found.max_seqlen_q == found.max_seqlen_kv == int(room.max())
    assert getattr(found, "total_tokens", 96) == 96
    fixed = packing.varlen(batch, style="megatron", max_documents=40)
    assert len(fixed.cu_seqlens_q) == len(fixed.cu_seqlens_kv_padded) == 41
    plain = packing_of("tokens")
    found = plain.varlen(batch_of(tmp_path, plain), style="megatron")
    assert found.cu_seqlens_q_padded is None
    assert found.cu_seqlens_q.tolist() == plain.cu_seqlens(batch_of(tmp_path, plain)).tolist()


def test_what_varlen_cannot_do_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packing: Packing = packing_of("tokens")
    batch = batch_of(tmp_path, packing)
    count = len(packing.cu_seqlens(batch)) - 1
    assert (
        len(packing.varlen(batch, style="flash", max_documents=count)["cu_seqlens_q"]) == count + 1
    )
    message = f"max_documents={count - 1}, but the batch has {count} documents.*\nhint: .* {count}"
    with pytest.raises(sm.OptionError, match=message):
        packing.varlen(batch, style="flash", max_documents=count - 1)
    with pytest.raises(sm.OptionError, match="max_documents must be an integer of at least 1"):
        packing.varlen(batch, style="flash", max_documents=0)
    with pytest.raises(
        sm.OptionError, match="style must be one of 'flash', 'megatron', .* not 'te'"
    ):
        packing.varlen(batch, style="te")  # pyright: ignore[reportArgumentType]
    for name in ("megatron", "megatron.core", "megatron.core.packed_seq_params"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(
        ImportError, match="requires megatron.core\nhint: pip install megatron-core"
    ):
        packing.varlen(batch, style="megatron")


@pytest.mark.parametrize("batch", [None, 5, pa.record_batch({"tokens": [1]})], ids=repr)
def test_what_is_not_a_batch_of_arrays_is_refused(batch: Any) -> None:
    packing = sm.Packing("tokens", length=8)
    for call in (
        lambda: packing.cu_seqlens(batch),
        lambda: packing.varlen(batch, style="flash"),
        lambda: packing.context_parallel(batch, 0, 2),
    ):
        with pytest.raises(sm.OptionError, match="arrays with packs of 8 tokens\nhint: pass"):
            call()


@pytest.mark.parametrize("option", [sm.Packing, sm.TokenBatches])
def test_columns_that_are_not_names_are_refused(option: Any) -> None:
    more: dict[str, Any] = {"length": 8} if option is sm.Packing else {}
    with pytest.raises(sm.OptionError, match="a name or a list of names, not 5"):
        option(5, **more)
