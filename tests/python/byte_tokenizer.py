"""A small byte-level tokenizer: one token a byte, a few merges, and two special tokens."""

import json

import shardmill as sm

PRINTABLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
END, START = "<|end|>", "<|start|>"

#: Renders each message between special tokens; what an assistant wrote is marked.
TEMPLATE = """{%- for message in messages %}
    {{- '<|start|>' + message.role + '\\n' }}
    {%- if message.role == 'assistant' %}
        {%- generation %}{{- message.content + '<|end|>' }}{%- endgeneration %}
    {%- else %}
        {{- message.content + '<|end|>' }}
    {%- endif %}
    {{- '\\n' }}
{%- endfor %}"""


def spelled(data):
    """Bytes as the characters that byte-level models write for them."""
    others = [byte for byte in range(256) if byte not in PRINTABLE]
    return "".join(chr(byte if byte in PRINTABLE else 0x100 + others.index(byte)) for byte in data)


def write_tokenizer(directory, *, merges=(), template=None, special=()):
    """Write it to a directory; ``merges`` are pairs of bytes. The id of a byte is the byte.

    ``special`` are further special tokens.
    """
    vocabulary = {spelled([byte]): byte for byte in range(256)}
    for left, right in merges:
        vocabulary[spelled(left + right)] = len(vocabulary)
    flags = dict.fromkeys(["single_word", "lstrip", "rstrip", "normalized"], False)
    added = [
        {"id": len(vocabulary) + at, "content": token, "special": True} | flags
        for at, token in enumerate([END, START, *special])
    ]
    level = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": True,
    }
    spelled_merges = [f"{spelled(left)} {spelled(right)}" for left, right in merges]
    document = {
        "version": "1.0",
        "added_tokens": added,
        "pre_tokenizer": level,
        "decoder": level,
        "model": {"type": "BPE", "vocab": vocabulary, "merges": spelled_merges},
    }
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "tokenizer.json").write_text(json.dumps(document))
    configuration = {"eos_token": END} | ({} if template is None else {"chat_template": template})
    (directory / "tokenizer_config.json").write_text(json.dumps(configuration))
    return sm.Tokenizer(directory)
