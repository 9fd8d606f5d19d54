"""What docstrings say about options and attributes, for texts that users see elsewhere."""

from __future__ import annotations

import inspect
import re
from typing import Any

_SECTION = re.compile(r"^(?:Args|Attributes):\n((?:    .*\n|\n)+)", re.MULTILINE)
_ENTRY = re.compile(r"^    (\w+): (.+(?:\n     .+)*)", re.MULTILINE)


def first_sentences(documented: Any) -> dict[str, str]:
    """Return the first sentence about each argument or attribute.

    There are none if Python runs without docstrings.

    Examples:
        >>> import shardmill as sm
        >>> first_sentences(sm.QueueMetrics)["bytes_limit"]
        'Maximum of this memory, prefetch_bytes of the loader.'
    """
    section = _SECTION.search(inspect.cleandoc(documented.__doc__ or "") + "\n")
    texts = _ENTRY.findall("" if section is None else section[1])
    sentences = {
        name: re.split(r"(?<=\.)\s", text.replace("``", ""))[0].split() for name, text in texts
    }
    return {
        name: " ".join([words[0][0].upper() + words[0][1:], *words[1:]])
        for name, words in sentences.items()
    }
