"""A feature whose package is missing says which extra installs it."""

import subprocess
import sys
from importlib import import_module

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

MISSING = ["pyarrow", "arro3", "jinja2", "torch", "prometheus_client", "ray"]
CALLS = {
    "sm.Loader(PATH, batch_size=2, output='numpy').explain_table(step=0)": (
        "explain_table requires pyarrow: arrow"
    ),
    "list(sm.Loader(PATH, batch_size=2, output='arrow'))": "output='arrow' requires pyarrow: arrow",
    "list(sm.Loader(PATH, batch_size=2, output='torch'))": 'output="torch" needs torch: torch',
    "sm.Tokenize(function=sm.TokenFunction(len, version='1'))": (
        "Tokenize with a function requires pyarrow: arrow"
    ),
    "sm.Writer(OUT, index='chinidataset')": "index='chinidataset' requires pyarrow: arrow",
    "sm.Writer(OUT).write_batch({'x': [1]})": "rows of Python objects require pyarrow: arrow",
    "Pipeline(source=InterleavedParquetSource(PATH, schema_overrides={'x': 'int64'}), "
    "sink=ParquetSink(OUT))": "schema_overrides as a dict requires pyarrow: arrow",
    "Pipeline(source=TableSource(PATH), sink=ParquetSink(OUT)).run('ray')": (
        'executor="ray" needs Ray: ray'
    ),
    "import_module('shardmill.curate._page').write_page(OUT, {'run': None})": (
        "the page requires Jinja2: report"
    ),
    "import_module('shardmill.view._page').templates()": "the page requires Jinja2: view",
    "import_module('shardmill.cli._view')"
    ".command.main([PATH, '--no-open'], standalone_mode=False)": "the page requires pyarrow: view",
    "import_module('shardmill.integrations.prometheus')": "needs prometheus_client: prometheus",
    "import_module('shardmill.integrations.torch')": "needs PyTorch: torch",
}


@pytest.fixture(scope="module")
def messages(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The errors of all calls, made in one process without the packages."""
    path = tmp_path_factory.mktemp("extras")
    pq.write_table(pa.table({"x": [1, 2, 3]}), path / "a.parquet")
    code = f"""
import sys
sys.modules.update(dict.fromkeys({MISSING}))
from importlib import import_module
import shardmill as sm
from shardmill.curate import InterleavedParquetSource, ParquetSink, Pipeline, TableSource
PATH, OUT = {str(path / "a.parquet")!r}, {str(path / "out")!r}
for call in {list(CALLS)}:
    try:
        eval(call)
        print("no error")
    except ImportError as error:
        print(" | ".join(str(error).splitlines()))
"""
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines()


@pytest.mark.parametrize("call", CALLS)
def test_missing_package_is_named_with_its_extra(messages: list[str], call: str) -> None:
    what, _, extra = CALLS[call].rpartition(": ")
    message = messages[list(CALLS).index(call)]
    assert what in message
    assert f"hint: pip install 'shardmill[{extra}]'" in message


@pytest.mark.parametrize("name", ["accelerate", "lightning", "torchtitan", "transformers"])
def test_adapter_of_a_trainer_names_the_package_that_is_missing(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    # Another test may have imported them.
    loaded = [module for module in sys.modules if module.startswith(f"{name}.")]
    for module in (name, f"{name}.pytorch", *loaded):
        monkeypatch.setitem(sys.modules, module, None)
    adapter = f"shardmill.integrations.{name}"
    monkeypatch.delitem(sys.modules, adapter, raising=False)
    with pytest.raises(ModuleNotFoundError, match=rf"hint: pip install '?{name}"):
        import_module(adapter)
