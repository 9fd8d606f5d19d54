"""CLIP models of open_clip, for ``shardmill.curate.ClipScoreFilter``."""

from __future__ import annotations

import os
import threading
from functools import cache
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

from shardmill._extras import package_for
from shardmill.errors import NotFoundError, OptionError

if TYPE_CHECKING:
    import numpy as np

# If there are several threads, only one loads the model.
_LOADING = threading.Lock()


class OpenClip:
    """A CLIP model and its weights. Requires ``shardmill[clip]``.

    Weights are loaded when the object is created, so a job with missing weights fails before it
    reads data. A Ray worker loads them again, once per process, so the files must exist there too;
    weights are not sent to workers.

    Args:
        model_name: an open_clip architecture. The default is the one of
            ``openai/clip-vit-large-patch14``.
        pretrained: path of a weights file, or a tag such as ``"openai"`` that open_clip downloads.
        model_dir: directory in which open_clip caches downloaded weights; its own cache by default.
        device: device of the model, such as ``"cuda:0"``; by default a GPU if there is one.
        batch_size: number of images or texts per forward pass.

    Raises:
        ImportError: If open_clip is not installed.
        shardmill.NotFoundError: If the weights file does not exist.
        shardmill.OptionError: If open_clip does not have the model or tag.
    """

    def __init__(
        self,
        model_name: str = "ViT-L-14-quickgelu",
        *,
        pretrained: str | PathLike[str],
        model_dir: str | PathLike[str] | None = None,
        device: str | None = None,
        batch_size: int = 64,
    ) -> None:
        if batch_size < 1:
            raise OptionError("`batch_size` must be positive")
        weights = fspath(pretrained)
        if not weights:
            raise OptionError("`pretrained` is empty; random weights give meaningless scores")
        directory = (
            # A string for open_clip.
            None if model_dir is None else os.path.abspath(fspath(model_dir))  # noqa: PTH100
        )
        self._options = (model_name, _file_or_tag(model_name, weights), directory, device)
        self._batch_size = batch_size
        self._model()

    def embed_images(self, images: list[Any]) -> np.ndarray:
        """Return one vector per image."""
        return self._in_batches(images, self._model().image_vectors)

    def embed_texts(self, texts: list[str]) -> np.ndarray:
        """Return one vector per text; text beyond the context of the model is truncated."""
        return self._in_batches(texts, self._model().text_vectors)

    def _model(self) -> _Model:
        with _LOADING:
            return _loaded(*self._options)

    def _in_batches(self, items: list[Any], embed: Any) -> np.ndarray:
        import numpy as np

        starts = range(0, len(items), self._batch_size)
        return np.concatenate([embed(items[start : start + self._batch_size]) for start in starts])

    def __repr__(self) -> str:
        name, weights, _directory, _device = self._options
        return f"OpenClip({name!r}, pretrained={weights!r})"


def _file_or_tag(model_name: str, weights: str) -> str:
    """Return an absolute path, or the tag unchanged.

    Raises:
        NotFoundError: If it is neither a file nor a tag of the model.
    """
    if os.path.isfile(weights):  # noqa: PTH113 - may be a tag
        return os.path.abspath(weights)  # noqa: PTH100 - a string for open_clip
    open_clip = _open_clip()
    tags = open_clip.list_pretrained_tags_by_model(model_name)
    if open_clip.get_model_config(model_name) is None:
        raise OptionError(
            f"open_clip has no model {model_name!r}\nhint: open_clip.list_models() lists them"
        )
    if weights not in tags:
        known = ", ".join(tags) or "none"
        raise NotFoundError(
            f"No file at `{weights}`, and no tag of {model_name} has this name\n"
            f"hint: its tags: {known}"
        )
    return weights


def _open_clip() -> Any:
    return package_for("OpenClip", "open_clip", extra="clip")


class _Model:
    """The weights of this process.

    PyTorch allows many threads to run one model in inference mode.
    """

    def __init__(
        self, model_name: str, weights: str, directory: str | None, device: str | None
    ) -> None:
        open_clip = _open_clip()
        import torch  # pyright: ignore[reportMissingImports] - an extra that few have

        self._torch = torch
        self._device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        model, _train, self._prepared = open_clip.create_model_and_transforms(
            model_name, pretrained=weights, device=self._device, cache_dir=directory
        )
        self._model = model.eval()
        self._tokens = open_clip.get_tokenizer(model_name)

    def image_vectors(self, images: list[Any]) -> np.ndarray:
        pixels = self._torch.stack([self._prepared(image) for image in images]).to(self._device)
        with self._torch.inference_mode():
            return self._model.encode_image(pixels).float().cpu().numpy()

    def text_vectors(self, texts: list[str]) -> np.ndarray:
        tokens = self._tokens(texts).to(self._device)
        with self._torch.inference_mode():
            return self._model.encode_text(tokens).float().cpu().numpy()


#: One model for each set of options.
_loaded = cache(_Model)
