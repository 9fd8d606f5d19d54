"""What one ArrayRecord implementation answers, from a process of its own: a crash is an end, a hang has one.

As a script it is that process: a job a line in, an answer a line out, so that answers before a crash count.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

MEMORY = 8 << 30
PROBED = 12

Answer = tuple[str, Any]
"""``("value", ...)``, or ``("error", [names of the class and of those that it is made from])``."""


class Answers(dict[str, Answer]):
    """By the name of the call. ``end`` is how the process came through: ``done``, ``crash -11``, ``hang``."""

    end = "done"

    def shown(self) -> dict[str, Any]:
        return {"end": self.end} | self


class Implementation:
    """``ours`` or ``original``, in a process that is started again when it died."""

    def __init__(self, name: str, timeout: float) -> None:
        self.name, self.timeout = name, timeout
        self.process: subprocess.Popen[bytes] | None = None
        self.buffer = b""
        self.died = 0
        """So many times between two jobs: threads of a job may outlive it."""

    def ask(self, **job: str) -> Answers:
        if self.process is None:
            command = [sys.executable, "-W", "ignore", __file__, self.name]
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
            self.buffer = b""
            self.line(60)
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(job).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            self.stop()
            self.died += 1
            return self.ask(**job)
        answers = Answers()
        while True:
            line = self.line(self.timeout)
            if line == b"hang" or not line:
                answers.end = self.stop(line)
                return answers
            name, kind, value = json.loads(line)
            if name == "end":
                return answers
            answers[name] = (kind, value)

    def line(self, timeout: float) -> bytes:
        """Empty when the process has ended."""
        assert self.process is not None and self.process.stdout is not None
        descriptor = self.process.stdout.fileno()
        while b"\n" not in self.buffer:
            if not select.select([descriptor], [], [], timeout)[0]:
                return b"hang"
            read = os.read(descriptor, 1 << 20)
            if not read:
                return b""
            self.buffer += read
        line, _, self.buffer = self.buffer.partition(b"\n")
        return line

    def stop(self, line: bytes = b"") -> str:
        process, self.process = self.process, None
        if process is None:
            return "done"
        if line == b"hang":
            process.send_signal(signal.SIGKILL)
        with contextlib.suppress(BrokenPipeError):
            process.communicate()
        return "hang" if line == b"hang" else f"crash {process.returncode}"


def modules(name: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    if name == "original":
        from array_record.python import array_record_module

        return array_record_module.ArrayRecordReader, array_record_module.ArrayRecordWriter
    from shardmill.arrayrecord import ArrayRecordReader, ArrayRecordWriter

    return (
        lambda path, options="": ArrayRecordReader(path, options, strict=False),
        lambda path, options="": ArrayRecordWriter(path, options, strict=False),
    )


def calls_of_file(make_reader: Callable[..., Any], path: str) -> Iterator[tuple[str, Callable[[], Any]]]:
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


def calls_of_writer(make_reader: Callable[..., Any], make_writer: Callable[..., Any], path: str, options: str):
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


def plain(value: Any) -> Any:
    """As it comes back from JSON."""
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return [plain(each) for each in value] if isinstance(value, list) else value


def main(name: str) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    make_reader, make_writer = modules(name)

    def say(*answer: Any) -> None:
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()

    say("ready", "value", None)
    for line in sys.stdin:
        job = json.loads(line)
        calls = {
            "file": lambda job=job: calls_of_file(make_reader, job["path"]),
            "writer": lambda job=job: calls_of_writer(make_reader, make_writer, job["path"], job["options"]),
            "reader": lambda job=job: calls_of_reader(make_reader, job["path"], job["options"]),
        }[job["kind"]]()
        try:
            for called, call in calls:
                try:
                    say(called, "value", plain(call()))
                except Exception as error:
                    say(called, "error", [each.__name__ for each in type(error).__mro__[:-3]])
        except Exception as error:
            say("constructor", "error", [each.__name__ for each in type(error).__mro__[:-3]])
        say("end", "value", None)


if __name__ == "__main__":
    main(sys.argv[1])
