"""The record of passes stays readable whenever a process that writes it is killed."""

import os

import pytest

pytest.importorskip("torch")

from shardmill.integrations.torch._passes import Passes


class Killed(BaseException):
    """Stands for a signal that ends a process."""


def killed_in_write(number, share):
    """Return a function like ``os.pwrite`` that is killed in its call ``number``.

    It is killed after this share of the bytes of the call.
    """
    write, calls = os.pwrite, 0

    def pwrite(file, data, offset):
        nonlocal calls
        calls += 1
        if calls <= number:
            return write(file, data, offset)
        write(file, data[: int(len(data) * share)], offset)
        raise Killed

    return pwrite


def long_record():
    """Return passes with many entries that the next move drops."""
    passes = Passes()
    passes.move(3, 0)
    for seed in range(60):
        passes.begin((10**12 + seed, 1), 0, (0, 0))
    for _ in range(7):
        passes.move(5, 0)
    return passes


@pytest.mark.parametrize(("number", "share"), [(0, 0), (0, 0.1), (0, 0.9), (0, 1), (1, 1)])
def test_process_that_is_killed_while_it_writes_leaves_a_whole_record(monkeypatch, number, share):
    passes = long_record()
    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(os, "pwrite", killed_in_write(number, share))
        passes.move(9, 0)
    assert not passes.have_begun()
    passes.move(9, 0)
    assert [passes.begin((1, 1), worker, (0, 0)) for worker in range(2)] == [(9, 0, None)] * 2
    assert passes.begin((1, 2), 0, (0, 0)) == (10, 0, None)


def test_process_that_is_killed_in_the_first_write_leaves_an_empty_record(monkeypatch):
    passes = Passes()
    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(os, "pwrite", killed_in_write(0, 0.5))
        passes.begin((1, 1), 0, (4, 0))
    assert [passes.begin((1, 1), worker, (4, 0)) for worker in range(2)] == [(4, 0, None)] * 2


def test_file_of_a_long_run_stays_small():
    passes = Passes()
    for epoch in range(300):
        passes.move(epoch, 0)
        for seed in range(3):
            assert passes.begin((seed, 1), 0, (0, 0)) == (epoch + seed, 0, None)
    assert passes._file.location().stat().st_size < 16 << 10
