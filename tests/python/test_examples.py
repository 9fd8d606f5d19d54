"""The demo, the trainings and the notebook, run as a user runs them."""

import base64
import importlib
import io
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import shardmill as sm
from breadth import IS_WHOLE
from html_page import Page
from PIL import Image
from promptness import HANGS_S

EXAMPLES = Path(__file__).parents[2] / "examples"


#: Options of the demo, the rows of its table, and what it says of their content.
if IS_WHOLE:
    DEMO, DEMO_ROWS, DEMO_PARTS, DEMO_PAGES = [], ("3,631", "2,993"), "2,644", 24
else:
    DEMO, DEMO_ROWS, DEMO_PARTS, DEMO_PAGES = ["--shards", "2"], ("1,905", "1,553"), "1,380", 12


def run_demo(*arguments):
    command = [sys.executable, EXAMPLES / "demo.py", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=HANGS_S, check=False)


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    out = tmp_path_factory.mktemp("demo") / "demo_output"
    finished = run_demo("--out", str(out), *DEMO)
    assert finished.returncode == 0, finished.stderr
    return out, finished


def test_demo_prints_a_table_and_the_path_of_the_report_last(demo):
    out, finished = demo
    lines = finished.stdout.splitlines()
    assert lines[0].split() == [
        "path",
        "samples/s",
        "rows",
        "in",
        "rows",
        "out",
        "MB",
        "in",
        "MB",
        "out",
        "seconds",
    ]
    rows = [re.split(r"\s{2,}", line) for line in lines[1:5]]
    assert len(rows) == 4
    assert {tuple(row[2:4]) for row in rows} == {DEMO_ROWS}
    assert f"all four outputs hold the same {DEMO_PARTS} texts and images" in finished.stdout
    assert f"{DEMO_PAGES} copied pages are bit-identical" in finished.stdout
    assert lines[-1] == str(out / "report.html")


def test_demo_report_is_small_self_contained_and_has_pictures(demo):
    out, _ = demo
    path = out / "report.html"
    assert path.stat().st_size < 5_000_000
    page = Page(path)
    page.assert_self_contained()
    images = page.attributes("img")
    assert len(images) >= 20
    for image in images:
        assert image["alt"]
        with Image.open(io.BytesIO(base64.b64decode(image["src"].split(",", 1)[1]))) as picture:
            picture.load()
    for name in (
        "WebDataset → Parquet",
        "WebDataset → WebDataset",
        "Parquet → Parquet",
        "Parquet → WebDataset",
    ):
        assert name in page.text


def test_demo_runs_again_over_its_own_output(demo):
    out, _ = demo
    assert run_demo("--out", str(out), *DEMO).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["--shards", "0"], "between 1 and 80"), (["--out", "/dev/null/out"], "Not a directory")],
)
def test_demo_fails_with_a_sentence_and_a_hint(arguments, message):
    finished = run_demo(*arguments)
    assert finished.returncode == 1
    assert message in finished.stderr
    assert "hint: " in finished.stderr
    assert "Traceback" not in finished.stderr


@pytest.mark.slow
def test_training_is_killed_and_resumed_without_a_row_lost(tmp_path):
    pytest.importorskip("torch")
    command = [sys.executable, EXAMPLES / "train_resume.py", "--out", tmp_path]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert finished.returncode == 0, finished.stderr
    assert "SIGKILL in step" in finished.stdout
    assert "each of the 20,012 rows was trained on exactly once" in finished.stdout
    assert "all 157 global batches have the same rows in the same order" in finished.stdout
    picture = Path(finished.stdout.splitlines()[-1])
    assert picture.read_text().lstrip().startswith("<?xml")


def run_train_text(out, *arguments):
    command = [sys.executable, EXAMPLES / "train_text.py", "--out", out, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)


@pytest.fixture(scope="module")
def text_training(tmp_path_factory):
    pytest.importorskip("torch")
    out = tmp_path_factory.mktemp("train_text")
    texts = EXAMPLES.parent / "docs" / "guides"
    return out, run_train_text(out, "--texts", texts, "--kilobytes", "30")


@pytest.fixture
def train_text(monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.syspath_prepend(EXAMPLES)
    return importlib.import_module("train_text")


@pytest.mark.slow
def test_training_on_text_is_killed_and_resumed_with_equal_batches_and_losses(text_training):
    out, finished = text_training
    assert finished.returncode == 0, finished.stderr
    report = finished.stdout
    steps = int(re.search(r"2 ranks × 4 packs of 256 tokens: (\d+) steps", report)[1])
    killed, saved = map(
        int,
        re.search(r"SIGKILL in step (\d+), the last checkpoint is of step (\d+)", report).groups(),
    )
    assert 0 < saved <= killed < steps
    assert f"1 rank × 8 packs: steps {saved} to {steps - 1}" in report
    assert f"all {steps} global batches have the same bytes" in report
    texts, size = re.search(r"([\d,]+) texts of ([\d,]+) bytes", report).groups()
    assert (
        f"each of the {int(texts) + int(size.replace(',', '')):,} tokens of the texts once"
        in report
    )
    assert "which is rounding" in report
    assert Path(report.splitlines()[-1]).read_text().lstrip().startswith("<?xml")
    losses = [json.loads(line)["loss"] for line in (out / "whole.0.jsonl").read_text().splitlines()]
    assert sum(losses[-5:]) < sum(losses[:5])


def rewrite(ledger, change):
    lines = [json.loads(line) for line in ledger.read_text().splitlines()]
    change(lines)
    ledger.write_text("".join(json.dumps(line) + "\n" for line in lines))


def with_another_token(lines):
    first, *rest = lines[0]["rows"]
    lines[0]["rows"] = ["01000000" + first[8:], *rest]


def with_swapped_packs(lines):
    lines[0]["rows"].reverse()


def without_a_step(lines):
    del lines[-2]


def with_another_loss(lines):
    lines[-1]["loss"] += 2e-4


def with_no_loss(lines):
    lines[-1]["loss"] = float("nan")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ledgers", "change", "problem"),
    [
        (["resumed.0.jsonl"], with_another_token, "global batch of step"),
        (["resumed.0.jsonl"], with_swapped_packs, "global batch of step"),
        (["resumed.0.jsonl"], without_a_step, "global batch of step"),
        (["whole.0.jsonl", "killed.0.jsonl"], with_another_token, "not those of the texts"),
        (["resumed.0.jsonl"], with_another_loss, "loss of a step differs by"),
        (["resumed.0.jsonl"], with_no_loss, "loss of a step differs by"),
    ],
)
def test_training_on_text_reports_a_difference(
    text_training, train_text, tmp_path, ledgers, change, problem
):
    out, _ = text_training
    damaged = shutil.copytree(out, tmp_path / "out")
    assert train_text.check(damaged) is None
    for ledger in ledgers:
        rewrite(damaged / ledger, change)
    assert problem in train_text.check(damaged)


@pytest.mark.slow
def test_training_on_text_fails_with_a_sentence_and_a_hint(tmp_path):
    pytest.importorskip("torch")
    for texts, message in (("absent", "is not a directory"), (".", "0 bytes of text are too few")):
        finished = run_train_text(tmp_path / "out", "--texts", tmp_path / texts)
        assert finished.returncode == 1
        assert message in finished.stderr
        assert "hint: " in finished.stderr
        assert "Traceback" not in finished.stderr


def test_tokenizer_of_the_training_makes_bytes_of_text_as_the_library_does(train_text, tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    train_text.write_tokenizer(tmp_path / "tokenizer.json")
    text = "".join(map(chr, range(0x250))) + "中文 🙂 don't\n\n  x"
    library = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    assert (
        library.encode(text).ids
        == sm.Tokenizer(tmp_path / "tokenizer.json").encode(text)
        == list(text.encode())
    )
    assert library.encode(train_text.END).ids == [train_text.VOCABULARY - 1]


@pytest.fixture
def notebook():
    nbformat = pytest.importorskip("nbformat")
    content = nbformat.read(EXAMPLES / "interleaved_curation.ipynb", as_version=4)
    assert not any(cell.get("outputs") for cell in content.cells), (
        "commit the notebook without outputs"
    )
    return content


@pytest.mark.slow
def test_notebook_runs_and_shows_pictures(notebook):
    nbclient = pytest.importorskip("nbclient")
    client = nbclient.NotebookClient(
        notebook,
        timeout=HANGS_S,
        kernel_name="python3",
        resources={"metadata": {"path": str(EXAMPLES)}},
    )
    client.execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert not [output for output in outputs if output.output_type == "error"]
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 2
    printed = "".join(
        output.text
        for output in outputs
        if output.output_type == "stream" and output.name == "stdout"
    )
    assert "not a single pixel differs" in printed
    assert "broken JSON" in printed
    assert "without_short_texts" in printed


def test_links_of_the_notebook_lead_somewhere(notebook):
    for cell in notebook.cells:
        for target in re.findall(
            r"\]\(([^)]+)\)", cell.source if cell.cell_type == "markdown" else ""
        ):
            assert (EXAMPLES / target).exists(), target


@pytest.mark.slow
def test_training_on_images_is_killed_and_resumed_with_equal_pixels_and_losses(tmp_path):
    pytest.importorskip("torch")
    np, image_module = pytest.importorskip("numpy"), pytest.importorskip("PIL.Image")
    (tmp_path / "photos").mkdir()
    for number in range(3):
        rough = np.random.default_rng(number).integers(0, 256, (9, 12, 3), dtype=np.uint8)
        image_module.fromarray(rough).resize((400, 300), 2).save(
            tmp_path / "photos" / f"{number}.jpg"
        )
    command = [
        sys.executable,
        EXAMPLES / "train_images.py",
        "--out",
        tmp_path / "out",
        "--photos",
        tmp_path / "photos",
    ]
    finished = subprocess.run(
        [*command, "--crops", "160"], capture_output=True, text=True, timeout=600, check=False
    )
    assert finished.returncode == 0, finished.stderr
    steps = int(re.search(r"2 epochs: (\d+) steps", finished.stdout)[1])
    killed, saved = map(
        int,
        re.search(
            r"SIGKILL in step (\d+), the last checkpoint is of step (\d+)", finished.stdout
        ).groups(),
    )
    assert 0 < saved <= killed < steps == 20
    assert (
        "the sums of the pixels of all 320 images are those of the uninterrupted run"
        in finished.stdout
    )
    assert "which is rounding" in finished.stdout


@pytest.mark.slow
def test_training_on_images_needs_photographs(tmp_path):
    pytest.importorskip("torch")
    command = [
        sys.executable,
        EXAMPLES / "train_images.py",
        "--out",
        tmp_path / "out",
        "--photos",
        tmp_path,
    ]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert finished.returncode == 1
    assert (
        "0 photographs" in finished.stderr
        and "hint: a directory with two or more" in finished.stderr
    )


@pytest.fixture
def train_balanced(monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.syspath_prepend(EXAMPLES)
    threads = torch.get_num_threads()
    yield importlib.import_module("train_balanced")
    torch.set_num_threads(threads)


def write_balanced_data(train_balanced, out, length, kilobytes):
    texts = train_balanced.texts_below(EXAMPLES.parent / "docs")
    train_balanced.write_data(out, texts, length, kilobytes * 1000)


def test_balanced_training_is_predicted_to_wait_less(train_balanced, tmp_path):
    write_balanced_data(train_balanced, tmp_path, 1024, 250)
    loader = train_balanced.loader_of(tmp_path, 1024, 7, sm.Cost(pair=1 / 400))
    imbalance = loader.explain()["cost_imbalance"]
    lost = {order: figures["all_steps"] - 1 for order, figures in imbalance.items()}
    assert 0 < lost["balanced"] < 0.5 * lost["as_packed"]


def test_balanced_training_writes_down_each_micro_batch(
    train_balanced, tmp_path, monkeypatch, capsys
):
    # Coefficients that do not depend on the machine, and one rank, in this process.
    monkeypatch.setattr(sm.Cost, "fit", lambda terms, seconds: sm.Cost(pair=0.01))
    monkeypatch.setattr(train_balanced, "RANKS", 1)
    monkeypatch.setenv("RANK", "0")
    write_balanced_data(train_balanced, tmp_path, 256, 5)
    train_balanced.train(tmp_path, {"length": 256, "steps": 8, "rounds": 2})
    first, *lines = map(json.loads, (tmp_path / "run.0.jsonl").read_text().splitlines())
    assert first == {"token": 1, "pair": 0.01}
    written = [(line["round"], line["order"]) for line in lines]
    assert written == [(number, order) for number in (0, 1) for order in ("without", "with") * 6]
    assert all(line["seconds"] > 0 and line["waited"] >= 0 for line in lines)
    # A second rank that takes twice as long.
    monkeypatch.setattr(train_balanced, "RANKS", 2)
    slow = [first, *(line | {"seconds": 2 * line["seconds"]} for line in lines)]
    (tmp_path / "run.1.jsonl").write_text("".join(json.dumps(line) + "\n" for line in slow))
    train_balanced.report(tmp_path, 256)
    told = capsys.readouterr().out
    assert "a token as much as 100 pairs of tokens" in told
    assert "round 1:" in told and "of the predicted and the measured cost" in told


@pytest.mark.slow
def test_balanced_training_runs_on_two_ranks(tmp_path):
    pytest.importorskip("torch")
    command = [sys.executable, EXAMPLES / "train_balanced.py", "--out", tmp_path]
    options = ["--texts", EXAMPLES.parent / "docs", "--length", "2048", "--kilobytes", "80"]
    finished = subprocess.run(
        [*command, *options, "--steps", "12", "--rounds", "1"],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    before, after = re.search(
        r"imbalance ([\d.]+) without a balance, ([\d.]+) with it", finished.stdout
    ).groups()
    assert 1 < float(after) < float(before)
    few = subprocess.run(
        [*command, *options, "--steps", "999"], capture_output=True, text=True, check=False
    )
    assert few.returncode == 1
    assert "packs a rank are too few for --steps 999\nhint: give more texts" in few.stderr
