"""Secrets are found, hashed and never shown; `${ENV}` is expanded once."""

import hashlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from appliance.manifest.secret import MAX_SECRET_BYTES, KeySecret, expand, resolve_digest

DIGEST = hashlib.sha256(b"hunter2")


def test_digest_of_a_variable() -> None:
    digest = resolve_digest(KeySecret(env="KEY"), Path("/"), {"KEY": "hunter2\n"})

    assert digest == DIGEST.digest()


@pytest.mark.parametrize("ending", ["", "\n", "\r\n", "\n\n"])
def test_digest_of_a_file_ignores_its_line_end(tmp_path: Path, ending: str) -> None:
    (tmp_path / "key").write_bytes(b"hunter2" + ending.encode())

    assert resolve_digest(KeySecret(file="key"), tmp_path, {}) == DIGEST.digest()
    assert resolve_digest(KeySecret(file=str(tmp_path / "key")), Path("/"), {}) == DIGEST.digest()


def test_digest_in_hex_is_itself() -> None:
    secret = KeySecret(sha256=DIGEST.hexdigest().upper())

    assert resolve_digest(secret, Path("/"), {}) == DIGEST.digest()


@pytest.mark.parametrize(
    ("secret", "reason"),
    [
        (KeySecret(env="NONE"), "the environment variable is not set"),
        (KeySecret(env="BLANK"), "the environment variable is not set"),
        (KeySecret(file="none"), "the file does not exist"),
        (KeySecret(file="."), "the file does not exist"),
        (KeySecret(file="a\0b"), "the file does not exist"),
        (KeySecret(file="empty"), "the file is empty"),
        (KeySecret(file="big"), "the file is too large for a key"),
    ],
)
def test_digest_that_cannot_be_had_is_a_value_error(
    tmp_path: Path, secret: KeySecret, reason: str
) -> None:
    (tmp_path / "empty").write_bytes(b"\n")
    (tmp_path / "big").write_bytes(b"x" * (MAX_SECRET_BYTES + 1))

    with pytest.raises(ValueError, match=f"^{reason}$"):
        resolve_digest(secret, tmp_path, {"BLANK": ""})


@pytest.mark.parametrize(
    "value",
    ["hunter2", {}, {"sha256": "hunter2"}, {"hunter2": None}, {"env": "hunter2", "file": "x"}],
)
def test_secret_in_a_wrong_place_is_refused_and_not_repeated(value: object) -> None:
    with pytest.raises(ValidationError) as caught:
        KeySecret.model_validate(value)

    assert "hunter2" not in str(caught.value)


def test_secret_never_shows_its_digest() -> None:
    secret = KeySecret(sha256=DIGEST.hexdigest())

    assert DIGEST.hexdigest()[:8] not in f"{secret} {secret!r} {[secret]}"


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("plain $ text {}", "plain $ text {}"),
        ("${A}/${A}", "one/one"),
        ("${A:-x}${NONE:-y}${BLANK:-z}${NONE:-}", "oneyz"),
        ("$${A} $$ $$$$", "${A} $ $$"),
        ("$$${A}", "$one"),
        ("[${BLANK}]", "[]"),
        ("${NESTED}", "${A}"),
    ],
)
def test_expand_replaces_variables(text: str, expanded: str) -> None:
    environ = {"A": "one", "BLANK": "", "NESTED": "${A}"}

    assert expand(text, environ) == expanded


@pytest.mark.parametrize("text", ["${", "${}", "${1}", "${A", "${A-x}", "${a b}", "x${NONE}"])
def test_expand_refuses_what_is_no_variable(text: str) -> None:
    with pytest.raises(ValueError, match=r"variable NONE is not set|should open"):
        expand(text, {"A": "hunter2"})


@given(st.text())
def test_expand_leaves_escaped_text_as_it_is(text: str) -> None:
    assert expand(text.replace("$", "$$"), {}) == text


@given(st.text(alphabet="${}:-AB x"))
def test_expand_errors_never_hold_a_value(text: str) -> None:
    try:
        expand(text, {"A": "hunter2"})
    except ValueError as error:
        assert "hunter2" not in str(error)
