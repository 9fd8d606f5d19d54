"""What `shardmill view` shows of packs, against the batches of a loader."""

import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from breadth import examples
from byte_tokenizer import END, write_tokenizer
from hypothesis import given, settings
from hypothesis import strategies as st
from shardmill.view import TokenColumns
from token_page import Shown, page
from view_client import serving

pytestmark = pytest.mark.usefixtures("counts_below")

TEXTS = ["abc", "", "defghijklm", "no", "p", "qrstuvw"]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return write_tokenizer(tmp_path_factory.mktemp("model"))


def written(path, **columns):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)
    return path


def ids(cell):
    return [token["id"] for token in cell["tokens"]]


def pieces(content):
    return [
        (found["file"], found["file_row"], found["first_token"], found["tokens"])
        for found in content["documents"]
    ]


@settings(deadline=None, max_examples=examples(25))
@given(
    lengths=st.lists(st.integers(0, 9), min_size=1, max_size=20),
    length=st.integers(1, 8),
    strategy=st.sampled_from(["concat", "best_fit", "first_fit"]),
    has_labels=st.booleans(),
)
def test_packs_are_those_of_a_loader(
    tmp_path_factory, tokenizer, lengths, length, strategy, has_labels
):
    directory = tmp_path_factory.mktemp("packs")
    tokens = [[97 + (row + at) % 26 for at in range(size)] for row, size in enumerate(lengths)]
    types = {"tokens": pa.list_(pa.int32()), "labels": pa.list_(pa.int64())}
    columns = {"tokens": tokens} | (
        {"labels": [[-100 if id % 3 else id for id in row] for row in tokens]} if has_labels else {}
    )
    half = len(tokens) // 2
    for name, part in (("a", slice(half)), ("b", slice(half, None))):
        arrays = {column: pa.array(rows[part], types[column]) for column, rows in columns.items()}
        written(directory / f"{name}.parquet", **arrays)
    packing = sm.Packing(
        list(columns),
        length=length,
        strategy=strategy,
        pad_value={"labels": -100} if has_labels else {},
    )
    token_columns = TokenColumns(tokenizer, labels="labels" if has_labels else None)
    loader = sm.Loader(
        directory,
        packing=packing,
        batch_size=1,
        output="numpy",
        tail="uneven",
        rank=0,
        world_size=1,
    )
    batches = list(loader)
    with serving(directory, tokens=token_columns, packing=packing) as client:
        assert client.get("data/packs")[1]["total"] == len(batches)
        # Not in order, since a page may be turned back.
        for number in reversed(range(len(batches))):
            content = client.get("data/packs", start=number)[1]
            batch = batches[number]
            filled = int((batch["segment_ids"][0] > 0).sum())
            assert (content["pack"], content["filled"], content["padding"]) == (
                number,
                filled,
                length - filled,
            )
            shown = [id for found in content["documents"] for id in ids(found["cell"])]
            assert shown == batch["tokens"][0][:filled].tolist()
            lengths = batch["document_lengths"].values.tolist()
            assert [found["tokens"] for found in content["documents"]] == lengths
            assert pieces(content) == loader.explain(step=number, epoch=0)["packs"][0]
            if has_labels:
                labels = [
                    token["label"]
                    for found in content["documents"]
                    for token in found["cell"]["tokens"]
                ]
                assert labels == [
                    None if label == -100 else label
                    for label in batch["labels"][0][:filled].tolist()
                ]


def test_documents_are_runs_with_file_row_and_text(tmp_path, tokenizer):
    written(tmp_path / "data" / "a.parquet", text=TEXTS[:3])
    written(tmp_path / "data" / "b.parquet", text=TEXTS[3:])
    tokenize = sm.Tokenize("text", tokenizer=tokenizer, eos=True)
    with serving(
        tmp_path / "data", tokenize=tokenize, packing=sm.Packing("tokens", length=8)
    ) as client:
        content = client.get("data/packs", start=1)[1]
        assert pieces(content) == [("a.parquet", 2, 4, 7), ("b.parquet", 0, 0, 1)]
        assert [found["row"] for found in content["documents"]] == [2, 3]
        assert (content["total"], content["tokens"], content["rows"], content["left_out"]) == (
            4,
            28,
            6,
            0,
        )
        shown = page(client, view="packs", start=1)
        assert "pack 1 of 4" in shown and "8 tokens · 0 of padding" in shown
        assert "from token 4 of the row on" in shown
        assert 'class="hue-1" x="7" width="1"' in shown
        assert [text for text, *_ in Shown(shown).tokens] == [*"hijklm", END, "n"]
        assert "4 of padding" in page(client, view="packs", start=3)
        # The last pack, for a number that is too large.
        assert "pack 3 of 4" in page(client, view="packs", start=2**40)
        status, _, body = client.request(f"/{client.server.token}/tokens?pack=1&document=1")
        assert (status, [text for text, *_ in Shown(body.decode()).tokens]) == (200, ["n"])
        for missing in ({"pack": 4, "document": 0}, {"pack": 1, "document": 2}):
            assert client.get("tokens", **missing)[0] == 404
        assert 'aria-pressed="true" data-go="">Packs' in page(client)


def test_rows_are_linked_unless_their_place_is_not_known(tmp_path, tokenizer):
    for directory in ("x", "y"):
        written(tmp_path / directory / "a.parquet", text=["ab", "c"])
    tokenize = sm.Tokenize("text", tokenizer=tokenizer)
    packing = sm.Packing("tokens", length=6)
    with serving(
        tmp_path / "x" / "a.parquet",
        tmp_path / "y" / "a.parquet",
        tokenize=tokenize,
        packing=packing,
    ) as client:
        assert [found["row"] for found in client.get("data/packs")[1]["documents"]] == [None] * 4
        assert "its row" not in page(client)
    with serving(
        tmp_path / "x", filter=sm.col("text") != "ab", tokenize=tokenize, packing=packing
    ) as client:
        [found] = client.get("data/packs")[1]["documents"]
        assert (found["file_row"], found["row"]) == (1, None)
    with serving(tmp_path / "x", tokenize=tokenize, packing=packing) as client:
        assert page(client).count("its row") == 2


def test_pack_of_many_and_long_documents_is_cut_and_says_so(tmp_path, tokenizer):
    path = written(tmp_path / "long.parquet", text=["z" * 5_000] * 12 + ["y"] * 700)
    tokenize = sm.Tokenize("text", tokenizer=tokenizer)
    with serving(path, tokenize=tokenize, packing=sm.Packing("tokens", length=70_000)) as client:
        content = client.get("data/packs")[1]
        sizes = [len(found["cell"]["tokens"]) for found in content["documents"] if "cell" in found]
        assert (len(content["documents"]), len(sizes)) == (712, 500)
        assert (sizes[:12], sum(sizes)) == ([2_000] * 10 + [0] * 2, 20_000)
        shown = page(client)
        assert "712 documents" in shown and "… and 212 documents more" in shown
        assert 'data-tokens="pack=0&amp;document=11">… show all 5,000 tokens' in shown
        _, _, body = client.request(f"/{client.server.token}/tokens?pack=0&document=11")
        assert len(Shown(body.decode()).tokens) == 5_000


def test_tokens_that_the_packing_leaves_out_are_counted(tmp_path, tokenizer):
    path = written(tmp_path / "x.parquet", text=["abcdef", "g"])
    packing = sm.Packing("tokens", length=4, strategy="best_fit", long="truncate")
    with serving(
        path, tokenize=sm.Tokenize("text", tokenizer=tokenizer), packing=packing
    ) as client:
        assert client.get("data/packs")[1]["left_out"] == 2
        assert "2 tokens left out" in page(client)


def test_row_that_cannot_be_tokenized_is_told_in_place_of_the_packs(tmp_path, tokenizer):
    path = written(tmp_path / "x.parquet", text=["a", None])
    with serving(
        path,
        tokenize=sm.Tokenize("text", tokenizer=tokenizer),
        packing=sm.Packing("tokens", length=4),
    ) as client:
        assert "Row 1 of" in page(client, view="packs")
        assert [text for text, *_ in Shown(page(client, view="tokens")).tokens] == ["a"]


@pytest.mark.parametrize(
    "cost",
    [
        sm.Cost(pair=0.5),
        sm.Cost(pair=0.25, window_pair=1, window=3, count_padding=False),
    ],
)
def test_costs_of_steps_are_drawn_without_and_with_the_balance(tmp_path, tokenizer, cost):
    lengths = [1 + 7 * row % 11 for row in range(64)]
    path = written(tmp_path / "x.parquet", tokens=[[97] * length for length in lengths])
    options = {"columns": ["tokens"], "length": 12, "strategy": "best_fit", "multiple_of": 2}
    balance = sm.Balance(cost, per_step=4, window_packs=8)
    packing, plain = sm.Packing(**options, balance=balance), sm.Packing(**options)
    common = {"rank": 0, "batch_size": 1, "output": "numpy"}
    balanced = sm.Loader(path, packing=packing, world_size=3, **common)
    explained = balanced.explain()
    packed = sm.Loader(path, packing=plain, world_size=3, **common)
    steps = explained["steps"] - explained["steps_after_first_end"]
    with serving(path, tokens=TokenColumns(tokenizer), packing=packing, world_size=3) as client:
        content = client.get("data/packs")[1]
        costs, shown = content["step_costs"], page(client)
    assert costs["total"] == steps == len(costs["steps"]["balanced"]) > 6
    known = {}
    for step in range(steps):
        ranks = [balanced.explain(step=step, rank=rank) for rank in range(3)]
        own = ranks[0]["rank_costs"]
        known |= {tuple(at["packs"][0]): one for at, one in zip(ranks, own, strict=True)}
        assert costs["steps"]["balanced"][step] == pytest.approx([max(own), sum(own) / 3])
    for step in range(steps):
        ranks = [packed.explain(step=step, rank=rank)["packs"][0] for rank in range(3)]
        own = [known[tuple(pack)] for pack in ranks]
        assert costs["steps"]["as_packed"][step] == pytest.approx([max(own), sum(own) / 3])
    assert costs["imbalance"] == {
        order: figures["before_first_end"] for order, figures in explained["cost_imbalance"].items()
    }
    drawn = re.findall(r"<title>step (\d+): the largest cost is ([\d.]+) × the mean", shown)
    both = [*costs["steps"]["as_packed"], *costs["steps"]["balanced"]]
    assert [float(ratio) for _, ratio in drawn] == [
        pytest.approx(largest / mean, abs=6e-4) for largest, mean in both
    ]
    # The packs are shown in the order in which they are packed.
    first = sm.Loader(path, packing=plain, world_size=1, **common)
    assert pieces(content) == first.explain()["packs"][0]


def test_one_rank_and_packs_without_a_balance_have_no_costs(tmp_path, tokenizer):
    path = written(tmp_path / "x.parquet", tokens=[[97]] * 9)
    balance = sm.Balance(sm.Cost(), per_step=4)
    for options in (
        {"packing": sm.Packing("tokens", length=2, balance=balance)},
        {"packing": sm.Packing("tokens", length=2), "world_size": 3},
    ):
        with serving(path, tokens=TokenColumns(tokenizer), **options) as client:
            assert "step_costs" not in client.get("data/packs")[1]
            assert "costs of steps" not in page(client)
