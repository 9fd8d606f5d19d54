"""The command as a user runs it: output, streams, exit codes, time."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from command import shardmill
from promptness import HANGS_S, assert_prompt
from shard_files import png, source_sample, text_only_sample, write_tar, written_sample


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    for number in range(3):
        members = [
            *source_sample(f"a{number}", words=number),
            *source_sample(f"b{number}", words=10, language="en"),
        ]
        write_tar(tmp_path / "in" / f"{number}.tar", members)
    return tmp_path / "in"


@pytest.mark.skipif(shutil.which("nasm") is None, reason="CI installs nasm by make assembler")
def test_build_beside_an_assembler_has_simd() -> None:
    assert "with SIMD" in shardmill("--version", "--verbose").stdout


@pytest.mark.parametrize("command", [[], ["curate"], ["inspect"], ["verify"]])
def test_help_shows_an_example(command: list[str]) -> None:
    result = shardmill(*command, "--help")
    assert (result.returncode, result.stderr) == (0, "")
    example = result.stdout.split("Example:")[1]
    assert "\n    shardmill " in example


def test_version_is_data() -> None:
    result = shardmill("--version")
    assert (result.returncode, result.stdout.split()[0]) == (0, "shardmill")


def test_verbose_version_tells_what_decodes_images() -> None:
    for arguments in (["--version", "-v"], ["-v", "--version"]):
        result = shardmill(*arguments)
        lines = dict(line.split(": ", 1) for line in result.stdout.splitlines()[1:])
        assert (result.returncode, [*lines]) == (0, ["JPEG", "resize", "Python", "platform"])
        assert lines["JPEG"].startswith("libjpeg-turbo 3.")


@pytest.mark.parametrize("to", ["parquet", "webdataset"])
def test_curate_prints_its_report_and_verify_accepts_the_output(
    shards: Path, tmp_path: Path, to: str
) -> None:
    out, metrics = tmp_path / "out", tmp_path / "metrics"
    options = [
        "--to",
        to,
        "--aspect-ratio",
        "1.4:2",
        "--filter",
        "words > 0 and words != 2 or language = 'en'",
    ]
    result = shardmill("curate", shards, out, *options, "--report", metrics, "--mode", "error")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.splitlines()[2].split() == ["samples", "6", "4"]
    report = json.loads((metrics / "metrics.json").read_text())
    assert (report["is_success"], report["output_num_samples"]) == (True, 4)
    assert json.loads((metrics / "params.json").read_text())["mode"] == "error"
    checked = shardmill("verify", out, "--renumbered", "--layout", "written")
    assert (checked.returncode, checked.stderr) == (0, "")
    assert checked.stdout == "3 files, 4 samples, 12 rows: no problems\n"
    again = shardmill("curate", shards, out, "--to", to, "--mode", "error")
    assert (again.returncode, again.stdout) == (1, "")
    assert again.stderr.startswith("error: ")
    assert "hint: " in again.stderr


def test_curate_takes_every_option(shards: Path, tmp_path: Path) -> None:
    options = (
        "--to parquet --from webdataset --image-to-text-ratio :5 "
        "--on-materialize-error drop_row --mode overwrite"
    )
    options += (
        " --materialize-on-read --materialize-on-write --fields words,url --per-image-field boxes"
    )
    options += (
        " --per-text-field scores --sample-id-field id"
        " --partition-bytes 1MB --max-batch-bytes 64MiB"
    )
    options += (
        " --compression snappy --executor local --threads 1"
        " --max-errors 3 --fail-on-quarantine --no-progress"
    )
    # Keys that no sample has are refused.
    write_tar(
        shards / "z.tar", source_sample("z", words=3, url="u", boxes=[1, 2], scores=[1], id="z")
    )
    result = shardmill("curate", *sorted(shards.iterdir()), tmp_path / "out", *options.split())
    assert result.returncode == 0, result.stderr
    (file,) = (tmp_path / "out").glob("*.parquet")
    assert pq.read_metadata(file).row_group(0).column(0).compression == "SNAPPY"
    assert {"words", "url", "boxes", "scores"} < set(pq.read_schema(file).names)


WRONG_USAGE = [
    ("--to", "orc"),
    ("--to", "parquet", "--aspect-ratio", "2:1"),
    ("--to", "parquet", "--aspect-ratio", "wide"),
    ("--to", "parquet", "--partition-bytes", "many"),
    ("--to", "parquet", "--compression", "rar"),
    ("--to", "webdataset", "--compression", "zstd"),
    ("--to", "parquet", "--files-per-partition", "2", "--partition-bytes", "1MB"),
    ("--to", "parquet", "--fields", "sample_id"),
    ("--to", "parquet", "--filter", "words >"),
    ("--to", "parquet", "--filter", "words > 'en"),
    ("--to", "parquet", "--filter", "words > 1 words < 3"),
    ("--to", "parquet", "--filter", "words > $"),
    ("--to", "parquet", "--max-errors", "-1"),
    ("--to", "parquet", "--workers", "2"),
    ("--to", "parquet", "--threads", "2", "--executor", "ray"),
    ("--to", "parquet", "--mode", "append"),
    (),
]


@pytest.mark.parametrize("options", WRONG_USAGE, ids=" ".join)
def test_wrong_usage_is_told_before_the_output_is_touched(
    shards: Path, tmp_path: Path, options: tuple[str, ...]
) -> None:
    result = shardmill("curate", shards, tmp_path / "out", *options)
    assert (result.returncode, result.stdout) == (2, "")
    assert "Error: " in result.stderr
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "out").exists()


def test_filter_error_points_at_its_place(shards: Path, tmp_path: Path) -> None:
    text = "words > 1 and language in (en"
    result = shardmill("curate", shards, tmp_path / "out", "--to", "parquet", "--filter", text)
    assert "put strings in quotes: 'en'" in result.stderr
    text, caret = result.stderr.splitlines()[-2:]
    assert text[caret.index("^") :] == "en"


def test_quarantine_sets_the_exit_code_only_when_asked(shards: Path, tmp_path: Path) -> None:
    write_tar(shards / "bad.tar", [("x.json", b"{"), *text_only_sample("y")])
    for options, code in (([], 0), (["--fail-on-quarantine"], 1)):
        result = shardmill(
            "curate",
            shards,
            tmp_path / "out",
            "--to",
            "parquet",
            "--mode",
            "overwrite",
            "--report",
            tmp_path / "m",
            *options,
        )
        assert result.returncode == code
        assert "x.json" in result.stderr
        assert json.loads((tmp_path / "m" / "quarantine.jsonl").read_text())["member"] == "x.json"
    stopped = shardmill(
        "curate",
        shards,
        tmp_path / "o2",
        "--to",
        "parquet",
        "--max-errors",
        0,
        "--report",
        tmp_path / "m2",
    )
    assert (stopped.returncode, stopped.stdout) == (1, "")
    assert json.loads((tmp_path / "m2" / "metrics.json").read_text())["is_success"] is False


def test_missing_input_is_an_error_and_leaves_the_output_alone(tmp_path: Path) -> None:
    result = shardmill("curate", tmp_path / "none", tmp_path / "out", "--to", "parquet")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.splitlines()[0] == f"error: No file at `{tmp_path}/none`"
    assert not (tmp_path / "out").exists()
    for command in ("verify", "inspect"):
        assert shardmill(command, tmp_path / "none").returncode == 1


def test_mixed_input_asks_which_format(shards: Path, tmp_path: Path) -> None:
    assert shardmill("curate", shards, tmp_path / "out", "--to", "parquet").returncode == 0
    result = shardmill("curate", shards, tmp_path / "out", tmp_path / "third", "--to", "parquet")
    assert (result.returncode, "--from" in result.stderr) == (2, True)
    result = shardmill(
        "curate", tmp_path / "out", tmp_path / "fourth", "--to", "parquet", "--per-text-field", "x"
    )
    assert (result.returncode, "--per-text-field" in result.stderr) == (2, True)


def test_defect_in_one_of_many_files_sets_the_exit_code_of_verify(tmp_path: Path) -> None:
    for number in range(5):
        write_tar(tmp_path / f"{number}.tar", [*written_sample("a"), *text_only_sample("b")])
    assert shardmill("verify", tmp_path).returncode == 0
    write_tar(tmp_path / "3b.tar", [*written_sample("a"), ("b.1.png", png())])
    result = shardmill("verify", tmp_path)
    assert (result.returncode, result.stderr) == (1, "")
    header, line, summary = result.stdout.splitlines()
    assert header.split() == ["file", "rule", "where", "sample", "problem"]
    assert "3b.tar" in line
    assert "b.1.png at " in line
    assert "no sample names this member" in line
    assert summary == "6 files, 11 samples, 33 rows: 1 problem in 1 file"
    as_json = shardmill("verify", tmp_path, "--json")
    assert as_json.returncode == 1
    assert [check["problem_count"] for check in json.loads(as_json.stdout)] == [0, 0, 0, 0, 1, 0]
    assert as_json.stderr.startswith("6 files")


def test_inspect_prints_a_page_or_json(shards: Path) -> None:
    page = shardmill("inspect", shards / "0.tar", "--texts", 1)
    assert (page.returncode, page.stderr) == (0, "")
    assert "2 metadata, 2 text, 4 image" in page.stdout
    assert "text of a0" in page.stdout
    assert "text of b0" not in page.stdout
    directory = json.loads(shardmill("inspect", shards, "--json").stdout)
    assert (directory["samples"], len(directory["files"])) == (6, 3)


def test_reader_that_goes_away_is_no_traceback(shards: Path) -> None:
    command = f"'{sys.executable}' -m shardmill inspect '{shards}' --json | head -c 1"
    result = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, timeout=HANGS_S, check=False
    )
    assert (result.stdout, result.stderr) == ("{", "")


@pytest.mark.parametrize("redirected", [">&-", "2>&-", ">&- 2>&-"])
def test_closed_stream_is_no_traceback(shards: Path, redirected: str) -> None:
    command = f"'{sys.executable}' -m shardmill verify '{shards}' {redirected}"
    result = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, timeout=HANGS_S, check=False
    )
    is_stdout_closed = redirected.startswith(">")
    assert (result.returncode, result.stderr) == (1 if is_stdout_closed else 0, "")
    assert result.stdout == (
        "" if is_stdout_closed else "3 files, 6 samples, 24 rows: no problems\n"
    )


@pytest.mark.parametrize(
    "arguments", [["head", "caf\udce9"], ["head", "x", "--filter", "caf\udce9 > 1"], ["caf\udce9"]]
)
def test_argument_that_is_not_utf_8_is_refused_with_its_position(arguments: list[str]) -> None:
    result = shardmill(*map(os.fsencode, arguments))
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith(f"error: argument {len(arguments)} is not UTF-8: caf\\udce9")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("heads", "head"), ("tokenise", "tokenize"), ("repair_index", "repair-index")],
)
def test_misspelled_command_is_refused_with_the_similar_one(typed: str, meant: str) -> None:
    result = shardmill(typed)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.endswith(f"\nhint: did you mean `{meant}`?\n")


def test_unknown_command_without_a_similar_one_has_no_suggestion() -> None:
    assert "did you mean" not in shardmill("qqqq").stderr


@pytest.mark.parametrize("group", [[], ["checkpoint"], ["cache"]])
def test_group_without_a_command_prints_its_help_once(group: list[str]) -> None:
    result = shardmill(*group)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == shardmill(*group, "--help").stdout


def test_hint_for_an_existing_output_names_options_of_the_command(
    shards: Path, tmp_path: Path
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a").write_text("")
    result = shardmill("curate", shards, tmp_path / "out", "--to", "parquet")
    assert "or --mode overwrite to empty it, or --mode resume to keep its files" in result.stderr


@pytest.mark.parametrize("command", ["curate", "convert"])
def test_one_path_is_refused_because_source_and_destination_are_needed(command: str) -> None:
    result = shardmill(command, "shards", "--to", "parquet")
    assert (result.returncode, result.stdout) == (2, "")
    assert "SRC and DST are required, and there is only 'shards'" in result.stderr


def test_extension_of_documents_is_an_option_of_curate(tmp_path: Path) -> None:
    write_tar(tmp_path / "a.tar", [("a.meta", b'{"texts": ["hello"], "images": [null]}')])
    refused = shardmill("curate", tmp_path / "a.tar", tmp_path / "out", "--to", "parquet")
    assert (refused.returncode, "json_extensions" in refused.stderr) == (1, True)
    options = ("--to", "parquet", "--mode", "overwrite", "--json-extension", ".meta")
    assert shardmill("curate", tmp_path / "a.tar", tmp_path / "out", *options).returncode == 0
    assert (
        sum(pq.read_metadata(file).num_rows for file in (tmp_path / "out").glob("*.parquet")) == 2
    )


@pytest.mark.parametrize(
    ("command", "told"), [("info", "0 objects, 0 bytes\n"), ("clear", "0 bytes removed\n")]
)
def test_empty_directory_is_a_cache_without_objects(
    tmp_path: Path, command: str, told: str
) -> None:
    result = shardmill("cache", command, "--dir", tmp_path)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", told)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["info", "clear"])
def test_cache_without_a_directory_names_the_option(command: str) -> None:
    result = shardmill("cache", command)
    assert (result.returncode, result.stdout) == (1, "")
    assert "hint: pass --dir, or set SHARDMILL_CACHE_DIR" in result.stderr


def test_empty_destination_of_curate_is_refused(shards: Path) -> None:
    result = shardmill("curate", shards, "", "--to", "parquet")
    assert (result.returncode, result.stdout) == (2, "")
    assert "the path of a sink must be a directory, not ''" in result.stderr


def test_directory_that_is_not_a_cache_is_refused_and_kept(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("kept")
    for command in ("info", "clear"):
        result = shardmill("cache", command, "--dir", tmp_path)
        assert (result.returncode, result.stdout) == (1, "")
        assert result.stderr.startswith(f"error: the directory {str(tmp_path)!r} is not a cache")
    assert (tmp_path / "data").read_text() == "kept"
    missing = shardmill("cache", "info", "--dir", tmp_path / "none")
    assert "hint: set another one with --dir, or SHARDMILL_CACHE_DIR" in missing.stderr


@pytest.mark.parametrize("command", ["verify", "curate"])
def test_interrupt_ends_within_half_a_second(tmp_path: Path, command: str) -> None:
    shard = write_tar(
        tmp_path / "shard.tar", [m for n in range(2000) for m in text_only_sample(f"s{n}")]
    )
    (tmp_path / "in").mkdir()
    for number in range(4000):
        os.link(shard, tmp_path / "in" / f"{number}.tar")
    arguments = ["verify", tmp_path / "in"]
    if command == "curate":
        arguments = ["curate", tmp_path / "in", tmp_path / "out", "--to", "parquet"]

    def interrupted() -> float:
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        process = subprocess.Popen(
            [sys.executable, "-m", "shardmill", *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # A shell that starts the tests in the background makes them, and all that they start,
            # deaf to Ctrl-C.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        # Native threads are at work.
        while not any(
            "shardmill" in task.read_text()
            for task in Path(f"/proc/{process.pid}/task").glob("*/comm")
        ):
            assert process.poll() is None
            time.sleep(0.01)
        time.sleep(0.3)
        assert process.poll() is None
        start = time.perf_counter()
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=HANGS_S)
        assert process.returncode == 130
        assert stdout == ""
        assert stderr.splitlines()[-1] == "interrupted"
        return time.perf_counter() - start

    assert_prompt(0.5, interrupted)
    for file in (tmp_path / "out").glob("*.parquet"):
        assert pq.read_metadata(file).num_rows == 6000


def test_import_is_quick_and_pulls_in_nothing_heavy() -> None:
    heavy = ["pyarrow", "torch", "ray", "click", "numpy", "PIL", "cv2"]
    code = (
        # Of the processor: how long others keep it busy is not ours.
        "import time; start = time.process_time(); "
        "import shardmill; print(time.process_time() - start);"
        f"import sys; print([name for name in {heavy} if name in sys.modules])"
    )
    runs = [
        subprocess.check_output([sys.executable, "-c", code], text=True).splitlines()
        for _ in range(5)
    ]
    assert {loaded for _, loaded in runs} == {"[]"}
    assert min(float(seconds) for seconds, _ in runs) < 0.1


@pytest.mark.parametrize(
    ("name", "unneeded"),
    [
        ("Writer", ["asyncio", "concurrent.futures", "difflib", "numpy", "pyarrow"]),
        ("Loader", ["asyncio", "concurrent.futures", "multiprocessing", "pyarrow", "torch"]),
    ],
)
def test_writer_and_loader_import_only_what_they_need(name: str, unneeded: list[str]) -> None:
    code = (
        f"import sys, shardmill; shardmill.{name}; "
        f"print([name for name in {unneeded} if name in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "[]\n"
