"""Small tokenizers of each kind, trained on the documentation."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCUMENTS = [path.read_text() for path in sorted(ROOT.glob("docs/**/*.md")) + sorted(ROOT.glob("crates/plan/**/*.rs"))]


def trained(kind: str, path: Path) -> Path:
    """A small tokenizer of the given kind."""
    import tokenizers
    from tokenizers import models, normalizers, pre_tokenizers, trainers

    alphabet = pre_tokenizers.ByteLevel.alphabet()
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    match kind:
        case "byte-level":
            made = tokenizers.Tokenizer(models.BPE())
            made.pre_tokenizer = byte_level
            trainer = trainers.BpeTrainer(vocab_size=3000, special_tokens=["<|endoftext|>"], initial_alphabet=alphabet)
        case "pattern":
            made = tokenizers.Tokenizer(models.BPE())
            pattern = tokenizers.Regex(r"\d{1,2}|\w+|[^\w\s]+|\s+")
            split = pre_tokenizers.Split(pattern, "isolated")
            made.pre_tokenizer = pre_tokenizers.Sequence(
                [split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
            )
            made.normalizer = normalizers.NFC()
            trainer = trainers.BpeTrainer(vocab_size=3000, special_tokens=["<s>"], initial_alphabet=alphabet)
        case "unigram":
            made = tokenizers.Tokenizer(models.Unigram())
            made.pre_tokenizer = pre_tokenizers.Metaspace()
            made.normalizer = normalizers.Sequence(
                [normalizers.NFKC(), normalizers.Replace(tokenizers.Regex(" {2,}"), " ")]
            )
            trainer = trainers.UnigramTrainer(vocab_size=2000, special_tokens=["<unk>"], unk_token="<unk>")
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
    made.save(str(path))
    return path
