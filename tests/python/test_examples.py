"""The demo, the training and the notebook, run as a user runs them."""

import base64
import io
import re
import subprocess
import sys
from pathlib import Path

import pytest
from html_page import Page
from PIL import Image

EXAMPLES = Path(__file__).parents[2] / "examples"


def run_demo(*arguments):
    command = [sys.executable, EXAMPLES / "demo.py", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    out = tmp_path_factory.mktemp("demo") / "demo_output"
    finished = run_demo("--out", str(out))
    assert finished.returncode == 0, finished.stderr
    return out, finished


def test_demo_prints_a_table_and_the_path_of_the_report_last(demo):
    out, finished = demo
    lines = finished.stdout.splitlines()
    assert lines[0].split() == ["path", "samples/s", "rows", "in", "rows", "out", "MB", "in", "MB", "out", "seconds"]
    rows = [re.split(r"\s{2,}", line) for line in lines[1:5]]
    assert len(rows) == 4
    assert {tuple(row[2:4]) for row in rows} == {("3,304", "2,742")}
    assert "all four outputs hold the same 2,415 texts and images" in finished.stdout
    assert "24 copied pages are bit-identical" in finished.stdout
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
    for name in ("WebDataset → Parquet", "WebDataset → WebDataset", "Parquet → Parquet", "Parquet → WebDataset"):
        assert name in page.text


def test_demo_runs_again_over_its_own_output(demo):
    out, _ = demo
    assert run_demo("--out", str(out)).returncode == 0


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


@pytest.fixture(scope="module")
def notebook():
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    content = nbformat.read(EXAMPLES / "interleaved_curation.ipynb", as_version=4)
    assert not any(cell.get("outputs") for cell in content.cells), "commit the notebook without outputs"
    client = nbclient.NotebookClient(
        content, timeout=60, kernel_name="python3", resources={"metadata": {"path": str(EXAMPLES)}}
    )
    client.execute()
    return content


def test_notebook_runs_and_shows_pictures(notebook):
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert not [output for output in outputs if output.output_type == "error"]
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 2
    printed = "".join(output.text for output in outputs if output.output_type == "stream" and output.name == "stdout")
    assert "not a single pixel differs" in printed
    assert "broken JSON" in printed
    assert "without_short_texts" in printed


def test_links_of_the_notebook_lead_somewhere(notebook):
    for cell in notebook.cells:
        for target in re.findall(r"\]\(([^)]+)\)", cell.source if cell.cell_type == "markdown" else ""):
            assert (EXAMPLES / target).exists(), target
