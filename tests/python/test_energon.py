"""The guide From Energon: our loader delivers the documents that Energon's delivers.

Energon runs in a process with the interpreter of its own environment, which `SHARDMILL_PEERS`
names the directory of.
"""

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
import shardmill as sm
from byte_tokenizer import END
from interleaved_documents import picture, write_model

PEER = Path(os.environ.get("SHARDMILL_PEERS", "")) / "energon" / "bin" / "python"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("counts_below"),
    pytest.mark.skipif(
        "SHARDMILL_PEERS" not in os.environ or not PEER.exists(),
        reason="SHARDMILL_PEERS names no directory with energon/bin/python; "
        "benchmarks/peers/build.sh makes one",
    ),
]


def test_documents_of_tars_are_those_of_energon(tmp_path):
    tars, model, out = tmp_path / "tars", tmp_path / "model", tmp_path / "energon.npz"
    with sm.Writer(tars, format="webdataset", shard_bytes="64KiB") as writer:
        for number in range(24):
            image = picture(60 + 7 * number, 150, seed=number, kind="JPEG")
            row = {"jpg": image, "txt": f"hello well {number}"}
            writer.write({"__key__": f"{number:03}"} | row)
    write_model(model)
    script = Path(__file__).with_name("energon_captions.py")
    command = [PEER, script, tars, model, out]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=3600, check=False)
    assert finished.returncode == 0, finished.stderr
    theirs = np.load(out)

    sequences = sm.Sequences(
        tokenizer=model,
        images=sm.ImageTokens.from_pretrained(model),
        parts=["jpg", "txt"],
        eos=END,
    )
    ours = {}
    for row in sm.Dataset(f"{tars}/*.tar", sequences=sequences):
        key = row["__key__"]
        ours |= {f"{key}.tokens": row["tokens"], f"{key}.patches": row["pixel_values"]}
    assert len(ours) == 48 and ours.keys() == set(theirs.files)
    for name, values in ours.items():
        np.testing.assert_allclose(values, theirs[name], rtol=0, atol=2.4e-7, err_msg=name)
