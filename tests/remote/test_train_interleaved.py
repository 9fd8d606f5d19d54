"""The example that curates documents into a bucket and trains on them, run as a user runs it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "examples" / "train_interleaved.py"


@pytest.mark.slow
def test_training_from_a_bucket_is_killed_and_resumed_with_each_document_once(
    bucket, server, tmp_path
):
    for package in ("torch", "transformers", "tokenizers", "pandas", "PIL"):
        pytest.importorskip(package)
    options = server.storage_options()
    environment = {
        "AWS_ENDPOINT_URL": options["endpoint"],
        "AWS_ACCESS_KEY_ID": options["access_key_id"],
        "AWS_SECRET_ACCESS_KEY": options["secret_access_key"],
        "AWS_REGION": options["region"],
        "AWS_ALLOW_HTTP": "true",
        "GLOO_SOCKET_IFNAME": "lo",
        "TMPDIR": str(tmp_path),
    }
    finished = subprocess.run(
        [sys.executable, SCRIPT, f"s3://{bucket.name}/curated"],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=3600,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    assert "2 ranks: process" in finished.stdout and "SIGKILL" in finished.stdout
    assert re.search(r"dropped: \d+ rows, without copies", finished.stdout)
    documents, before = map(
        int, re.search(r"(\d+) documents .* once, the first (\d+)", finished.stdout).groups()
    )
    assert 0 < before < documents == 60
    assert list((bucket.directory / "curated").glob("*.parquet"))
    assert len(SCRIPT.read_text().splitlines()) <= 120
