"""Each benchmark in miniature with our system, and the checks that no row was lost or doubled."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from breadth import IS_WHOLE, beginning

# The benchmarks are not a part of the installed package.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks import (
    arrayrecord,
    arrayrecord_data,
    checkpoint,
    elastic,
    gate,
    id_index,
    images,
    limits,
    loader,
    mint1t,
    safety,
    streaming,
    tables,
    tokens,
)
from benchmarks.checkpoint_data import SetOptions, check_ids, expected_ids
from benchmarks.checkpoint_data import write_set as write_ids
from benchmarks.clock import Pass, check, timed_pass
from benchmarks.interleaved import check as interleaved_check
from benchmarks.interleaved import job as interleaved_job
from benchmarks.loader import LoaderOptions
from benchmarks.measure import WrongRowsError, make_set
from benchmarks.mint1t import FULL_SET, plan_shards, totals_of, write_dataset
from benchmarks.remote import scenarios
from benchmarks.remote.store import started
from benchmarks.streaming_data import _write_source
from benchmarks.tables import DataSet, rows_table, write_set
from benchmarks.tokens_data import write_documents
from tests.remote.binary import UnavailableError

REPOSITORY = Path(__file__).resolve().parents[2]
MINI = DataSet((1_000, 2_500, 700), 300)


@pytest.fixture(scope="module")
def mini(tmp_path_factory):
    directory = tmp_path_factory.mktemp("sets") / "mini"
    assert write_set(MINI, directory)
    return directory


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    directory = tmp_path_factory.mktemp("shards") / "wds"
    with pytest.MonkeyPatch.context() as patch:
        # A fifth of the documents of a shard.
        patch.setattr(mint1t, "FULL_SET", mint1t.Totals(*(total // 5 for total in FULL_SET)))
        write_dataset(directory, shards=1, of=400)
    return directory


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """Rows of the streaming benchmark. Its words alone take a second."""
    directory = tmp_path_factory.mktemp("streaming") / "source"
    make_set(directory, {"num_rows": 300}, lambda directory: _write_source(directory, 300))
    return directory


@pytest.fixture(scope="module")
def store():
    try:
        with started() as store:
            yield store
    except UnavailableError as error:
        pytest.skip(str(error))


def run(module, out, **args):
    """The module in a process of its own, as the runner starts it."""
    command = [
        sys.executable,
        "-m",
        f"benchmarks.{module}",
        f"--out={out}",
        *(f"--{k}={v}" for k, v in args.items()),
    ]
    paths = f"{REPOSITORY}:{REPOSITORY / 'python'}"
    done = subprocess.run(command, cwd=REPOSITORY, env={**os.environ, "PYTHONPATH": paths})
    metrics = json.loads((out / "metrics.json").read_text())
    assert metrics["is_success"] is (done.returncode == 0)
    return metrics


class TestTables:
    def test_rows_follow_the_formula_in_every_format(self, tmp_path, mini):
        table = rows_table(range(24_999_950, 25_000_080))
        assert table["row_id"].to_pylist() == list(range(24_999_950, 25_000_080))
        for row in table.slice(40, 20).to_pylist():
            assert row["label"] == row["row_id"] % 10
            wanted = pa.scalar(((row["row_id"] + 37) % 100) / 100, pa.float32()).as_py()
            assert row["feat_37"] == wanted
        files = [pq.ParquetFile(mini / name) for name, _ in MINI.files()]
        assert pa.concat_tables([file.read() for file in files]).equals(rows_table(range(4_200)))
        assert [file.metadata.row_group(0).num_rows for file in files] == [300, 300, 300]
        one = DataSet((1_000,), 100, is_sorted=True)
        write_set(one, tmp_path / "sorted")
        labels = pq.read_table(tmp_path / "sorted")["label"].to_pylist()
        assert labels == sorted(labels)

    def test_sizes_are_those_of_the_specification(self):
        totals = {name: (len(one.rows), one.total_rows) for name, one in tables.data_sets().items()}
        assert totals["large"] == (20, 10_000_000)
        assert totals["unequal"] == (20, 1_920_000)
        assert totals["many"] == (1_000, 500_000)


class TestLoader:
    @pytest.mark.parametrize(
        "more",
        beginning(
            2,
            [
                {},
                {"output": "numpy", "shuffle": True},
                {"label": 3, "from_construction": True, "columns": ("row_id", "label")},
                {"mode": "first_batch"},
                {"mode": "memory", "epochs": 2},
                {"mode": "ranks", "ranks": 2, "threads": 1},
                {"mode": "rank_0", "ranks": 3, "cold": True},
            ],
        ),
        ids=str,
    )
    def test_mode_runs_and_holds_its_rows(self, tmp_path, mini, more):
        options = LoaderOptions(out=tmp_path, data=mini, runs=1, batch_size=100, **more)
        metrics = loader.measure(options, loader.shardmill)
        rows = {"first_batch": 100, "rank_0": 1_400}.get(
            options.mode, 420 if options.label else 4_200
        )
        assert metrics["rows"] == rows
        assert metrics["median_s"] > 0
        if options.mode == "ranks":
            assert metrics["rows_of_ranks"] == [2_100, 2_100]

    @pytest.mark.parametrize(
        ("numbers", "message"),
        [(range(4_199), "4,199 rows instead of 4,200"), ([*range(4_199), 0], "sum up to")],
        ids=["a row is missing", "a row is doubled and one is missing"],
    )
    def test_wrong_rows_are_an_error(self, tmp_path, mini, numbers, message):
        options = LoaderOptions(out=tmp_path, data=mini, runs=1)
        batch = pa.record_batch({"row_id": pa.array(numbers, pa.int32())})
        with pytest.raises(WrongRowsError, match=message):
            loader.measure(options, lambda options, rank: [batch])


class TestArrayRecord:
    def test_every_scenario_runs_on_the_same_records(self, tmp_path, monkeypatch):
        pytest.importorskip("array_record")
        pytest.importorskip("lorem_text")
        for name in ("lorem", "zstd_1"):
            more = [] if name == "lorem" else [f"--raw={tmp_path / 'lorem'}"]
            options = [f"--out={tmp_path / name}", f"--set={name}", "--records=200", *more]
            monkeypatch.setattr(sys, "argv", ["arrayrecord_data", *options])
            arrayrecord_data.main()
        given = {
            "data": tmp_path / "zstd_1",
            "raw": tmp_path / "lorem",
            "calls": 50,
            "slow_calls": 20,
        }
        for scenario in ("calls", "batch", "sequential", "write", "open"):
            (tmp_path / scenario / "scratch").mkdir(parents=True)
            if scenario == "calls":
                metrics = run("arrayrecord", tmp_path / scenario, scenario=scenario, **given)
            else:
                options = arrayrecord.RecordOptions(
                    out=tmp_path / scenario, scenario=scenario, **given
                )
                metrics = arrayrecord.measure(options)
            assert all(figure["per_s"] > 0 for figure in metrics["figures"].values())
        record = tmp_path / "zstd_1" / ".dataset.json"
        content = json.loads(record.read_text())
        content["sample"]["0"] = "another"
        record.write_text(json.dumps(content))
        assert (
            "gave another record 0"
            in run("arrayrecord", tmp_path / "batch", scenario="batch", **given)["error"]
        )


class TestCheckpoint:
    def test_job_writes_the_ids_that_are_not_done(self, tmp_path, monkeypatch):
        monkeypatch.setitem(checkpoint.__dict__, "SYSTEMS", {"shardmill": checkpoint.shardmill})
        write_ids(SetOptions(out=tmp_path / "input", rows=1_000, files=4))
        write_ids(SetOptions(out=tmp_path / "done", rows=800, is_done=True))
        options = checkpoint.JobOptions(
            out=tmp_path / "out", input=tmp_path / "input", checkpoint=tmp_path / "done", cold=True
        )
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        metrics = checkpoint.measure(options)
        assert (metrics["rows_out"], metrics["is_success"]) == (200, True)
        assert check_ids(options.rows, range(800, 1_000))["failures"] == []

    def test_ids_that_are_missing_doubled_or_too_many_are_found(self, tmp_path):
        pq.write_table(pa.table({"id": ["5", "6", "6", "9"]}), tmp_path / "a.parquet")
        failures = check_ids(tmp_path, range(5, 8))["failures"]
        assert failures == ["1 ids are missing", "1 ids are twice", "1 ids are too much"]
        assert check_ids(tmp_path / "none", range(0))["failures"] == []

    def test_entry_names_tell_what_has_to_be_written(self):
        assert expected_ids("hundredth__done_80__ray__2") == range(800_000, 1_000_000)
        assert expected_ids("tenth__done_80_files__shardmill") == range(8_000_000, 10_000_000)

    @pytest.mark.slow
    def test_index_is_built_and_probed(self, tmp_path):
        metrics = run("id_index", tmp_path, ids=5_000, probes=1_000, kind="uuid")
        assert metrics["bytes_per_id"] > 0
        assert id_index.ids_of("uuid", 7, 1)[0].as_py().count("-") == 4


class TestStreaming:
    @pytest.mark.parametrize("scenario", beginning(1, ["fair", "verbatim", "ceiling", "plan"]))
    def test_protocol_runs(self, tmp_path, source, monkeypatch, scenario):
        pytest.importorskip("torch")
        (tmp_path / "out" / "scratch").mkdir(parents=True)
        more = {"plan_rows": 1_000, "image_bytes": 20_000_000} if scenario == "plan" else {}
        given = {"scenario": scenario, "data": source, "rows": 60, **more}
        if IS_WHOLE:
            metrics = run("streaming", tmp_path / "out", **given)
        else:
            # The import of torch takes longer than the rest, and this process has done it.
            monkeypatch.setattr(streaming, "_WORKERS", (0, 2))
            metrics = streaming.measure(streaming.StreamingOptions(out=tmp_path / "out", **given))
        assert metrics.get("amplification", 1) >= 1
        assert all(figure["records"] == 60 for figure in metrics.get("figures", {}).values())

    @pytest.mark.parametrize("has_processes", [False, pytest.param(True, marks=pytest.mark.slow)])
    def test_interrupted_epoch_is_resumed_by_as_many_ranks_and_by_another_number(
        self, tmp_path, source, monkeypatch, has_processes
    ):
        pytest.importorskip("torch")

        def in_turn(system, directory, ranks, states, most):
            return [
                elastic.read_some(elastic.load(system), directory, rank, ranks, states, most)
                for rank in range(ranks)
            ]

        if not has_processes:
            monkeypatch.setattr(elastic, "_at_once", in_turn)
        metrics = elastic.measure(elastic.ElasticOptions(out=tmp_path, data=source))
        assert metrics["told"] == {"same": "each row once", "other": "each row once"}
        assert metrics["figures"]["epoch"]["records"] == 256

    def test_rows_that_an_epoch_lost_or_doubled_are_told(self):
        expected, runs = Counter("aab"), [elastic._Run(["a", "a"]), elastic._Run(["a"])]
        assert elastic._told(expected, runs[:1], runs[1:]) == "1 rows lost, 1 doubled"
        assert (
            elastic._told(expected, runs, [elastic._Run([], error="ValueError: no | state")])
            == "ValueError: no / state"
        )

    def test_rows_that_are_not_those_of_the_source_are_an_error(self, tmp_path, source):
        options = streaming.StreamingOptions(out=tmp_path, data=source, rows=5)
        rows = list(options.source)
        options.check(rows[::-1], in_order=False)
        with pytest.raises(WrongRowsError):
            options.check([*rows[:4], rows[0]], in_order=False)


class TestInterleaved:
    @pytest.mark.parametrize("writer", beginning(1, ["wds", "parquet"]))
    def test_job_writes_what_the_shards_were_made_with(self, tmp_path, shards, writer):
        parquet = tmp_path / "parquet"
        interleaved_check.write_parquet(shards, parquet)
        for reader, data in (("wds", shards), ("parquet", parquet)):
            given = {"data": str(data), "reader": reader, "writer": writer}
            options = interleaved_job.JobOptions(out=tmp_path / f"from_{reader}", **given)
            metrics = interleaved_job.shardmill(options)
            checked = interleaved_check.check_entry(data, metrics, options.scratch / "output")
            assert checked["failures"] == []
            assert checked["output_num_samples"] > 0

    def test_lost_and_doubled_rows_are_found(self, tmp_path, shards):
        interleaved_check.write_parquet(shards, tmp_path / "output")
        (file,) = (tmp_path / "output").glob("*.parquet")
        table = pq.read_table(file)
        pq.write_table(
            pa.concat_tables([table.slice(0, 1), table.slice(2), table.slice(len(table) - 1)]), file
        )
        failures = interleaved_check.check_entry(shards, {}, tmp_path / "output")["failures"]
        assert any("at 0 after -1" in failure or "position" in failure for failure in failures)

    def test_generated_shards_have_the_published_totals(self):
        plans = plan_shards(80)
        assert totals_of(plans) == FULL_SET
        assert plan_shards(3) == plans[:3]


class TestRemote:
    @pytest.mark.usefixtures("store")
    @pytest.mark.parametrize("scenario", beginning(1, ["opening", "ranks", "beside", "faults"]))
    def test_scenario_runs_and_holds_its_rows(self, tmp_path, monkeypatch, scenario):
        one = DataSet((500,) * 4, 250)
        write_set(one, tmp_path / "some")
        monkeypatch.setattr(scenarios.RemoteOptions, "set", one)
        monkeypatch.setenv("PYTHONPATH", f"{REPOSITORY}:{REPOSITORY / 'python'}")
        monkeypatch.chdir(REPOSITORY)
        (tmp_path / "out" / "scratch").mkdir(parents=True)
        options = scenarios.RemoteOptions(
            out=tmp_path / "out",
            data=tmp_path / "some",
            runs=1,
            faults=3,
            batch_size=100,
            round_trip_s=0.001,
        )
        metrics = scenarios.SCENARIOS[scenario](options)
        if scenario == "faults":
            assert (metrics["faults"], metrics["lost"], metrics["doubled"], metrics["hangs"]) == (
                3,
                0,
                0,
                0,
            )

    def test_hidden_files_are_not_published(self, tmp_path, store):
        (tmp_path / "some").mkdir()
        (tmp_path / "some" / "a.bin").write_bytes(b"12345")
        (tmp_path / "some" / ".hidden").write_bytes(b"1")
        assert store.publish(tmp_path / "some") == "s3://bench/some/"
        assert store.objects("some") == [("some/a.bin", 5)]

    def test_row_that_is_missing_or_another_is_an_error(self):
        one = DataSet((3,), 3)
        found = timed_pass(lambda: [[{"row_id": 0}], [{"row_id": 1}, {"row_id": 2}]], sums=True)
        check(one.expected, found)
        with pytest.raises(WrongRowsError, match="2 rows instead of 3"):
            check(one.expected, Pass(2, 1.0, 1.0))
        with pytest.raises(WrongRowsError, match="sum up to 4 instead of 3"):
            check(one.expected, Pass(3, 1.0, 1.0, 4))


@pytest.mark.parametrize(("system", "written"), [("cat", 0), ("cp", 8)])
def test_limit_moves_every_byte_once(tmp_path, system, written):
    make_set(
        tmp_path / "set",
        {"num_rows": 4},
        lambda directory: (directory / "a").write_bytes(b"12345678") and None,
    )
    options = limits.LimitOptions(out=tmp_path, data=tmp_path / "set", system=system)
    options.scratch.mkdir()
    metrics = getattr(limits, system)(options)
    assert metrics["bytes"] == 8
    assert metrics["rows_per_s"] == 4 / metrics["seconds"]
    assert sum(path.stat().st_size for path in options.scratch.iterdir()) == written


def test_safety_measures_both_sides(tmp_path):
    options = safety.SafetyOptions(out=tmp_path, rows=200, files=3, ids=10, repeats=1)
    options.scratch.mkdir()
    assert set(safety.checksums(options)) == set(safety.index(options)) == {"without_s", "with_s"}


@pytest.mark.parametrize(
    ("scenario", "systems"),
    [
        ("encode", ["shardmill", "tokenizers", "tiktoken"]),
        ("packed", ["shardmill", "dataloader"]),
        ("write", ["shardmill"]),
        ("chat", ["shardmill", "transformers"]),
    ],
)
def test_systems_of_the_tokens_benchmark_return_the_same_ids(
    tmp_path, monkeypatch, scenario, systems
):
    monkeypatch.setenv("SHARDMILL_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")
    texts = [path.read_text() for path in sorted((REPOSITORY / "docs").rglob("*.md"))][:300]
    (tmp_path / "data").mkdir()
    write_documents(texts, tmp_path / "data", vocabulary=600)
    found = [
        tokens.measure(
            tokens.TokensOptions(
                out=tmp_path / system, system=system, scenario=scenario, data=tmp_path / "data"
            )
        )
        for system in systems
    ]
    for name in ("digest", "tokens", "labelled"):
        assert len({one.get(name) for one in found}) == 1
    assert all(one["mb_per_s"] > 0 for one in found)


@pytest.mark.parametrize(("bound", "status"), [(0, 0), (float("inf"), 1)])
def test_gate_fails_exactly_if_a_ratio_is_below_its_bound(monkeypatch, capsys, bound, status):
    monkeypatch.setattr(
        gate, "RATIOS", [lambda _: gate.Ratio("sum", "sum", bound, lambda: 1, lambda: 1)]
    )
    assert gate.main() == status
    assert ("too slow" in capsys.readouterr().out) == bool(status)


def test_gate_refuses_systems_with_different_results(monkeypatch):
    monkeypatch.setattr(
        gate, "RATIOS", [lambda _: gate.Ratio("sum", "sum", 0, lambda: 1, lambda: 2)]
    )
    with pytest.raises(AssertionError, match="the results of shardmill and sum differ"):
        gate.main()


def test_core_time_of_a_pass_includes_its_worker_processes(tmp_path):
    program = "import time\nwhile time.process_time() < 0.5: pass"

    def one_pass():
        subprocess.run([sys.executable, "-c", program], check=True)
        yield np.zeros((2, 3, 224, 224), np.uint8)

    metrics = images._passes(images.ImageOptions(out=tmp_path, data=tmp_path, epochs=1), one_pass)
    # The child alone takes 250; clocks of processes have ticks.
    assert metrics["core_ms"] >= 200
