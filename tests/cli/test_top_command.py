import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.cli.main import main
from appliance.cli.top import Look, token_rates
from appliance.cli.wire import RequestBody, StatusBody
from tests.cli.command import Terminal
from tests.cli.fake_server import body, fake_appliance, model, refusal, status

_MODELS = (
    model("chat", requests=2, memory_bytes=2**30, held_bytes=2**31, profiles=["fast"]),
    model("spare", "absent", wish="may"),
)
_REQUESTS = st.lists(
    st.builds(
        RequestBody,
        id=st.sampled_from("12345"),
        model=st.sampled_from("ab"),
        completion_tokens=st.none() | st.integers(0, 10**9),
    ),
    unique_by=lambda request: request.id,
)
_STATUS = body(**status(*_MODELS))


def _requests(tokens: int) -> tuple[int, bytes]:
    one = {"id": "1", "model": "fast", "key": None, "state": "decode", "age_seconds": 1.0}
    return body(requests=[{**one, "prompt_tokens": 3, "completion_tokens": tokens}])


def _look(at: float, *requests: RequestBody) -> Look:
    return Look(at, StatusBody("converged"), requests)


def test_top_in_a_pipe_looks_once(capsys: pytest.CaptureFixture[str]) -> None:
    with fake_appliance(_STATUS, _requests(0)) as fake:
        code = main(["top", "--url", fake.url])

    assert code == 0
    assert capsys.readouterr().out.splitlines() == [
        "converged · revision 2 · 1.0 GiB of 8.0 GiB held",
        "MODEL  PHASE   REQUESTS  MEMORY   HELD",
        "chat   ready   2         1.0 GiB  2.0 GiB",
        "spare  absent  0",
    ]


def test_top_answers_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    with fake_appliance(_STATUS, _requests(5)) as fake:
        main(["top", "--json", "--url", fake.url])

    answer = json.loads(capsys.readouterr().out)
    assert answer["status"]["state"] == "converged"
    assert answer["requests"][0]["completion_tokens"] == 5


@pytest.mark.slow
def test_top_lives_on_a_terminal_until_the_appliance_leaves() -> None:
    answers = (_STATUS, _requests(0), _STATUS, _requests(10**6), refusal(503, "It leaves."))

    with (
        fake_appliance(*answers) as fake,
        Terminal("top", "--url", fake.url, env={"TERM": "xterm"}) as terminal,
    ):
        text = terminal.wait_for("It leaves")

        assert terminal.wait_end() == 1
    assert "TOK/S" in text
    assert text.count("chat") == 2


@pytest.mark.parametrize("status_code", [401, 403])
def test_top_is_for_admins(status_code: int, capsys: pytest.CaptureFixture[str]) -> None:
    with fake_appliance(refusal(status_code, "Admins only.")) as fake:
        code = main(["top", "--url", fake.url])

    assert code == 1
    assert "Admins only." in capsys.readouterr().err


def test_rates_add_up_what_both_looks_saw() -> None:
    before = _look(
        10.0,
        RequestBody("1", "a", completion_tokens=5),
        RequestBody("2", "a", completion_tokens=0),
        RequestBody("3", "b", completion_tokens=None),
        RequestBody("gone", "b", completion_tokens=7),
    )
    after = _look(
        12.0,
        RequestBody("1", "a", completion_tokens=15),
        RequestBody("2", "a", completion_tokens=6),
        RequestBody("3", "b", completion_tokens=4),
        RequestBody("new", "b", completion_tokens=100),
    )

    assert token_rates(before, after) == {"a": 8.0}


@given(before=_REQUESTS, after=_REQUESTS, seconds=st.floats(0, 1e6))
def test_rates_are_never_negative(
    before: list[RequestBody], after: list[RequestBody], seconds: float
) -> None:
    rates = token_rates(_look(0.0, *before), _look(seconds, *after))

    assert all(rate >= 0 for rate in rates.values())
    assert rates.keys() <= {request.model for request in after}
