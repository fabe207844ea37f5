import base64
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.chat.seal import MAX_THOUGHT_BYTES, seal, unseal


@given(st.text())
def test_unseal_gives_back_what_was_sealed(thought: str) -> None:
    sealed = seal(thought)

    assert sealed
    assert sealed.isascii()
    assert unseal(sealed) == thought


@given(st.text() | st.binary().map(lambda raw: base64.urlsafe_b64encode(raw).decode()))
def test_unseal_refuses_what_is_not_its_own(text: str) -> None:
    thought = unseal(text)

    assert thought is None or unseal(seal(thought)) == thought


@pytest.mark.parametrize(
    "packed",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"1", id="only the mark"),
        pytest.param(zlib.compress(b"thought"), id="no mark"),
        pytest.param(b"1" + zlib.compress(b"thought")[:-2], id="cut short"),
        pytest.param(b"1" + zlib.compress(b"thought") + b"more", id="something after it"),
        pytest.param(b"1" + zlib.compress(b"\xff\xfe"), id="no text"),
        pytest.param(b"1" + zlib.compress(b"a" * (MAX_THOUGHT_BYTES + 1)), id="too long"),
    ],
)
def test_unseal_is_none_for_a_bad_packet(packed: bytes) -> None:
    assert unseal(base64.urlsafe_b64encode(packed).decode()) is None


def test_unseal_accepts_the_longest_thought() -> None:
    thought = "a" * MAX_THOUGHT_BYTES

    assert unseal(seal(thought)) == thought
