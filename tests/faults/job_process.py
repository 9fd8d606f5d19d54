"""Jobs in separate processes, and the files they leave."""

import io
import json
import signal
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from promptness import HANGS_S

JOB = Path(__file__).with_name("job.py")
STAGING = ".shardmill-*.staging"


class Job:
    """A curation job in a process of its own."""

    script = JOB

    def __init__(self, kind: str, source: Path, out: Path, **options: object) -> None:
        named = [f"{name}={value}" for name, value in options.items()]
        self.process = subprocess.Popen(
            [sys.executable, str(self.script), kind, str(source), str(out), *named],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=_default_interrupt,
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "go\n", self.process.communicate()[1]

    def send(self, number: int) -> None:
        self.process.send_signal(number)

    def finish(self, timeout: float = HANGS_S) -> tuple[int, dict]:
        """The exit code and the outcome that the job printed, empty when it was killed."""
        try:
            out, err = self.process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            out, err = self.process.communicate()
            pytest.fail(f"the job hangs: {out}\n{err}")
        lines = out.splitlines()
        outcome = json.loads(lines[-1]) if lines and lines[-1].startswith("{") else {}
        return self.process.returncode, outcome | {"stderr": err}


def _default_interrupt() -> None:
    # A shell starts background jobs with SIGINT ignored, and Python then leaves it so.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def run_job(kind: str, source: Path, out: Path, **options: object) -> dict:
    code, outcome = Job(kind, source, out, **options).finish()
    assert code == 0, outcome
    return outcome


def staging(out: Path) -> list[Path]:
    return list(out.glob(STAGING))


def assert_whole(out: Path) -> None:
    """Every file under a final name can be read to its end."""
    for path in out.iterdir() if out.exists() else ():
        if path.suffix == ".parquet":
            table = pq.read_table(path)
            table.validate(full=True)
            assert table.num_rows > 0
        elif path.suffix == ".tar":
            assert path.stat().st_size % 10_240 == 0
            with path.open("rb") as file:
                file.seek(-1024, io.SEEK_END)
                assert file.read() == bytes(1024), path
            with tarfile.open(path) as archive:
                names = archive.getnames()
            assert names[-1].endswith(".json"), path
        else:
            assert path.match(STAGING), path


def contents(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(out.iterdir())}


def write_shard(
    path: Path, samples: int, image: Callable[[int], tuple[str, bytes]], pages: int = 1
) -> None:
    """A shard with this number of samples, their images as ``image`` gives them."""
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as archive:
        for number in range(samples):
            stem = f"{path.stem}-{number:04}"
            extension, body = image(number)
            images = (
                [f"{stem}.{extension}"]
                if pages == 1
                else [f"page_{page}_image_{page}" for page in range(pages)]
            )
            texts = [f"text of {stem}", *[None] * len(images)]
            document = {
                "texts": texts,
                "images": [None, *images],
                "url": f"https://example.com/{stem}",
            }
            for name, data in (
                (f"{stem}.json", json.dumps(document).encode()),
                (f"{stem}.{extension}", body),
            ):
                member = tarfile.TarInfo(name)
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
