"""`count` and `explain --model` as a user runs them, and what a loader explains of documents."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from byte_tokenizer import write_tokenizer
from command import shardmill
from interleaved_documents import (
    END,
    bytes_read,
    drawn,
    picture,
    processed,
    qwen_sequences,
    write_documents,
    write_model,
)
from shardmill.cli._commands import run

pytestmark = pytest.mark.usefixtures("counts_below")

DOCUMENTS = drawn(5, 16)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_documents(tmp_path_factory.mktemp("documents"), DOCUMENTS, files=2)


def loader_of(data, **options):
    given = {"length": 96, "strategy": "best_fit", "long": "drop"} | options
    return sm.Loader(data, packing=sm.Packing("tokens", **given), batch_size=2, output="numpy")


def test_count_equals_what_the_processor_makes(path, model):
    result = shardmill(*("count", path, "--model", model, "--eos", END, "--length", 96, "--json"))
    assert (result.returncode, result.stderr) == (0, "")
    found = json.loads(result.stdout)
    made = [processed(model, parts) for parts in DOCUMENTS if parts]
    lengths = [len(ids) for ids, _, _ in made]
    grids = np.concatenate([grid for _, _, grid in made if grid is not None])
    plan = loader_of(sm.Dataset(path, sequences=qwen_sequences(model))).explain()
    assert found == {
        "documents": len(DOCUMENTS),
        "tokens": sum(lengths),
        "longest": max(lengths),
        "images": len(grids),
        "patches": grids.prod(1).sum(),
        "refused": [],
        "length": 96,
        "packs": plan["packs_of_epoch"],
        "fill_rate": plan["fill_rate"],
        "too_long": sum(length > 96 for length in lengths),
    }


def test_count_knows_the_patches_of_other_models(tmp_path):
    write_tokenizer(tmp_path / "model", special=["[IMG]", "[IMG_BREAK]", "[IMG_END]"])
    processor = {
        "image_processor_type": "PixtralImageProcessor",
        "patch_size": 7,
        "size": {"longest_edge": 90},
    }
    (tmp_path / "model/preprocessor_config.json").write_text(json.dumps(processor))
    sizes = [(40, 70), (20, 200), (90, 90)]
    documents = [["a", *(picture(*size) for size in sizes)], ["b"]]
    path = write_documents(tmp_path / "data", documents)
    found = json.loads(shardmill("count", path, "--model", tmp_path / "model", "--json").stdout)
    counts = sm.ImageTokens.from_pretrained(tmp_path / "model").count(*np.transpose(sizes))
    assert (found["images"], found["patches"]) == (3, counts.patches.sum())
    assert found["tokens"] == counts.tokens.sum() + 2


def test_count_lists_refused_documents_and_decodes_no_pixel(tmp_path, model):
    cut = picture(60, 60, kind="JPEG")[:-200]
    bad = [["a", picture(1, 300)], ["b", b"no image"], [{"modality": "image"}]]
    path = write_documents(tmp_path / "data", [*bad, ["c", cut]])
    counted = ("count", path, "--model", model)
    found = json.loads(shardmill(*counted, "--json").stdout)
    assert (found["documents"], found["images"]) == (1, 1)
    causes = ["aspect ratio is 300", "unknown format", "bytes are null"]
    assert [row["row"] for row in found["refused"]] == [0, 1, 2]
    for row, cause in zip(found["refused"], causes):
        assert cause in row["cause"] and row["file"].endswith("0.parquet")
    result = shardmill(*counted, "--length", 96, columns=200)
    lines = result.stdout.splitlines()
    assert lines[5].split() == ["refused", "3"]
    assert all(cause in line for cause, line in zip(causes, lines[6:9], strict=True))
    assert lines[9] == "packs are not planned, because a loader refuses these documents"


def test_parts_of_rows_are_counted(tmp_path, model):
    with sm.Writer(tmp_path / "tars", format="webdataset") as writer:
        for name in ("x", "y"):
            writer.write({"__key__": name, "png": picture(28, 56), "txt": "ab"})
    options = ("--model", model, "--parts", "png,txt", "--json")
    found = json.loads(shardmill("count", tmp_path / "tars", *options).stdout)
    # Two placeholders, between a begin and an end, and two letters.
    assert [found[name] for name in ("documents", "tokens", "images", "patches")] == [2, 12, 2, 16]


def test_packs_of_only_longer_documents_are_empty(path, model):
    options = ("count", path, "--model", model, "--length", 1)
    found = json.loads(shardmill(*options, "--json").stdout)
    assert (found["packs"], found["fill_rate"]) == (0, 0.0)
    lines = [line.split() for line in shardmill(*options).stdout.splitlines()]
    assert ["fill", "0.0%"] in lines


def test_count_says_which_directory_of_a_model_does_not_exist(tmp_path, path):
    result = shardmill("count", path, "--model", tmp_path / "nosuch")
    assert (
        result.returncode != 0 and f"There is no directory `{tmp_path / 'nosuch'}`" in result.stderr
    )


def test_count_reads_the_first_bytes_of_images_once(tmp_path, model, capfd):
    # Bytes after the image, which a reader of headers does not need.
    with sm.Writer(tmp_path / "tars", format="webdataset") as writer:
        for number in range(24):
            image = picture(28, 28 * (1 + number % 3)) + bytes(200_000)
            writer.write({"__key__": f"{number:02}", "png": image, "txt": "ab"})
    kept = tmp_path / "_counts"
    options = ["count", str(tmp_path / "tars"), "--model", str(model), "--parts", "png,txt"]
    options += ["--counts", str(kept), "--json"]

    def counted():
        before = bytes_read()
        assert run(options) == 0
        return json.loads(capfd.readouterr().out), bytes_read() - before

    first, of_headers = counted()
    assert (first["images"], first["patches"]) == (24, 24 * 8)
    assert of_headers < 24 * 40_000
    files = sorted(kept.rglob("*.parquet"))
    again, of_counts = counted()
    assert again == first and of_counts < of_headers / 2
    assert files == sorted(kept.rglob("*.parquet"))
    # A loader finds the counts, and reads only what it delivers.
    sequences = qwen_sequences(model, parts=["png", "txt"], eos=None, counts=kept)
    assert len(loader_of(sm.Dataset(tmp_path / "tars", sequences=sequences)))
    assert files == sorted(kept.rglob("*.parquet"))


def test_counts_of_a_loader_that_fills_bad_images_hide_no_refused_document(tmp_path, model):
    path = write_documents(tmp_path / "data", [["a"], ["b", b"no image"]])
    filled = qwen_sequences(model, labels=None, image_output=sm.ImageOutput(on_error="null"))
    assert len(loader_of(sm.Dataset(path, sequences=filled)))
    result = shardmill("count", path, "--model", model, "--eos", END, "--json")
    [refused] = json.loads(result.stdout)["refused"]
    assert refused["row"] == 1 and "column `binary_content`: part 1" in refused["cause"]
    pairs = tmp_path / "pairs.parquet"
    pq.write_table(pa.table({"picture": [b"no image"], "caption": ["a"]}), pairs)
    result = shardmill("count", pairs, "--model", model, "--parts", "picture,caption", "--json")
    [refused] = json.loads(result.stdout)["refused"]
    assert "column `picture`: part 0 of the document: unknown format" in refused["cause"]


@pytest.mark.parametrize("multiple_of", [1, 8])
def test_explained_documents_are_those_of_the_batch(path, model, multiple_of):
    data = sm.Dataset(path, sequences=qwen_sequences(model), filter="words > 3")
    loader = loader_of(data, multiple_of=multiple_of)
    steps = 0
    for step, batch in enumerate(loader):
        found = loader.explain(step=step, epoch=0, documents=True)["documents"]
        images = [(document["pack"], image) for document in found for image in document["images"]]
        index = [[pack, image["first_token"], image["tokens"]] for pack, image in images]
        assert index == batch["image_index"].tolist()
        assert [image["grid"] for _, image in images] == batch["image_grid_thw"].tolist()
        assert sum(image["patches"] for _, image in images) == len(batch["pixel_values"])
        for document in found:
            parts = DOCUMENTS[int(document["sample_id"].removeprefix("d"))]
            start = document["first_token"]
            own = batch["tokens"][document["pack"], start : start + document["tokens"]]
            assert own.tolist() == processed(model, parts)[0]
        steps += 1
    assert steps > 1
    with pytest.raises(ValueError, match="step 99 is not in the epoch"):
        loader.explain(step=99, documents=True)


def test_documents_of_files_with_equal_names_are_explained_by_their_own_file(tmp_path, model):
    paths = [
        write_documents(tmp_path / name, [[letters, picture(28, 28 * sides)]])
        for name, letters, sides in (("x", "abc", 1), ("y", "de", 3))
    ]
    loader = loader_of(sm.Dataset(paths, sequences=qwen_sequences(model)))
    [batch] = loader
    found = loader.explain(epoch=0, documents=True)
    grids = [image["grid"] for one in found["documents"] for image in one["images"]]
    assert grids == batch["image_grid_thw"].tolist()
    assert {file for pack in found["packs"] for file, *_ in pack} == {"0.parquet"}
    assert sorted(number for pack in found["pack_files"] for number in pack) == [0, 1]


def test_documents_are_explained_only_in_packs(tmp_path, path, model):
    data = sm.Dataset(path, sequences=qwen_sequences(model), columns=["tokens"])
    texts = write_documents(tmp_path / "texts", [["a"]])
    for loader in (
        sm.Loader(data, batch_size=2, output="numpy"),
        loader_of(sm.Dataset(texts, sequences=sm.Sequences(tokenizer=model, eos=END))),
    ):
        with pytest.raises(ValueError, match="no packs of documents with images"):
            loader.explain(documents=True)


def test_explain_prints_the_documents_of_a_step(path, model):
    options = ("explain", path, "--model", model, "--eos", END, "--pack", 96, "--step", 1)
    data = sm.Dataset(path, sequences=qwen_sequences(model))
    loader = loader_of(data)
    expected = loader.explain(step=1, documents=True)["documents"]
    found = json.loads(shardmill(*options, "--batch-size", 2, "--json").stdout)
    assert found["documents"] == expected
    lines = shardmill(*options, "--batch-size", 2, columns=200).stdout.splitlines()
    assert lines[0].startswith("Epoch 0, step 1 of ") and "2 packs of 96 tokens" in lines[0]
    shown = [line.split() for line in lines[4:]]
    assert len(shown) == sum(1 + len(document["images"]) for document in expected)
    assert shown[0][3] == expected[0]["sample_id"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", "DIR"], "--model requires --pack"),
        (["--parts", "a"], "--parts requires --model"),
        (["--model", "DIR", "--pack", "96", "--lengths", "n"], "cannot be used with --model"),
        (
            ["--model", "DIR", "--pack", "96", "--step", "99", "--eos", END],
            "step 99 does not exist",
        ),
    ],
)
def test_explain_refuses_what_does_not_fit(path, model, arguments, message):
    given = [model if argument == "DIR" else argument for argument in arguments]
    result = shardmill("explain", path, *given)
    assert result.returncode == 2 and message in result.stderr
