"""What single tokens stand for: their bytes, one after the other, are the text."""

import functools
from pathlib import Path

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import decoders, models, pre_tokenizers

from appliance.chat.tokenizer import Tokenizer
from tests.chat.conversation import HARD_TEXTS
from tests.chat.test_text_decoder import HARD, byte_tokenizer, sentence_piece_tokenizer
from tests.chat.tiny import write_byte_pair_model
from tests.packages import smollm2_directory


def joined(tokenizer: Tokenizer, ids: list[int]) -> bytes:
    return b"".join(tokenizer.token_bytes(number) for number in ids)


def tokenizer_of(pieces: list[str], decoder: decoders.Decoder | None) -> Tokenizer:
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    backend = tokenizers.Tokenizer(models.WordLevel(vocabulary, unk_token=pieces[0]))
    if decoder is not None:
        backend.decoder = decoder
    return Tokenizer(backend, {}, frozenset())


@settings(deadline=None)
@given(HARD)
def test_bytes_of_byte_level_tokens_are_the_text(text: str) -> None:
    tokenizer = byte_tokenizer()

    assert joined(tokenizer, tokenizer.encode(text)) == text.encode()


@settings(deadline=None)
@given(HARD)
def test_bytes_of_byte_fallback_tokens_are_the_text_behind_a_space(text: str) -> None:
    tokenizer = sentence_piece_tokenizer()
    ids = tokenizer.encode(text)

    assert joined(tokenizer, ids).removeprefix(b" ") == tokenizer.decode(ids).encode()


def test_every_byte_has_a_token_of_its_own() -> None:
    for tokenizer in (byte_tokenizer(), sentence_piece_tokenizer()):
        single = [tokenizer.token_bytes(number) for number in range(270)]

        assert {bytes([value]) for value in range(256)} <= set(single)


def test_byte_letters_are_those_of_the_library() -> None:
    text = "".join(map(chr, range(0x2100))) + "\U0010ffff"
    words = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False).pre_tokenize_str(text)
    letters = "".join(word for word, _ in words)
    tokenizer = tokenizer_of(["x", *dict.fromkeys(letters)], decoders.ByteLevel())

    assert joined(tokenizer, [tokenizer.encode(letter)[0] for letter in letters]) == text.encode()


@pytest.mark.parametrize(
    ("decoder", "piece", "expected"),
    [
        pytest.param(decoders.WordPiece(), "##ing", b"ing", id="inside a word"),
        pytest.param(decoders.WordPiece(), "sing", b" sing", id="a word"),
        pytest.param(decoders.Metaspace(), "▁sing", b" sing", id="metaspace"),
        pytest.param(decoders.Metaspace(), "<0x41>", b"<0x41>", id="no byte fallback"),
        pytest.param(decoders.ByteFallback(), "<0xE4>", b"\xe4", id="byte fallback"),
        pytest.param(decoders.ByteFallback(), "<0xe4>", b"\xe4", id="byte in small letters"),
        pytest.param(decoders.ByteLevel(), "Ġé中", "Ġé中".encode(), id="added to byte level"),
        pytest.param(decoders.Fuse(), "Ġx", "Ġx".encode(), id="plain"),
        pytest.param(None, "sing", b" sing", id="no decoder"),
    ],
)
def test_token_stands_for_what_its_decoder_makes_of_it(
    decoder: decoders.Decoder | None, piece: str, expected: bytes
) -> None:
    assert tokenizer_of(["[UNK]", piece], decoder).token_bytes(1) == expected


def test_special_token_stands_for_its_name_and_unknown_id_for_nothing() -> None:
    tokenizer = byte_tokenizer()

    assert tokenizer.token_bytes(257) == b"<|im_end|>"
    assert tokenizer.decode([257]) == ""
    assert tokenizer.token_bytes(10**6) == b""


def test_merged_tokens_stand_for_several_letters(tmp_path: Path) -> None:
    folder = write_byte_pair_model(tmp_path)
    backend = tokenizers.Tokenizer(
        models.BPE.from_file(str(folder / "vocab.json"), str(folder / "merges.txt"))
    )
    backend.decoder = decoders.ByteLevel()

    assert Tokenizer(backend, {}, frozenset()).token_bytes(256) == b"th"


@functools.cache
def smollm2_tokenizer() -> Tokenizer:
    return Tokenizer.load(smollm2_directory())


@pytest.mark.registry
@pytest.mark.parametrize("text", HARD_TEXTS)
def test_bytes_of_real_tokens_are_the_text(text: str) -> None:
    tokenizer = smollm2_tokenizer()

    ids = tokenizer.encode(text)

    assert joined(tokenizer, ids) == text.encode()


@pytest.mark.registry
@settings(deadline=None)
@given(st.lists(st.integers(17, 49151), max_size=40))
def test_bytes_of_real_ids_decode_to_their_text(ids: list[int]) -> None:
    tokenizer = smollm2_tokenizer()

    assert joined(tokenizer, ids).decode(errors="replace") == tokenizer.decode(ids)
