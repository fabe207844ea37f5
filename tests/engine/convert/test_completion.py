"""Check that a folder gets the tokenizer.json it lacks, or is refused with the reason."""

import json
from pathlib import Path

import pytest
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer
from tokenizers import Tokenizer

from appliance.engine.convert.completion import ensure_tokenizer
from appliance.errors import SourceError
from tests.chat.tiny import write_byte_pair_model

# transformers is slow to import.
pytestmark = pytest.mark.slow

TEXTS = ("the quick brown fox", "two  spaces ", "caf\u00e9 \U0001f999", "jumps over it\nagain")


def model_folder(path: Path) -> Path:
    words = path / "words.txt"
    words.write_text("the quick brown fox jumps over the lazy dog again and again\n" * 50)
    SentencePieceTrainer.train(
        input=str(words),
        model_prefix=str(path / "tokenizer"),
        vocab_size=320,
        model_type="bpe",
        byte_fallback=True,
        hard_vocab_limit=False,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        minloglevel=2,
    )
    (path / "config.json").write_text(json.dumps({"model_type": "llama"}))
    (path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "LlamaTokenizer"}))
    return path


def test_completion_makes_a_tokenizer_from_sentence_piece(tmp_path: Path) -> None:
    folder = model_folder(tmp_path)
    reference = SentencePieceProcessor(model_file=str(folder / "tokenizer.model"))

    ensure_tokenizer(folder)

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    ids = [tokenizer.encode(text, add_special_tokens=False).ids for text in TEXTS]
    assert ids == [reference.encode(text) for text in TEXTS]
    assert not list(folder.glob("*.partial"))


def test_completion_adds_no_space_before_a_space_as_transformers_does(tmp_path: Path) -> None:
    folder = model_folder(tmp_path)
    reference = SentencePieceProcessor(model_file=str(folder / "tokenizer.model"))

    ensure_tokenizer(folder)

    ids = Tokenizer.from_file(str(folder / "tokenizer.json")).encode(
        " the", add_special_tokens=False
    )
    assert ids.ids == reference.encode("the")
    assert reference.encode(" the") == [reference.piece_to_id("\u2581"), *ids.ids]


def test_completion_makes_a_tokenizer_from_vocabulary_and_merges(tmp_path: Path) -> None:
    folder = write_byte_pair_model(tmp_path)
    ids = json.loads((folder / "vocab.json").read_text())

    ensure_tokenizer(folder)

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    assert tokenizer.encode("the").ids == [ids["th"], ids["e"]]


def test_completion_runs_no_code_of_the_folder(tmp_path: Path) -> None:
    folder = write_byte_pair_model(tmp_path / "model")
    own = {"tokenizer_class": "Own", "auto_map": {"AutoTokenizer": ["own.Own", None]}}
    (folder / "tokenizer_config.json").write_text(json.dumps(own))
    (folder / "config.json").write_text(json.dumps({"model_type": "own", **own}))
    (folder / "own.py").write_text(f"open({str(tmp_path / 'was run')!r}, 'w')\nclass Own: ...\n")

    with pytest.raises(SourceError, match="cannot be used"):
        ensure_tokenizer(folder)

    assert not (tmp_path / "was run").exists()


@pytest.mark.parametrize("vocabulary", ["{", "[]", '{"a": "b"}'])
def test_completion_refuses_a_broken_vocabulary(tmp_path: Path, vocabulary: str) -> None:
    folder = write_byte_pair_model(tmp_path)
    (folder / "vocab.json").write_text(vocabulary)

    with pytest.raises(SourceError, match=r"vocab\.json and merges\.txt cannot be used"):
        ensure_tokenizer(folder)


def test_completion_refuses_a_tokenizer_that_has_no_fast_form(tmp_path: Path) -> None:
    folder = write_byte_pair_model(tmp_path)
    (folder / "merges.txt").write_text("#version: 0.2\nt h</w>\n")
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "CTRLTokenizer"}')
    (folder / "config.json").write_text('{"model_type": "ctrl"}')

    with pytest.raises(SourceError, match=r"CTRLTokenizer makes no tokenizer\.json"):
        ensure_tokenizer(folder)


def test_completion_leaves_a_tokenizer_alone(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("theirs")

    ensure_tokenizer(tmp_path)

    assert (tmp_path / "tokenizer.json").read_text() == "theirs"


def test_completion_refuses_a_folder_without_any_tokenizer(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"no tokenizer\.model or vocab\.json with merges\.txt"):
        ensure_tokenizer(tmp_path)


def test_completion_refuses_a_broken_sentence_piece_file(tmp_path: Path) -> None:
    folder = model_folder(tmp_path)
    (folder / "tokenizer.model").write_bytes(b"\x0a\xffnonsense")

    with pytest.raises(SourceError, match=r"tokenizer\.model cannot be used"):
        ensure_tokenizer(folder)

    assert not (folder / "tokenizer.json").exists()
