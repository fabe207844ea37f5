import functools
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import decoders, models, normalizers

from appliance.chat.tokenizer import Tokenizer
from tests.chat.tiny import write_model
from tests.packages import smollm2_directory

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
HARD = st.text(st.sampled_from(" \n\taé中文字符😀🏳️‍🌈ഇﷺ\U00013000\u0b95\u0bcd"))


@functools.cache
def byte_tokenizer() -> Tokenizer:
    with tempfile.TemporaryDirectory() as folder:
        return Tokenizer.load(write_model(Path(folder)))


@functools.cache
def sentence_piece_tokenizer(*special: str) -> Tokenizer:
    """Return one of Llama's kind: words with a leading ▁, and bytes for all else."""
    words = [
        "<unk>",
        "▁",
        "▁the",
        "▁a",
        "a",
        "é",
        "中",
        "▁▁",
        *(f"<0x{n:02X}>" for n in range(256)),
    ]
    vocabulary = {word: number for number, word in enumerate(words)}
    model = models.BPE(vocab=vocabulary, merges=[], byte_fallback=True, unk_token="<unk>")
    backend = tokenizers.Tokenizer(model)
    backend.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    backend.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    backend.add_special_tokens(list(special))
    return Tokenizer(backend, {}, frozenset())


def pieces(tokenizer: Tokenizer, ids: list[int], cuts: list[int]) -> list[str]:
    """Return what a decoder yields for `ids` pushed in runs of the lengths in `cuts`."""
    decoder, texts, rest = tokenizer.decoder(), [], ids
    for length in cuts:
        texts.append(decoder.push(rest[:length]))
        rest = rest[length:]
    return [*texts, decoder.push(rest), decoder.flush()]


@settings(deadline=None)
@given(st.lists(st.integers(0, 300), max_size=80), st.lists(st.integers(0, 9)))
def test_pieces_of_any_ids_are_the_whole_text(ids: list[int], cuts: list[int]) -> None:
    tokenizer = byte_tokenizer()

    assert "".join(pieces(tokenizer, ids, cuts)) == tokenizer.decode(ids)


@settings(deadline=None)
@given(st.lists(st.sampled_from([65, 195, 169, 256, 257])))
def test_special_tokens_of_shown_marks_stand_in_the_text(ids: list[int]) -> None:
    tokenizer = byte_tokenizer()
    decoder = tokenizer.decoder(["<|im_start|>assistant"])
    expected, start = "", 0
    for index, number in enumerate(ids):
        if number == 256:
            expected += tokenizer.decode(ids[start:index]) + "<|im_start|>"
            start = index + 1
    expected += tokenizer.decode(ids[start:])

    positions = []
    texts = []
    for number in ids:
        positions.append(decoder.position)
        texts.append(decoder.push([number]))

    assert "".join(texts) + decoder.flush() == expected
    assert positions == sorted(positions)
    assert all(
        expected.startswith("<|im_start|>", position)
        for number, position in zip(ids, positions, strict=True)
        if number == 256 and REPLACEMENT not in expected
    )


def test_special_token_is_shown_as_it_is_written() -> None:
    """Decoders of the sentence piece kind would make a space of its letter."""
    tokenizer = sentence_piece_tokenizer("<call▁begin>")
    mark = tokenizer.added_tokens["<call▁begin>"]
    ids = [*tokenizer.encode("the"), mark, *tokenizer.encode("a")]

    text = tokenizer.decoder(["<call▁begin>"]).push(ids)

    assert text == "the<call▁begin> a"


@settings(deadline=None)
@given(HARD, st.lists(st.integers(0, 9)))
def test_pieces_never_hold_half_a_character(text: str, cuts: list[int]) -> None:
    tokenizer = byte_tokenizer()

    texts = pieces(tokenizer, tokenizer.encode(text), cuts)

    assert "".join(texts) == text
    assert not any(REPLACEMENT in piece for piece in texts)


@settings(deadline=None)
@given(HARD, st.lists(st.integers(0, 9)))
def test_pieces_of_byte_fallback_text_are_the_whole_text(text: str, cuts: list[int]) -> None:
    tokenizer = sentence_piece_tokenizer()
    ids = tokenizer.encode(text)

    texts = pieces(tokenizer, ids, cuts)

    assert "".join(texts) == tokenizer.decode(ids)
    assert not any(REPLACEMENT in piece for piece in texts)


@settings(deadline=None)
@given(st.lists(st.integers(0, 270), max_size=60))
def test_valid_text_survives_broken_bytes_after_it(ids: list[int]) -> None:
    tokenizer = sentence_piece_tokenizer()
    good = tokenizer.encode("the 中 é 😀")

    text = "".join(pieces(tokenizer, good + ids, []))

    assert text.startswith("the 中 é 😀")


@pytest.mark.parametrize("tokenizer", [byte_tokenizer, sentence_piece_tokenizer])
def test_endless_broken_bytes_are_not_held_back(tokenizer: Callable[[], Tokenizer]) -> None:
    loaded = tokenizer()
    broken = [n for n in range(270) if loaded.decode([n]) == REPLACEMENT][:1]
    decoder = loaded.decoder()

    held = 1000 - len(decoder.push(broken * 1000))

    assert 0 <= held <= 17
    assert decoder.flush() == REPLACEMENT * held


def test_flush_tells_what_is_incomplete_and_starts_afresh() -> None:
    tokenizer = byte_tokenizer()
    ids = tokenizer.encode("é")
    decoder = tokenizer.decoder()

    assert decoder.push(ids[:1]) == ""
    assert decoder.flush() == REPLACEMENT
    assert decoder.flush() == ""
    assert decoder.push(ids) == "é"


@pytest.mark.registry
@settings(deadline=None)
@given(st.lists(st.integers(0, 49151), max_size=60), st.lists(st.integers(0, 9)))
def test_pieces_of_real_ids_are_the_whole_text(ids: list[int], cuts: list[int]) -> None:
    tokenizer = smollm2()

    assert "".join(pieces(tokenizer, ids, cuts)) == tokenizer.decode(ids)


@functools.cache
def smollm2() -> Tokenizer:
    return Tokenizer.load(smollm2_directory())
