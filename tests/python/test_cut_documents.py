"""Packings that cut documents with images, against a packer that looks at one token at a time."""

import random
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
import shardmill as sm
from breadth import examples
from byte_tokenizer import END
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from interleaved_documents import (
    PAD,
    loaders_of_ranks,
    picture,
    qwen_sequences,
    write_documents,
    write_model,
)

pytestmark = pytest.mark.usefixtures("counts_below")

#: Tokens and patches of the largest image of `illustrated`.
MOST_TOKENS, MOST_PATCHES = 8, 24

CUTS = [
    {"strategy": "best_fit", "long": "truncate"},
    {"strategy": "best_fit", "long": "split"},
    {"strategy": "first_fit", "long": "split"},
    {"strategy": "concat", "long": None},
]

IMAGES = ("image_index", "image_grid_thw", "pixel_values", "image_valid")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def data_of(tmp_path_factory, model):
    """Data sets of documents that are drawn from a seed."""

    @cache
    def opened(seed, positions="1d", count=24):
        documents = illustrated(seed, count)
        # A lane of endless lanes needs tokens.
        documents = documents if count == 24 else [parts or ["z"] for parts in documents]
        path = tmp_path_factory.mktemp("data")
        write_documents(path, documents, row_group_size=50, files=2)
        return sm.Dataset(path, sequences=qwen_sequences(model, positions=positions))

    return opened


def illustrated(seed, count):
    """Documents of 0 to 7 images, some of which have no text between them."""
    rng = random.Random(seed)
    documents = []
    for number in range(count):
        parts = ["x" * rng.randint(0, 40)]
        for image in range(rng.randint(0, 7)):
            parts.append(picture(*rng.choice([(28, 28), (28, 56), (56, 84)]), seed=image + number))
            parts += ["y" * rng.randint(1, 12)] if rng.random() < 0.7 else []
        documents.append(parts if rng.random() < 0.9 else [])
    return documents


@dataclass
class Image:
    """One image of a document; its block begins before its placeholders and ends after them."""

    first: int
    count: int
    grid: np.ndarray
    pixels: np.ndarray

    @property
    def block(self):
        return self.first - 1, self.first + self.count + 1


@dataclass
class Part:
    """Tokens of a document, and the images among them."""

    tokens: np.ndarray
    labels: np.ndarray
    images: list

    @property
    def amounts(self):
        return len(self.tokens), len(self.images), sum(len(one.pixels) for one in self.images)

    def part(self, first, end):
        """The part of these tokens; ``None`` if it ends inside of a block."""
        if any(start < end < stop for start, stop in (one.block for one in self.images)):
            return None
        own = [one for one in self.images if first <= one.block[0] and one.block[1] <= end]
        moved = [Image(one.first - first, one.count, one.grid, one.pixels) for one in own]
        return Part(self.tokens[first:end], self.labels[first:end], moved)

    def longest(self, room, multiple_of):
        """The longest part from the start that fits, and what is left."""
        for end in range(len(self.tokens), -1, -1):
            part = self.part(0, end)
            if part is not None and fits(part, room, multiple_of):
                return part, self.part(end, len(self.tokens))
        raise AssertionError


def padded(count, multiple_of):
    return -(-count // multiple_of) * multiple_of


def fits(part, room, multiple_of):
    tokens, images, patches = part.amounts
    return all(a <= b for a, b in zip((padded(tokens, multiple_of), images, patches), room))


def left_after(room, part, multiple_of):
    tokens, images, patches = part.amounts
    return room[0] - padded(tokens, multiple_of), room[1] - images, room[2] - patches


@cache
def assembled(data):
    """The documents of a data set as it delivers them one by one."""
    documents = []
    for row in data:
        grids = np.asarray(row["image_grid_thw"], np.int64).reshape(-1, 3)
        pixels = np.asarray(row["pixel_values"], np.float32).reshape(-1, 3 * 2 * 14 * 14)
        edges = np.cumsum([0, *grids.prod(1)])
        images = [
            Image(first, count, grid, pixels[edges[at] : edges[at + 1]])
            for at, ((first, count), grid) in enumerate(zip(row["image_index"], grids, strict=True))
        ]
        documents.append(Part(np.array(row["tokens"]), np.array(row["labels"]), images))
    return documents


def expected(documents, room, *, strategy, long, multiple_of, open_packs=None):
    """The parts of each pack."""
    if strategy == "concat":
        packs, left = [], room
        for rest in documents:
            while len(rest.tokens):
                part, after = rest.longest(left, multiple_of) if packs else (rest.part(0, 0), rest)
                if not len(part.tokens):
                    packs.append([])
                    left = room
                    continue
                packs[-1].append(part)
                left, rest = left_after(left, part, multiple_of), after
        return packs
    closed, waiting, opened = [], [], 0

    def close(entry):
        waiting.remove(entry)
        closed.append(entry["parts"])

    def fullness(entry):
        return entry["room"][0], entry["number"]

    for rest in documents:
        while len(rest.tokens):
            part, rest = rest.longest(room, multiple_of)
            if long == "truncate":
                rest = rest.part(0, 0)
            if padded(len(part.tokens), multiple_of) == room[0]:
                closed.append([part])
                continue
            fitting = [entry for entry in waiting if fits(part, entry["room"], multiple_of)]
            if fitting:
                entry = min(fitting, key=fullness) if strategy == "best_fit" else fitting[0]
            else:
                if len(waiting) >= open_packs:
                    close(min(waiting, key=fullness))
                if waiting and opened - waiting[0]["number"] >= 4 * open_packs:
                    close(waiting[0])
                entry = {"number": opened, "room": room, "parts": []}
                waiting.append(entry)
                opened += 1
            entry["parts"].append(part)
            entry["room"] = left_after(entry["room"], part, multiple_of)
            if entry["room"][0] == 0:
                close(entry)
    return closed + [entry["parts"] for entry in waiting]


def positions_of(part, count, is_rope):
    """Positions of the tokens of a part and its padding, ``[axes, tokens]``."""
    positions, next_one = [], 0
    places = {one.first: one for one in part.images} if is_rope else {}
    while len(positions) < count:
        if (one := places.get(len(positions))) is None:
            positions.append((next_one,) * 3)
            next_one += 1
            continue
        _, rows, columns = one.grid // [1, 2, 2]
        for at in range(one.count):
            positions.append((next_one, next_one + at // columns, next_one + at % columns))
        next_one += max(rows, columns)
    return np.array(positions).T


def arrays(packs, length, *, is_rope, multiple_of):
    """The arrays of a batch of these packs."""
    shape = len(packs), length
    batch = {name: np.zeros(shape, np.int64) for name in ("tokens", "segment_ids")}
    batch["labels"] = np.full(shape, -100)
    positions = np.zeros((3, *shape), np.int64)
    index, grids, pixels = [], [], [np.zeros((0, 3 * 2 * 14 * 14))]
    for number, pack in enumerate(packs):
        at = 0
        for segment, part in enumerate(pack, 1):
            end, stop = at + len(part.tokens), at + padded(len(part.tokens), multiple_of)
            batch["tokens"][number, at:end] = part.tokens
            batch["labels"][number, at:end] = part.labels
            batch["segment_ids"][number, at:stop] = segment
            positions[:, number, at:stop] = positions_of(part, stop - at, is_rope)
            index += [(number, at + one.first, one.count) for one in part.images]
            grids += [one.grid for one in part.images]
            pixels += [one.pixels for one in part.images]
            at = stop
    return batch | {
        "positions": positions if is_rope else positions[0],
        "image_index": np.array(index, np.int64).reshape(-1, 3),
        "image_grid_thw": np.array(grids, np.int64).reshape(-1, 3),
        "pixel_values": np.concatenate(pixels),
        "image_valid": np.ones(len(index), bool),
    }


def packing(**options):
    given = {"length": 64, "pad_value": {"labels": -100}} | options
    return sm.Packing(["tokens", "labels"], **given)


@settings(
    deadline=None,
    max_examples=examples(200),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    seed=st.integers(0, 3),
    cut=st.sampled_from(CUTS),
    length=st.integers(MOST_TOKENS, 90),
    images=st.none() | st.integers(1, 5),
    patches=st.none() | st.integers(MOST_PATCHES, 60),
    multiple_of=st.sampled_from([1, 1, 4]),
    is_rope=st.booleans(),
    is_ahead=st.booleans(),
    batch_size=st.integers(1, 3),
    open_packs=st.sampled_from([1, 4, 64]),
)
# The tokens of the next image would have room in the padding.
@example(0, CUTS[1], MOST_TOKENS, None, None, 4, True, False, 1, 64)
def test_packs_are_those_of_a_packer_that_looks_at_each_token(
    data_of,
    seed,
    cut,
    length,
    images,
    patches,
    multiple_of,
    is_rope,
    is_ahead,
    batch_size,
    open_packs,
):
    data = data_of(seed, "mrope" if is_rope else "1d")
    documents = assembled(data)
    length = padded(length, multiple_of)
    room = length, images or 10**9, patches or 10**9
    form = cut | {"multiple_of": multiple_of}
    if cut["strategy"] != "concat":
        form |= {"open_packs": open_packs}
    packs = expected(documents, room, **form)
    options = {}
    if is_ahead:
        options = {"plan": "ahead", "epoch_packs": len(packs)}
        if cut["strategy"] == "concat":
            packs = expected(documents * 2, room, **form)[: len(packs)]
    loader = sm.Loader(
        data,
        packing=packing(
            length=length,
            max_images=images,
            max_patches=patches,
            **form,
            **options,
        ),
        batch_size=batch_size,
        output="numpy",
    )
    found = list(loader)
    of_steps = [packs[at : at + batch_size] for at in range(0, len(packs), batch_size)]
    for batch, of_step in zip(found, of_steps, strict=True):
        wanted = arrays(of_step, length, is_rope=is_rope, multiple_of=multiple_of)
        assert {name: np.shape(batch[name]) for name in wanted} == {
            name: value.shape for name, value in wanted.items()
        }
        for name, value in wanted.items():
            np.testing.assert_array_equal(batch[name], value, err_msg=name)
        lengths = [[len(part.tokens) for part in pack] for pack in of_step]
        assert [list(own) for own in batch["document_lengths"]] == lengths
    images_of_packs = sum(len(part.images) for pack in packs for part in pack)
    assert loader.metrics().images_decoded == images_of_packs
    if not is_ahead:
        explained = loader.explain(epoch=0)
        tokens = sum(len(part.tokens) for pack in packs for part in pack)
        assert explained["tokens_of_epoch"] == tokens
        assert (
            explained["truncated_tokens"] == sum(map(len, (d.tokens for d in documents))) - tokens
        )


def facts_of(batch):
    """Tokens, places and sizes of images of each pack."""
    index, grids = np.asarray(batch["image_index"]), np.asarray(batch["image_grid_thw"])
    for pack, tokens in enumerate(batch["tokens"]):
        own = index[:, 0] == pack
        yield tokens.tolist(), index[own, 1:].tolist(), grids[own].tolist()


@pytest.mark.parametrize("cut", CUTS[1::2], ids=["split", "concat"])
@pytest.mark.parametrize("plan", [{}, {"plan": "ahead", "epoch_packs": 48}], ids=["epoch", "ahead"])
def test_ranks_that_resume_in_other_numbers_get_the_same_packs(data_of, cut, plan):
    balance = sm.Balance(sm.Cost(token=1, patch=3), per_step=4, window_packs=4)
    given_packing = packing(max_images=4, length=48, balance=balance, **cut, **plan)
    data = data_of(1, count=48)

    def sequence(ranks, state, steps):
        loaders = loaders_of_ranks(data, given_packing, ranks, state)
        found, iterators = [], [iter(loader) for loader in loaders]
        for _ in range(steps):
            batches = [next(iterator, None) for iterator in iterators]
            if not any(batch is not None for batch in batches):
                break
            found += sorted(pack for batch in batches if batch for pack in facts_of(batch))
        return found, loaders[0].state_dict()

    whole, _ = sequence(1, None, 10**6)
    if not plan:
        images = sum(len(document.images) for document in assembled(data))
        assert sum(len(index) for _, index, _ in whole) == images
    found, state = [], None
    for ranks, steps in [(8, 1), (3, 2), (16, 10**6)]:
        part, state = sequence(ranks, state, steps)
        for start in range(0, len(part), ranks):
            step = whole[len(found) : len(found) + ranks]
            assert part[start : start + ranks] == sorted(step)
            found += step
    assert found == whole


LARGE = {"tokens": {"length": 8}, "patches": {"length": 64, "max_patches": 20}}


@pytest.mark.parametrize("plan", [{}, {"plan": "ahead", "epoch_packs": 5}], ids=["epoch", "ahead"])
@pytest.mark.parametrize("cut", CUTS, ids=["truncate", "split", "first_fit", "concat"])
@pytest.mark.parametrize("large", LARGE)
def test_image_that_no_pack_has_room_for_is_left_out(tmp_path, model, large, cut, plan):
    small, big = picture(28, 28), picture(84, 84)
    documents = [["abc", big, "de", small, "f"], [big], ["g", small], [big, small]]
    without = [[part for part in parts if part != big] for parts in documents]
    sequences = qwen_sequences(model, separator="|")

    def loader(name, parts):
        path = write_documents(tmp_path / name, parts)
        data = sm.Dataset(path, sequences=sequences)
        given_packing = packing(**cut, **plan, **LARGE[large])
        return sm.Loader(data, packing=given_packing, batch_size=2, output="numpy")

    whole = loader("whole", documents)
    found, wanted = list(whole), list(loader("without", without))
    left_out = whole.metrics().images_left_out
    assert left_out >= 3 if plan else left_out == 3
    assert len(found) == len(wanted) > 0
    for batch, other in zip(found, wanted, strict=True):
        names = [*IMAGES, "tokens", "labels", "segment_ids", "positions"]
        assert all(np.array_equal(batch[name], other[name]) for name in names)


@pytest.mark.parametrize("large", LARGE)
def test_image_that_no_pack_has_room_for_is_named_or_drops_its_document(tmp_path, model, large):
    documents = [["abc"], ["d", picture(84, 84)], ["e", picture(28, 28)]]
    path = write_documents(tmp_path / "data", documents)
    data = sm.Dataset(path, sequences=qwen_sequences(model))
    with pytest.raises(sm.errors.FormatError, match=r"Row 1 of .* but a pack holds"):
        given_packing = packing(strategy="best_fit", long="raise", **LARGE[large])
        sm.Loader(data, packing=given_packing).explain()
    given_packing = packing(strategy="best_fit", long="drop", **LARGE[large])
    assert sm.Loader(data, packing=given_packing).explain()["dropped_rows"] == 1


@pytest.mark.parametrize("cut", CUTS, ids=["truncate", "split", "first_fit", "concat"])
def test_places_of_images_are_kept_beside_the_counts(tmp_path, model, counts_below, cut):
    path = write_documents(tmp_path / "data", illustrated(2, 12), row_group_size=20)

    def batches():
        data = sm.Dataset(path, sequences=qwen_sequences(model))
        loader = sm.Loader(data, packing=packing(**cut), output="numpy")
        return [list(facts_of(batch)) for batch in loader]

    found = batches()
    kept = sorted(counts_below.rglob("counts-*.parquet"))
    assert batches() == found
    assert sorted(counts_below.rglob("counts-*.parquet")) == kept


def test_counts_serve_every_length_in_which_all_images_have_room(tmp_path, model, counts_below):
    path = write_documents(tmp_path / "data", illustrated(2, 12))

    def kept(length, cut):
        data = sm.Dataset(path, sequences=qwen_sequences(model))
        sm.Loader(data, packing=packing(length=length, **cut), output="numpy").explain()
        return len(list(counts_below.rglob("counts-*.parquet")))

    numbers = [kept(256, {"strategy": "best_fit", "long": "drop"})]
    numbers += [kept(length, cut) for length in (256, 300, 1000) for cut in CUTS]
    # Tokens first; then also the places of images, once.
    assert numbers == [1] + [2] * 12


def test_explained_images_are_those_of_the_parts(data_of):
    data = data_of(3)
    for cut in CUTS:
        loader = sm.Loader(data, packing=packing(**cut), batch_size=2, output="numpy")
        for step, batch in enumerate(loader):
            explained = loader.explain(step=step, epoch=0, documents=True)["documents"]
            images = [
                [document["pack"], image["first_token"], image["tokens"]]
                for document in explained
                for image in document["images"]
            ]
            assert images == batch["image_index"].tolist()


def test_cut_documents_are_counted_with_all_options_that_fit(data_of, model, tmp_path):
    data = data_of(0)
    with pytest.raises(ValueError, match="overlap=1 would repeat a token of an image"):
        sm.Loader(data, packing=packing(overlap=1))
    for cut in (CUTS[0], CUTS[3]):
        with pytest.raises(ValueError, match="lengths='words' says nothing about images"):
            sm.Loader(data, packing=packing(lengths="words", **cut))
    texts = write_documents(tmp_path / "texts", [[f"t{n}" * 30] for n in range(6)])
    sources = {
        "images": data,
        "texts": sm.Dataset(texts, sequences=sm.Sequences(tokenizer=model, eos=END)),
    }
    mixture = sm.Mixture(sources, weights={"images": 1, "texts": 1})
    pad = sm.Tokenizer(model).token_id(PAD)
    for cut in CUTS:
        given_packing = packing(next_token=True, across=True, max_images=2, **cut)
        for batch in sm.Loader(mixture, packing=given_packing, output="numpy"):
            placeholders = sum(count for *_, count in batch["image_index"])
            assert (batch["tokens"] == pad).sum() == placeholders
            assert (batch["labels"] != pad).all()
