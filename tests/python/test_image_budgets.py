"""Packs that hold a number of images and patches, and what is planned from these numbers."""

import random
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from breadth import examples
from byte_tokenizer import END
from interleaved_documents import (
    PAD,
    loaders_of_ranks,
    picture,
    qwen_sequences,
    write_documents,
    write_model,
)

pytestmark = pytest.mark.usefixtures("counts_below")

#: Bytes of a patch as float32.
PATCH = 3 * 2 * 14 * 14 * 4

PLANS = {"epoch": {}, "ahead": {"plan": "ahead", "epoch_packs": 32}}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("model"))


def illustrated(seed, count, most=9):
    """Documents of 0 to 9 images and their texts, which begin with the number of the document."""
    rng = random.Random(seed)
    documents = []
    for number in range(count):
        parts = [f"{number:03d}" + "x" * rng.randint(0, 40)]
        for image in range(rng.randint(0, most)):
            sides = rng.choice([(28, 28), (28, 56), (56, 84)])
            parts += [picture(*sides, seed=100 * number + image), "y" * rng.randint(1, 9)]
        documents.append(parts)
    return documents


def packing(**options):
    given = {"length": 512, "strategy": "best_fit", "long": "drop"} | options
    return sm.Packing(["tokens", "labels"], **given)


def data_of(tmp_path, model, documents, **options):
    path = write_documents(tmp_path / "data", documents, row_group_size=60, files=2)
    return sm.Dataset(path, sequences=qwen_sequences(model, **options))


def facts_of(data):
    """The number of tokens, images and patches of each document, in order."""
    facts = []
    for document in data:
        grids = np.asarray(document["image_grid_thw"], dtype=np.int64).reshape(-1, 3)
        facts.append((len(document["tokens"]), len(grids), int(grids.prod(1).sum())))
    return facts


def numbers_in(batch):
    """The numbers of the documents of each pack, and the images and patches of the pack."""
    index, grids = np.asarray(batch["image_index"]), np.asarray(batch["image_grid_thw"])
    both = zip(batch["tokens"], batch["segment_ids"], strict=True)
    for pack, (tokens, segments) in enumerate(both):
        starts = [np.flatnonzero(segments == n)[0] for n in range(1, segments.max(initial=0) + 1)]
        documents = [int(bytes(tokens[at : at + 3].astype(np.uint8))) for at in starts]
        own = grids[index[:, 0] == pack]
        yield documents, len(own), int(own.prod(1).sum())


def expected(facts, *, length, images=10**9, patches=10**9, strategy="best_fit"):
    """The numbers of the documents of each pack, while no pack has to be closed early."""
    packs, closed = [], []
    most = length, images, patches
    sums = {}
    for number, fact in enumerate(facts):
        if any(value > limit for value, limit in zip(fact, most, strict=True)):
            continue
        fits = [
            pack
            for pack in packs
            if all(a + b <= c for a, b, c in zip(sums[id(pack)], fact, most, strict=True))
        ]
        if strategy == "best_fit":
            fits.sort(key=lambda pack: -sums[id(pack)][0])
        pack = fits[0] if fits else []
        if not fits:
            packs.append(pack)
        pack.append(number)
        before = sums.get(id(pack), (0, 0, 0))
        sums[id(pack)] = tuple(a + b for a, b in zip(before, fact, strict=True))
        if sums[id(pack)][0] == length:
            packs = [other for other in packs if other is not pack]
            closed.append(pack)
    return closed + packs


@pytest.mark.parametrize("strategy", ["best_fit", "first_fit"])
@pytest.mark.parametrize("budgets", [(3, None), (None, 20), (4, 24)])
def test_packs_are_those_with_room_for_tokens_images_and_patches(
    tmp_path, model, strategy, budgets
):
    images, patches = budgets
    data = data_of(tmp_path, model, illustrated(1, examples(80, 30)))
    facts = facts_of(data)
    given = packing(strategy=strategy, max_images=images, max_patches=patches)
    loader = sm.Loader(data, packing=given, batch_size=2, output="numpy")
    found = [pack for batch in loader for pack in numbers_in(batch)]
    limits = {"images": images or 10**9, "patches": patches or 10**9}
    packs = expected(facts, length=512, strategy=strategy, **limits)
    assert [documents for documents, *_ in found] == packs
    for documents, own_images, own_patches in found:
        assert own_images == sum(facts[number][1] for number in documents) <= limits["images"]
        assert own_patches == sum(facts[number][2] for number in documents) <= limits["patches"]
    dropped = len(facts) - sum(map(len, packs))
    assert loader.explain()["dropped_rows"] == dropped > 0


def test_blocks_of_forty_documents_are_whole_and_each_image_is_decoded_once(tmp_path, model):
    data = data_of(tmp_path, model, illustrated(8, 40))
    facts = facts_of(data)
    loader = sm.Loader(
        data, packing=packing(max_images=3), batch_size=3, shuffle=True, output="numpy"
    )
    pad = sm.Tokenizer(model).token_id(PAD)
    seen, images = [], 0
    for batch in loader:
        tokens = batch["tokens"]
        for pack, first, count in batch["image_index"]:
            block = tokens[pack, first - 1 : first + count + 1]
            assert set(block[1:-1]) == {pad} and pad not in (block[0], block[-1])
        assert len(batch["pixel_values"]) == batch["image_grid_thw"].prod(1).sum()
        for documents, own, _ in numbers_in(batch):
            assert own <= 3
            seen += documents
            images += own
    kept = [number for number, (_, own, _) in enumerate(facts) if own <= 3]
    assert sorted(seen) == kept
    assert images == sum(facts[number][1] for number in kept)
    assert loader.metrics().images_decoded == images


@pytest.mark.parametrize("plan", PLANS)
def test_ranks_that_resume_in_other_numbers_get_the_same_packs(tmp_path, model, plan):
    data = data_of(tmp_path, model, illustrated(3, 48, most=4))
    given = packing(max_images=4, max_patches=40, length=256, **PLANS[plan])

    def sequence(ranks, batch, state, steps):
        loaders = loaders_of_ranks(data, given, ranks, state, batch_size=batch)
        found, iterators = [], [iter(loader) for loader in loaders]
        for _ in range(steps):
            batches = [next(iterator, None) for iterator in iterators]
            if not any(batch is not None for batch in batches):
                break
            # Which rank gets which pack of a step depends on their number.
            found += sorted(pack for batch in batches if batch for pack in numbers_in(batch))
        return found, loaders[0].state_dict()

    whole, _ = sequence(1, 1, None, 10**6)
    assert all(images <= 4 and patches <= 40 for _, images, patches in whole)
    found, state = [], None
    for ranks, steps in [(8, 1), (3, 2), (16, 10**6)]:
        part, state = sequence(ranks, 1, state, steps)
        for start in range(0, len(part), ranks):
            step = whole[len(found) : len(found) + ranks]
            assert part[start : start + ranks] == sorted(step)
            found += step
    assert found == whole


def test_state_of_other_budgets_is_refused_with_both(tmp_path, model):
    data = data_of(tmp_path, model, illustrated(2, 12, most=2))
    state = sm.Loader(data, packing=packing(max_images=3), output="numpy").state_dict()
    other = sm.Loader(data, packing=packing(max_images=4), output="numpy")
    with pytest.raises(ValueError, match=r"max_images=3, .* max_images=4"):
        other.load_state_dict(state)


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize(
    ("budgets", "message"),
    [
        ({"max_images": 2}, "has 3 images, but a pack holds 2"),
        ({"max_patches": 11}, "has 12 patches, but a pack holds 11"),
    ],
)
def test_document_with_too_many_images_is_named_or_dropped(tmp_path, model, budgets, message, plan):
    many = ["m", *(picture(28, 28, seed=seed) for seed in range(3))]
    data = data_of(tmp_path, model, [["000"], ["001"], many, ["003"]])
    with pytest.raises(sm.errors.FormatError, match=message) as caught:
        given = packing(long="raise", **budgets, **PLANS[plan])
        list(sm.Loader(data, packing=given, output="numpy"))
    assert "of `" in str(caught.value) and "max_images" in str(caught.value)
    loader = sm.Loader(data, packing=packing(**budgets, **PLANS[plan]), output="numpy")
    [documents] = {tuple(pack[0]) for batch in loader for pack in numbers_in(batch)}
    assert documents == (0, 1, 3)


def test_mixture_with_texts_counts_images_of_documents_alone(tmp_path, model):
    pictures = write_documents(tmp_path / "a", illustrated(4, 20, most=3))
    texts = write_documents(tmp_path / "b", [[f"{n:03d}"] for n in range(100, 120)])
    sources = {
        "pictures": sm.Dataset(pictures, sequences=qwen_sequences(model)),
        "texts": sm.Dataset(texts, sequences=sm.Sequences(tokenizer=model, eos=END)),
    }
    mixture = sm.Mixture(sources, weights={"pictures": 1, "texts": 1})
    loader = sm.Loader(mixture, packing=packing(max_images=3), output="numpy")
    found = [pack for batch in loader for pack in numbers_in(batch)]
    assert all(images <= 3 for _, images, _ in found)
    seen = sorted(number for documents, *_ in found for number in documents)
    assert seen == [*range(20), *range(100, 120)]


def test_counts_of_images_are_kept_beside_those_of_tokens(tmp_path, model, counts_below):
    data = data_of(tmp_path, model, illustrated(6, 20))
    facts = facts_of(data)
    sm.Loader(data, packing=packing(max_images=3), output="numpy").explain()
    kept = [pq.read_table(path) for path in sorted(counts_below.rglob("counts-*.parquet"))]
    numbers = [row for table in kept for row in table["counts"].to_pylist()]
    found = sorted(tuple(row[at : at + 3]) for row in numbers for at in range(0, len(row), 3))
    assert found == sorted(facts)
    again = sm.Loader(
        sm.Dataset(tmp_path / "data", sequences=qwen_sequences(model)),
        packing=packing(max_images=3),
        output="numpy",
    )
    again.explain()
    assert len(list(counts_below.rglob("counts-*.parquet"))) == len(kept)


@pytest.mark.parametrize("plan", PLANS)
def test_images_that_are_not_those_that_were_counted_are_an_error(
    tmp_path, model, counts_below, plan
):
    path = write_documents(tmp_path / "data", illustrated(6, 8, most=2))

    def batches():
        data = sm.Dataset(path, sequences=qwen_sequences(model))
        return list(sm.Loader(data, packing=packing(**PLANS[plan]), output="numpy"))

    assert batches()
    for kept in counts_below.rglob("counts-*.parquet"):
        table = pq.read_table(kept)
        rows = table.to_pylist()
        for row in rows:
            row["counts"][2] += 1
            row["tokens"] += 1
        pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), kept)
    with pytest.raises(sm.errors.FormatError, match=r"Row 0 of .* patches, but .* were counted"):
        batches()


def test_reserved_bytes_are_those_of_the_pixels_of_each_pack(tmp_path, model):
    sides = [(280, 560), (336, 560), (280, 448), (420, 560), (28, 28)]
    documents = [["000", picture(*side)] for side in sides]
    path = write_documents(tmp_path / "data", documents)
    rule = sm.ImageTokens.qwen2_vl()
    data = sm.Dataset(path, sequences=sm.Sequences(tokenizer=model, images=rule, eos=END))
    patches = [count for *_, count in facts_of(data)]
    loader = sm.Loader(
        data,
        packing=packing(length=8192, max_images=1),
        batch_size=1,
        output="numpy",
        runtime=sm.Runtime(prefetch_bytes=1),
    )
    reserved = []
    for _ in zip(loader, range(len(sides) - 2)):
        until = time.monotonic() + 60
        while not (queue := loader.metrics().queue).superbatches_ready:
            assert time.monotonic() < until
            time.sleep(0.01)
        reserved.append(queue.bytes)
    # That of the next pack, while one is given out; what they share is subtracted.
    assert np.diff(reserved).tolist() == (np.diff(patches[1 : len(sides) - 1]) * PATCH).tolist()
    assert max(reserved) < 12 << 20


def test_cost_of_images_orders_packs(tmp_path, model):
    data = data_of(tmp_path, model, illustrated(9, 60, most=3))
    facts = facts_of(data)
    cost = sm.Cost(token=1, patch=40, image=7)
    given = packing(max_images=6, balance=sm.Balance(cost, per_step=4, window_packs=4))
    loader = sm.Loader(data, packing=given, batch_size=2, lanes=2, output="numpy", tail="uneven")
    found = [list(numbers_in(batch)) for batch in loader]
    steps = [
        loader.explain(step=step, epoch=0, world_size=2, batch_size=1) for step in range(len(found))
    ]
    costs = [[512 + 40 * patches + 7 * images for _, images, patches in packs] for packs in found]
    for step, of_packs in zip(steps, costs, strict=True):
        assert step["rank_costs"][: len(of_packs)] == of_packs
    # At each place of a window, the packs of both lanes have the same rank among their own.
    window = np.array(costs[:4])
    for of_packs in window:
        dearer, as_dear = (window > of_packs).sum(0), (window >= of_packs).sum(0)
        assert dearer.max() < as_dear.min()
    terms = loader.metrics().cost_terms
    assert (terms.image, terms.patch) == tuple(np.sum([fact[1:] for fact in facts], 0))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_images": 0}, "max_images"),
        ({"max_images": True}, "max_images"),
        ({"max_patches": -1}, "max_patches"),
        ({"max_patches": 1.5}, "max_patches"),
        ({"max_patches": 2**32}, "max_patches"),
        ({"max_images": "3"}, "max_images"),
        ({"max_images": 3, "lengths": "n"}, "cannot be combined with lengths='n'"),
    ],
)
def test_budget_that_is_no_number_of_images_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        packing(**options)


def test_budget_of_data_without_images_is_refused(tmp_path, model):
    path = write_documents(tmp_path / "data", [["a"], ["b"]])
    texts = sm.Sequences(tokenizer=model, eos=END)
    with pytest.raises(sm.errors.OptionError, match="max_images=3 limits the images of documents"):
        sm.Loader(sm.Dataset(path, sequences=texts), packing=packing(max_images=3), output="numpy")


BALANCE = {"balance": sm.Balance(sm.Cost(token=1, patch=40), per_step=4, window_packs=4)}


@pytest.mark.parametrize(
    "options",
    [
        {"strategy": "concat", "long": None},
        {"strategy": "best_fit", "long": "split"},
        {"strategy": "first_fit", "long": "truncate"},
        {"strategy": "best_fit", "long": "drop", "max_images": 3},
        {"strategy": "concat", "long": None, "max_patches": 24},
    ],
    ids=["concat", "split", "truncate", "drop", "patches"],
)
@pytest.mark.parametrize("order", [{}, BALANCE, PLANS["ahead"]], ids=["epoch", "balance", "ahead"])
def test_images_are_decoded_as_often_as_the_plan_has_them(tmp_path, model, options, order):
    data = data_of(tmp_path, model, illustrated(10, 40))
    given = packing(length=96, **options, **order)
    decoded, delivered = 0, 0
    for rank in range(2):
        loader = sm.Loader(
            data,
            packing=given,
            batch_size=1,
            shuffle=True,
            lanes=2,
            rank=rank,
            world_size=2,
            tail="uneven",
            output="numpy",
        )
        delivered += sum(len(batch["image_index"]) for batch in loader)
        decoded += loader.metrics().images_decoded
    planned = sum(
        len(document["images"])
        for step in range(loader.explain(epoch=0)["steps"])
        for rank in range(2)
        if loader.explain(step=step, epoch=0, rank=rank)["rows"]
        for document in loader.explain(step=step, epoch=0, rank=rank, documents=True)["documents"]
    )
    assert 0 < planned == decoded == delivered
