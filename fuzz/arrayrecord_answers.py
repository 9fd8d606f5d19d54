"""What one ArrayRecord implementation answers, from a process of its own.

A crash is an end, a hang has one.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import resource
import sys
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from implementations import ORIGINAL, OURS

MEMORY = 8 << 30
PROBED = 12

Answer = tuple[str, Any]
"""``("value", ...)``, or ``("error", [names of the class and of those that it is made from])``."""


class Answers(dict[str, Answer]):
    """By the name of the call.

    ``end`` is how the process came through: ``done``, ``crash -11``, ``hang``.
    """

    end = "done"


class Implementation:
    """``ours`` or ``original``, in a process that is started again when it died."""

    def __init__(self, name: str, timeout: float) -> None:
        self.name, self.timeout = name, timeout
        self.process: BaseProcess | None = None
        self.died = 0
        """So many times between two jobs: threads of a job may outlive it."""

    def ask(self, **job: str) -> Answers:
        if self.process is None:
            context = multiprocessing.get_context("spawn")
            self.pipe, theirs = context.Pipe()
            self.process = context.Process(target=serve, args=(self.name, theirs), daemon=True)
            self.process.start()
            theirs.close()
            self.receive(60)
        try:
            self.pipe.send(job)
        except OSError:
            self.stop()
            self.died += 1
            return self.ask(**job)
        answers = Answers()
        while answer := self.receive(self.timeout):
            if isinstance(answer, str):
                answers.end = answer
                break
            answers[answer[0]] = answer[1:]
        return answers

    def receive(self, timeout: float) -> Any:
        """The next answer, None after the last one, or how the process ended."""
        try:
            return self.pipe.recv() if self.pipe.poll(timeout) else self.stop("hang")
        except (EOFError, ConnectionError):
            return self.stop()

    def stop(self, end: str = "") -> str:
        process, self.process = self.process, None
        if process is None:
            return "done"
        self.pipe.close()
        if end == "hang":
            process.kill()
        process.join()
        return end or f"crash {process.exitcode}"


def calls_of_file(
    make_reader: Callable[..., Any], path: str
) -> Iterator[tuple[str, Callable[[], Any]]]:
    reader = make_reader(path)
    yield "open", lambda: [reader.ok(), reader.is_open(), reader.num_records()]
    yield "options", reader.writer_options_string
    count = reader.num_records()
    probed = [number for number in range(PROBED) if number < count]
    for number in probed:
        yield f"one {number}", lambda number=number: reader.read([number])
    if count:
        yield "last", lambda: reader.read([count - 1])
        yield "turned", lambda: reader.read(probed[::-1])
        yield "part", lambda: reader.read(count // 2, min(count, count // 2 + PROBED))
    yield "beyond", lambda: reader.read([count])
    if count < 100_000:
        yield "read_all", reader.read_all
        yield "in order", lambda: [reader.read() for _ in range(count)]
        yield "at the end", reader.read
    yield "after", lambda: [reader.ok(), reader.is_open(), reader.num_records()]
    yield "close", reader.close


def calls_of_writer(
    make_reader: Callable[..., Any], make_writer: Callable[..., Any], path: str, options: str
):
    def write() -> Any:
        writer = make_writer(path, options)
        for record in (b"a", b"", b"bc"):
            writer.write(record)
        writer.close()
        reader = make_reader(path)
        return [reader.writer_options_string(), reader.read_all()]

    yield "recorded", write


def calls_of_reader(make_reader: Callable[..., Any], path: str, options: str):
    def read() -> Any:
        reader = make_reader(path, options)
        return [reader.ok(), reader.read_all(), reader.read([1])]

    yield "read", read


def serve(name: str, pipe: Connection) -> None:
    """Answers jobs one after the other.

    None ends the answers of each, so that those before a crash count.
    """
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
    asked = {"ours": OURS, "original": ORIGINAL}[name]
    make_reader, make_writer = asked.reader, asked.writer

    def names(error: Exception) -> list[str]:
        return [each.__name__ for each in type(error).__mro__[:-3]]

    pipe.send(None)
    with contextlib.suppress(EOFError):
        while job := pipe.recv():
            calls = {
                "file": lambda job=job: calls_of_file(make_reader, job["path"]),
                "writer": lambda job=job: calls_of_writer(
                    make_reader, make_writer, job["path"], job["options"]
                ),
                "reader": lambda job=job: calls_of_reader(make_reader, job["path"], job["options"]),
            }[job["kind"]]()
            try:
                for called, call in calls:
                    try:
                        pipe.send((called, "value", call()))
                    except Exception as error:
                        pipe.send((called, "error", names(error)))
            except Exception as error:
                pipe.send(("constructor", "error", names(error)))
            pipe.send(None)
