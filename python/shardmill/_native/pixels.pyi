from typing import Any, Literal, final

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "AUGMENT_VERSION",
    "Images",
    "build_info",
    "decode",
    "decode_all",
    "laplacian_variance",
    "phash",
    "resize",
]

AUGMENT_VERSION: int

@final
class Images:
    def __new__(cls, settings: dict[str, Any]) -> Images: ...
    @property
    def outputs(self) -> list[str]: ...
    def geometry(
        self, height: int, width: int, *, seed: int, epoch: int, row: int, item: int
    ) -> tuple[tuple[int, int, int, int], tuple[int, int], bool]: ...

def build_info() -> tuple[str, bool | None, str]: ...
def decode(
    payload: bytes,
    *,
    channels: Literal["RGB", "L"] = "RGB",
    background: tuple[int, int, int] | None = ...,
    orientation: bool = True,
    max_pixels: int = 89_478_485,
    damaged: Literal["raise", "accept"] = "raise",
    page: int = 0,
) -> NDArray[np.uint8]: ...
def resize(image: NDArray[np.uint8], height: int, width: int, filter: str) -> NDArray[np.uint8]: ...
def laplacian_variance(image: NDArray[np.uint8]) -> float: ...
def phash(payload: bytes) -> int: ...
def decode_all(payloads: list[bytes], *, threads: int, denominator: int = 1) -> int: ...
