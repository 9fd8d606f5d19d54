"""Which tests may run side by side."""

import signal

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A file stays in one process, for its fixtures. All tests of Ray share one: two clusters that start at once take each other's ports."""
    for item in items:
        group = "ray" if item.get_closest_marker("ray") else str(item.path)
        item.add_marker(pytest.mark.xdist_group(group))


@pytest.fixture(autouse=True, scope="session")
def interrupts() -> None:
    """Workers of pytest-xdist ignore SIGINT, and processes that they start would too."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
