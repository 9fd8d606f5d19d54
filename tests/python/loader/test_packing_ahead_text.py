"""Packs of endless lanes of texts and mixtures, and the counts that are kept for them."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from reference_ahead import lanes_of_packs, loader_of, steps_of, taken
from reference_packing import Pack
from test_packing import packs_in, write_documents

pytestmark = pytest.mark.usefixtures("counts_below")


def mixture_of(tmp_path: Path, tokenizer: Path | None = None) -> sm.Mixture:
    """Texts and rows of tokens, or two data sets of tokens."""
    tokens = write_documents(tmp_path, [number * 3 % 17 for number in range(50)])
    if tokenizer is None:
        other: Any = write_documents(tmp_path, [number * 5 % 11 for number in range(30)])
        return sm.Mixture(
            {"a": sm.Dataset(tokens), "b": sm.Dataset(other)}, weights=[3, 1], epoch_rows=70
        )
    texts = tmp_path / "texts"
    if not texts.exists():
        texts.mkdir()
        rows = [f"Row {number}: " + "the loader reads it. " * (number % 7) for number in range(90)]
        for part in range(3):
            table = pa.table({"text": rows[part * 30 : (part + 1) * 30]})
            pq.write_table(table, texts / f"{part}.parquet", row_group_size=7)
    text = sm.Dataset(texts, tokenize=sm.Tokenize("text", tokenizer=tokenizer, eos=True))
    return sm.Mixture(
        {"text": text, "tokens": sm.Dataset(tokens, columns=["tokens"])},
        weights=[1, 1],
        epoch_rows=80,
    )


@pytest.mark.parametrize(
    "packing", [{"length": 7}, {"length": 16, "strategy": "first_fit", "open_packs": 3}]
)
@pytest.mark.parametrize("shuffle", [False, True])
def test_mixture_is_packed_like_its_rows_in_order(
    tmp_path: Path, packing: dict[str, Any], shuffle: bool
) -> None:
    mixture = mixture_of(tmp_path)
    order: dict[str, Any] = {"shuffle": shuffle, "seed": 9, "shuffle_window_bytes": 300}
    packs = lanes_of_packs(mixture, packing, lanes=3, places=90, **order)
    for world_size in (1, 2, 3):
        share = {"batch_size": 6 // world_size, "world_size": world_size, "tail": "drop"}
        steps = steps_of(packs, 90, **share)
        for rank in range(world_size):
            loader = loader_of(
                mixture, {**packing, "epoch_packs": 90}, lanes=3, rank=rank, **share, **order
            )
            found = [packs_in(batch, packing["length"]) for batch in loader]
            assert found == [step[rank].packs for _, step in steps]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a byte-level BPE tokenizer."""
    tokenizers = pytest.importorskip("tokenizers")
    directory = tmp_path_factory.mktemp("tokenizer")
    trained = tokenizers.Tokenizer(tokenizers.models.BPE())
    trained.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=300, special_tokens=["<|end|>"], initial_alphabet=alphabet, show_progress=False
    )
    trained.train_from_iterator(["the loader reads it"], trainer)
    trained.save(str(directory / "tokenizer.json"))
    (directory / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|end|>"}))
    return directory


def of_text(tmp_path: Path, tokenizer: Path, **options: Any) -> sm.Loader:
    packing = {"length": 16, "epoch_packs": 120}
    options = {
        "lanes": 4,
        "shuffle": True,
        "seed": 2,
        "shuffle_window_bytes": 900,
        "tail": "drop",
        **options,
    }
    return loader_of(mixture_of(tmp_path, tokenizer), packing, **options)


def of_ranks(
    tmp_path: Path, tokenizer: Path, state: dict[str, Any], world_size: int, **options: Any
) -> list[list[Pack]]:
    """The global batches after a state, each over all ranks."""
    batches: list[list[Pack]] = []
    for rank in range(world_size):
        share = {"batch_size": 12 // world_size, "rank": rank, "world_size": world_size}
        loader = of_text(tmp_path, tokenizer, **share, **options)
        loader.load_state_dict(state)
        for number, batch in enumerate(loader):
            batches[number:] = batches[number:] or [[]]
            batches[number] += packs_in(batch, 16)
    return batches


def test_mixture_with_text_resumes_on_other_ranks_and_recounts_what_is_lost(
    tmp_path: Path, tokenizer: Path
) -> None:
    whole = [packs_in(batch, 16) for batch in of_text(tmp_path, tokenizer, batch_size=12)]
    four = [
        of_text(tmp_path, tokenizer, batch_size=3, rank=rank, world_size=4) for rank in range(4)
    ]
    begun = [taken(loader, 7, 16) for loader in four]
    assert [[pack for rank in begun for pack in rank[step]] for step in range(7)] == whole[:7]
    state = json.loads(json.dumps(four[0].state_dict()))
    assert all(loader.state_dict() == state for loader in four)
    assert state["packing"]["tokenize"] == state["tokenize"]
    counts = tmp_path / "cache" / "counts"
    for world_size, threads in ((1, 0), (2, 3), (3, 1)):
        assert of_ranks(tmp_path, tokenizer, state, world_size, threads=threads) == whole[7:]
    del four
    shutil.rmtree(counts)
    assert of_ranks(tmp_path, tokenizer, state, 2) == whole[7:]
    files = list(counts.rglob("*.parquet"))
    assert files, "what was counted is kept"
    for path in files:
        path.unlink()
    assert of_ranks(tmp_path, tokenizer, state, 3) == whole[7:]
    files = list(counts.rglob("*.parquet"))
    files[0].write_bytes(files[0].read_bytes()[: files[0].stat().st_size // 2])
    with pytest.warns(UserWarning, match="token counts in .* are ignored"):
        assert of_ranks(tmp_path, tokenizer, state, 2) == whole[7:]


def test_state_of_another_tokenizer_is_refused(tmp_path: Path, tokenizer: Path) -> None:
    path = tmp_path / "texts.parquet"
    pq.write_table(pa.table({"text": ["the loader", "reads it"] * 5}), path)
    packing = {"length": 4, "epoch_packs": 5}
    with_end = loader_of(
        sm.Dataset(path, tokenize=sm.Tokenize("text", tokenizer=tokenizer, eos=True)), packing
    )
    other = loader_of(
        sm.Dataset(path, tokenize=sm.Tokenize("text", tokenizer=tokenizer, bos="<|end|>")), packing
    )
    saved, own = with_end.state_dict()["tokenize"], other.state_dict()["tokenize"]
    with pytest.raises(
        sm.CheckpointMismatchError, match=f"tokenize='{saved}', this loader has tokenize='{own}'"
    ):
        other.load_state_dict(with_end.state_dict())


@pytest.fixture
def packed(tmp_path: Path, tokenizer: Path) -> Callable[[], sm.Loader]:
    """Make a loader whose counts are kept in the directory ``counts``."""
    path = tmp_path / "texts.parquet"
    pq.write_table(pa.table({"text": ["the loader", "reads it"] * 5}), path)

    def loader() -> sm.Loader:
        tokenize = sm.Tokenize("text", tokenizer=tokenizer, eos=True, counts=tmp_path / "counts")
        return loader_of(sm.Dataset(path, tokenize=tokenize), {"length": 4, "epoch_packs": 5})

    return loader


def replace_kept(directory: Path, name: str, change: Callable[[Any], Any]) -> None:
    """Change each value of a column of the only file of counts."""
    (kept,) = directory.rglob("*.parquet")
    table = pq.read_table(kept)
    field = table.schema.field(name)
    changed = pa.array([change(value) for value in table.column(name).to_pylist()], field.type)
    pq.write_table(table.set_column(table.schema.get_field_index(name), field, changed), kept)


def test_wrong_kept_count_is_an_error_that_names_row_and_counts(
    tmp_path: Path, packed: Callable[[], sm.Loader]
) -> None:
    assert list(packed())
    replace_kept(
        tmp_path / "counts", "counts", lambda row: [n + (place == 3) for place, n in enumerate(row)]
    )
    replace_kept(tmp_path / "counts", "tokens", lambda total: total + 1)
    with pytest.raises(sm.FormatError, match="in row 3 of .*texts.parquet"):
        list(packed())


def test_kept_counts_of_a_negative_block_are_ignored_with_a_warning(
    tmp_path: Path, packed: Callable[[], sm.Loader]
) -> None:
    expected = [packs_in(batch, 4) for batch in packed()]
    replace_kept(tmp_path / "counts", "block", lambda _block: -1)
    with pytest.warns(UserWarning, match="of block -1 in .* are ignored"):
        assert [packs_in(batch, 4) for batch in packed()] == expected


def test_texts_are_packed_by_weights_that_are_set(tmp_path: Path, tokenizer: Path) -> None:
    mixture = mixture_of(tmp_path, tokenizer)
    packing = {"length": 16, "strategy": "best_fit", "open_packs": 3, "epoch_packs": 60}
    loader = loader_of(mixture, packing, lanes=2, batch_size=6)
    batches, found, row = loader.steps(40), [], 0
    for step, batch in enumerate(batches):
        found.append(packs_in(batch, 16))
        if step == 7:
            row = loader.set_weights({"text": 3, "tokens": 1})
    stages = [(0, [1, 1]), (row, [3, 1])]
    planned = loader_of(
        sm.Mixture(mixture.sources, weights=stages, epoch_rows=80), packing, lanes=2, batch_size=6
    )
    assert found == [packs_in(batch, 16) for batch in planned.steps(40)]
