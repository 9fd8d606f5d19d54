"""Small tokenizers of each kind, trained on the documentation."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from breadth import IS_WHOLE, examples, sample

ROOT = Path(__file__).parents[2]
PATHS = sorted(ROOT.glob("docs/**/*.md")) + sorted(ROOT.glob("crates/plan/**/*.rs"))
DOCUMENTS = [path.read_text() for path in sample(PATHS, 6)]


def trained(kind: str, path: Path) -> Path:
    """A small tokenizer of the given kind."""
    path.write_text(_trained(kind))
    return path


#: Of a vocabulary that a package ships. Ours and the original take seconds to read 200,000 tokens.
VOCABULARY_SIZE = examples(1_000_000, 20_000)


def tekken(directory: Path) -> Path:
    """A tokenizer of Mistral as mistral_common ships it, or with the start of its vocabulary."""
    import mistral_common

    shipped = Path(mistral_common.__file__).parent / "data/tekken_240911.json"
    if IS_WHOLE:
        return shipped
    document = json.loads(shipped.read_text())
    size = document["config"]["default_num_special_tokens"] + VOCABULARY_SIZE
    document["config"]["default_vocab_size"] = size
    document["vocab"] = document["vocab"][:VOCABULARY_SIZE]
    path = directory / shipped.name
    path.write_text(json.dumps(document))
    return path


@cache
def _trained(kind: str) -> str:
    import tokenizers
    from tokenizers import models, normalizers, pre_tokenizers, trainers

    alphabet = pre_tokenizers.ByteLevel.alphabet()
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    match kind:
        case "byte-level":
            made = tokenizers.Tokenizer(models.BPE())
            made.pre_tokenizer = byte_level
            trainer = trainers.BpeTrainer(
                vocab_size=3000, special_tokens=["<|endoftext|>"], initial_alphabet=alphabet
            )
        case "pattern":
            made = tokenizers.Tokenizer(models.BPE())
            pattern = tokenizers.Regex(r"\d{1,2}|\w+|[^\w\s]+|\s+")
            split = pre_tokenizers.Split(pattern, "isolated")
            made.pre_tokenizer = pre_tokenizers.Sequence(
                [split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
            )
            made.normalizer = normalizers.NFC()
            trainer = trainers.BpeTrainer(
                vocab_size=3000, special_tokens=["<s>"], initial_alphabet=alphabet
            )
        case "unigram":
            made = tokenizers.Tokenizer(models.Unigram())
            made.pre_tokenizer = pre_tokenizers.Metaspace()
            made.normalizer = normalizers.Sequence(
                [normalizers.NFKC(), normalizers.Replace(tokenizers.Regex(" {2,}"), " ")]
            )
            trainer = trainers.UnigramTrainer(
                vocab_size=2000, special_tokens=["<unk>"], unk_token="<unk>"
            )
        case "wordpiece":
            made = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
            made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
            made.normalizer = normalizers.BertNormalizer()
            trainer = trainers.WordPieceTrainer(vocab_size=2000, special_tokens=["[UNK]", "[CLS]"])
        case _:
            made = tokenizers.Tokenizer(models.WordLevel(unk_token="[UNK]"))
            made.pre_tokenizer = pre_tokenizers.Whitespace()
            trainer = trainers.WordLevelTrainer(vocab_size=2000, special_tokens=["[UNK]"])
    made.train_from_iterator(DOCUMENTS, trainer)
    return made.to_str(pretty=True)
