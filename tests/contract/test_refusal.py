"""What no model but a scripted one honours yet is refused by its name, never ignored."""

from typing import Any

import httpx
import pytest

from appliance.api.openai.refusal import refused_fields
from tests.contract.refusal import CASES, CHAT, KINDS, LIST, MESSAGES, TEXT, list_text, post

NOT_YET = "guided_whitespace_pattern"
GUIDED = [path for path, kind in KINDS.items() if NOT_YET in refused_fields(kind)]


@pytest.mark.parametrize(("path", "param", "fields"), CASES)
def test_field_not_honoured_is_400_and_named(
    http: httpx.Client, path: str, param: str, fields: dict[str, Any]
) -> None:
    response = post(http, path, **fields)

    error = response.json()["error"]
    assert response.status_code == 400, response.text
    assert error["type"] == "invalid_request_error"
    assert param in error["message"]
    assert path == MESSAGES or error["param"] == param


@pytest.mark.parametrize("path", GUIDED)
def test_refusal_of_a_stream_has_its_own_status(http: httpx.Client, path: str) -> None:
    response = post(http, path, stream=True, guided_whitespace_pattern=" ")

    assert response.status_code == 400
    assert response.json()["error"]["param"] == NOT_YET


@pytest.mark.parametrize("path", KINDS)
def test_neutral_values_are_not_refused(http: httpx.Client, path: str) -> None:
    refused = refused_fields(KINDS[path])
    neutral = {name: values[-1] if values else None for name, values in refused.items()}

    response = post(http, path, **neutral)

    assert response.status_code == 503, response.text


@pytest.mark.parametrize("path", [CHAT, TEXT])
def test_scripted_model_accepts_what_others_do_not_honour_yet(
    http: httpx.Client, path: str
) -> None:
    odd = {name: {"odd": 1} for name in refused_fields(KINDS[path])}

    response = post(http, path, model="chat", **odd)

    assert response.status_code == 200, response.text


@pytest.mark.slow
def test_list_of_refused_parameters_is_fresh() -> None:
    assert list_text() == LIST.read_text(encoding="utf-8"), "run python -m tests.contract.refusal"
