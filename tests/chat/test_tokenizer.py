import json
from pathlib import Path

import pytest
import tokenizers

from appliance.chat.tokenizer import Tokenizer
from appliance.errors import InvalidRequest, SourceError
from tests.chat.tiny import write_model

IM_START, IM_END = 256, 257


def test_tokenizer_decodes_what_it_encoded_without_special_tokens(tmp_path: Path) -> None:
    tokenizer = Tokenizer.load(write_model(tmp_path))

    ids = tokenizer.encode("<|im_start|>né 😀<|im_end|>")

    assert (ids[0], ids[-1]) == (IM_START, IM_END)
    assert tokenizer.decode(ids) == "né 😀"


def test_tokenizer_ignores_truncation_and_padding_of_the_file(tmp_path: Path) -> None:
    write_model(tmp_path)
    backend = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    backend.enable_truncation(4)
    backend.enable_padding(length=64)
    backend.save(str(tmp_path / "tokenizer.json"))

    tokenizer = Tokenizer.load(tmp_path)

    assert len(tokenizer.encode("123456789")) == 9


def test_special_tokens_are_text_however_the_file_has_them(tmp_path: Path) -> None:
    write_model(
        tmp_path,
        bos_token={"__type": "AddedToken", "content": "<|im_start|>", "lstrip": False},
        pad_token=None,
        add_bos_token=True,
        extra_special_tokens={"image_token": "<image>"},
    )

    tokenizer = Tokenizer.load(tmp_path)

    assert tokenizer.special_tokens == {
        "bos_token": "<|im_start|>",
        "eos_token": "<|im_end|>",
        "image_token": "<image>",
    }
    assert len(tokenizer.encode("<image>")) == 1


def test_special_tokens_map_is_read_beside_a_config_without_added_tokens(tmp_path: Path) -> None:
    write_model(tmp_path)
    (tmp_path / "special_tokens_map.json").write_text('{"bos_token": {"content": "<|im_start|>"}}')
    (tmp_path / "added_tokens.json").write_text('{"<think>": 258}')

    tokenizer = Tokenizer.load(tmp_path)

    assert tokenizer.special_tokens["bos_token"] == "<|im_start|>"
    assert tokenizer.encode("<think>") == [258]
    assert tokenizer.decode([258]) == "<think>"


def test_added_tokens_of_the_config_are_never_split(tmp_path: Path) -> None:
    entry = {"content": "<tool>", "special": True, "lstrip": False, "normalized": False}
    write_model(tmp_path, added_tokens_decoder={"258": entry})

    tokenizer = Tokenizer.load(tmp_path)

    assert tokenizer.encode("a<tool>b")[1:-1] == [258]
    assert tokenizer.decode([258]) == ""


def test_eos_ids_come_from_every_file_that_names_one(tmp_path: Path) -> None:
    write_model(tmp_path)
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [1, 2]}')
    config = {"eos_token_id": 3, "text_config": {"eos_token_id": 4}}
    (tmp_path / "config.json").write_text(json.dumps(config))

    tokenizer = Tokenizer.load(tmp_path)

    assert tokenizer.eos_token_ids == {1, 2, 3, 4, IM_END}


def test_text_that_is_not_unicode_is_refused(tmp_path: Path) -> None:
    tokenizer = Tokenizer.load(write_model(tmp_path))

    with pytest.raises(InvalidRequest, match="Unicode"):
        tokenizer.encode("half \ud83d")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        pytest.param("tokenizer.json", None, id="no tokenizer"),
        pytest.param("tokenizer.json", "{", id="half a tokenizer"),
        pytest.param("tokenizer.json", "{}", id="empty tokenizer"),
        pytest.param("tokenizer_config.json", "[]", id="config is a list"),
        pytest.param("tokenizer_config.json", "nope", id="config is no JSON"),
        pytest.param("tokenizer_config.json", '{"added_tokens_decoder": {"a": 1}}', id="tokens"),
        pytest.param("config.json", "{", id="half a config"),
    ],
)
def test_broken_file_is_named(tmp_path: Path, name: str, text: str | None) -> None:
    write_model(tmp_path)
    (tmp_path / name).unlink(missing_ok=True)
    if text is not None:
        (tmp_path / name).write_text(text)

    with pytest.raises(SourceError, match=name):
        Tokenizer.load(tmp_path)


def test_lower_bounds_grow_towards_the_length_and_never_pass_it(tmp_path: Path) -> None:
    tokenizer = Tokenizer.load(write_model(tmp_path))
    text = "<|im_start|>né 😀" * 20_000

    bounds = list(tokenizer.lower_bounds(text))

    assert bounds == sorted(bounds)
    assert len(bounds) > 3
    assert 0.9 < bounds[-1] / len(tokenizer.encode(text)) <= 1


def test_first_lower_bound_takes_every_token_for_the_longest(tmp_path: Path) -> None:
    tokenizer = Tokenizer.load(write_model(tmp_path))

    bounds = tokenizer.lower_bounds("<|im_start|>" * 7 + "a")

    assert next(bounds) == 8
