"""A key's wishes count where its request has none; which of two counts is never in doubt."""

import pytest

from appliance.chat.request import ChatRequest, Thinking
from appliance.pipeline.sender import Sender

USUAL = Thinking(is_enabled=False, effort="low", is_firm=False, budget=64)


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        pytest.param(Thinking(), USUAL, id="silent"),
        pytest.param(
            Thinking(budget=9, budget_param="b"),
            Thinking(False, "low", is_firm=False, budget=9, budget_param="b"),
            id="budget",
        ),
        pytest.param(Thinking(effort="high"), Thinking(effort="high", budget=64), id="effort"),
        pytest.param(Thinking(is_enabled=True), Thinking(is_enabled=True, budget=64), id="switch"),
        pytest.param(Thinking(True, "max", budget=0), Thinking(True, "max", budget=0), id="all"),
    ],
)
def test_requests_own_wishes_go_before_the_keys(own: Thinking, expected: Thinking) -> None:
    request = ChatRequest("m", thinking=own)

    assert Sender("k", thinking=USUAL).completed(request).thinking == expected


def test_key_without_wishes_leaves_a_silent_request_silent() -> None:
    assert Sender("k").completed(ChatRequest("m")).thinking == Thinking(is_firm=False)
