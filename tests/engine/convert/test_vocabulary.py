"""Check that converted tokenizers give the ids that the vocabularies' own authors recorded."""

from functools import cache
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from appliance.engine.convert.container import open_container
from appliance.engine.convert.pretokenizer import PRE_TOKENIZERS
from appliance.engine.convert.tokenizer import build_tokenizer
from appliance.engine.convert.vocabulary import read_vocabulary
from appliance.errors import SourceError
from tests.engine.convert.tiny_gguf import TinyLlama
from tests.packages import sdist_models_folder

RECORDED = (
    "bert-bge",
    "command-r",
    "deepseek-coder",
    "deepseek-llm",
    "falcon",
    "gemma-4",
    "gpt-2",
    "llama-bpe",
    "llama-spm",
    "mpt",
    "phi-3",
    "qwen2",
    "qwen35",
    "refact",
    "starcoder",
)
UNRECORDED = ("aquila", "baichuan", "gpt-neox")
UNSUPPORTED = {"nomic-bert-moe": "its tokenizer 't5' is not supported"}
SEPARATOR = "\n__ggml_vocab_test__\n"
HARD = (
    "The  quick\tbrown\r\n\r\nfox",
    "我想在apple工作1314151天~ ありがとう 한국어",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467 \u2705 3 33 333 3333333",
    "fn main() { println!(\"{}\", x'y); }   // I'll, YOU'RE",
)


@cache
def folder() -> Path:
    return sdist_models_folder()


def vocabulary_file(name: str) -> Path:
    return folder() / f"ggml-vocab-{name}.gguf"


def converted(path: Path) -> Tokenizer:
    metadata = open_container(path).metadata
    built = build_tokenizer(metadata, read_vocabulary(metadata))
    return Tokenizer.from_str(built.to_str())


@pytest.mark.registry
@pytest.mark.parametrize("name", RECORDED)
def test_tokenizer_gives_recorded_ids(name: str) -> None:
    path = vocabulary_file(name)
    texts = path.with_name(path.name + ".inp").read_bytes().decode().split(SEPARATOR)
    lines = path.with_name(path.name + ".out").read_text().split("\n")
    expected = [[int(number) for number in line.split()] for line in lines]

    tokenizer = converted(path)
    ids = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]

    assert len(texts) > 40
    assert ids == expected[: len(texts)]
    assert expected[len(texts) :] in ([], [[]])


@pytest.mark.registry
def test_tokenizer_is_checked_for_every_vocabulary_of_the_archive() -> None:
    found = {path.stem.removeprefix("ggml-vocab-") for path in folder().glob("*.gguf")}
    recorded = {path.name.split(".")[0] for path in folder().glob("*.gguf.inp")}

    assert found == {*RECORDED, *UNRECORDED, *UNSUPPORTED}
    assert recorded == {f"ggml-vocab-{name}" for name in RECORDED}


@pytest.mark.registry
@pytest.mark.parametrize("name", UNRECORDED)
def test_tokenizer_gives_back_hard_texts_where_no_ids_are_recorded(name: str) -> None:
    tokenizer = converted(vocabulary_file(name))

    back = [tokenizer.decode(tokenizer.encode(text).ids) for text in HARD]

    assert back == list(HARD)


@pytest.mark.registry
@pytest.mark.parametrize(("name", "reason"), UNSUPPORTED.items())
def test_tokenizer_refuses_what_it_cannot_express(name: str, reason: str) -> None:
    with pytest.raises(SourceError, match=reason):
        converted(vocabulary_file(name))


@pytest.mark.parametrize("name", PRE_TOKENIZERS)
def test_pre_tokenizer_loses_no_text(name: str, tmp_path: Path) -> None:
    if not PRE_TOKENIZERS[name].byte_level:
        name = "default"
    path = TinyLlama(keys={"tokenizer.ggml.pre": name}).write(tmp_path / "tiny.gguf")
    tokenizer = converted(path)

    back = [tokenizer.decode(tokenizer.encode(text).ids) for text in HARD]

    assert back == list(HARD)


def test_pre_tokenizer_that_is_unknown_is_named(tmp_path: Path) -> None:
    path = TinyLlama(keys={"tokenizer.ggml.pre": "martian"}).write(tmp_path / "tiny.gguf")

    with pytest.raises(SourceError, match="pre-tokenizer 'martian' is not known"):
        converted(path)
