"""Plans of tars: the sizes of images are read from their first bytes."""

import io
import tarfile

import numpy as np
import pytest
import shardmill as sm
from interleaved_documents import bytes_read, picture, qwen_sequences, write_model

pytestmark = pytest.mark.usefixtures("counts_below")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("model"))


def write_tar(path, images):
    with tarfile.open(path, "w") as tar:
        for number, image in enumerate(images):
            for name, content in (("jpg", image), ("txt", b"ab")):
                member = tarfile.TarInfo(f"{number:03}.{name}")
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))


def planned(path, model, **options):
    """The loader, and the bytes that its plan has read."""
    sequences = qwen_sequences(model, parts=["jpg", "txt"], **options)
    loader = sm.Loader(
        sm.Dataset(path, sequences=sequences),
        packing=sm.Packing("tokens", length=64, strategy="best_fit", long="drop"),
        output="numpy",
    )
    before = bytes_read()
    len(loader)
    return loader, bytes_read() - before


def test_plan_reads_the_first_bytes_of_images(tmp_path, model):
    # Noise is not compressed.
    images = [picture(28, 28 * (1 + number % 3)) + bytes(200_000) for number in range(24)]
    write_tar(tmp_path / "a.tar", images)
    loader, read = planned(tmp_path / "a.tar", model)
    assert read < 24 * 40_000
    found = [grid for batch in loader for grid in batch["image_grid_thw"].tolist()]
    assert sorted(grid[2] for grid in found) == sorted(2 * (1 + number % 3) for number in range(24))


@pytest.mark.parametrize("on_error", ["raise", "null"])
def test_size_after_the_first_bytes_is_found(tmp_path, model, on_error):
    thumbnail = b"\xff\xe1" + (60_002).to_bytes(2, "big") + bytes(60_000)
    plain = picture(28, 56, kind="JPEG")
    long = plain[:2] + thumbnail + plain[2:]
    images = [plain, long, plain]
    write_tar(tmp_path / "a.tar", images)
    loader, _ = planned(tmp_path / "a.tar", model, image_output=sm.ImageOutput(on_error=on_error))
    batches = list(loader)
    grids = np.concatenate([batch["image_grid_thw"] for batch in batches])
    assert grids.tolist() == [[1, 2, 4]] * 3
    assert loader.metrics().images_left_out == 0
    if on_error == "null":
        assert np.concatenate([batch["image_valid"] for batch in batches]).all()
