"""The test files that array_record brings along, as they are, over our modules.

Our modules have the names that the files import.
"""

import importlib.util
import shutil
from pathlib import Path

import pytest
from implementations import ORIGINAL
from own_process import run_python

RUN = """
import sys, types
which, name = sys.argv.pop(1), sys.argv.pop(1)
if which == "ours":
    from shardmill.arrayrecord import ArrayRecordDataSource, install_as_array_record
    install_as_array_record()
import array_record.python.array_record_data_source as data_source
import array_record.python.array_record_module as module
if which == "ours":
    assert issubclass(data_source.ArrayRecordDataSource, ArrayRecordDataSource)
# They say `from python import ...`.
stub = types.ModuleType("python")
stub.__path__ = []
stub.array_record_data_source, stub.array_record_module = data_source, module
sys.modules["python"] = stub
sys.modules["python.array_record_data_source"] = data_source
sys.modules["python.array_record_module"] = module
sys.path.insert(0, ".")
from absl.testing import absltest
absltest.main(module=name)
"""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Beside the files, the two of digits that the second one reads and the wheel lacks."""
    package = importlib.util.find_spec("array_record")
    assert package is not None
    assert package.submodule_search_locations
    for name in ("array_record_module_test.py", "array_record_data_source_test.py"):
        shutil.copy(Path(package.submodule_search_locations[0]) / "python" / name, tmp_path)
    (tmp_path / "testdata").mkdir()
    for part in range(2):
        digits = [b"%d" % number for number in range(part * 5, part * 5 + 5)]
        ORIGINAL.write(tmp_path / "testdata" / f"digits.array_record-0000{part}-of-00002", digits)
    return tmp_path


@pytest.mark.parametrize("which", [pytest.param("original", marks=pytest.mark.slow), "ours"])
@pytest.mark.parametrize(
    ("name", "count"),
    [("array_record_module_test", 10), ("array_record_data_source_test", 21)],
    ids=["module", "source"],
)
def test_test_file_of_array_record_passes(name, count, which, directory) -> None:
    report = directory / "report.xml"
    run_python(
        RUN, which, name, f"--test_tmpdir={directory}", f"--xml_output_file={report}", cwd=directory
    )
    assert report.read_text().count("<testcase ") == count
