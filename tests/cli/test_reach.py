import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.cli.output import CommandFailed, Exit
from appliance.cli.reach import ApiError, ApplianceClient, Door, event_data
from appliance.cli.wire import Health
from tests.cli.command import run_command
from tests.cli.fake_server import fake_appliance

_LINE = st.text(st.characters(exclude_characters="\r\n", codec="utf-8"))
_NOISE = st.sampled_from([b": heartbeat\n", b"event: x\n", b"id: 7\n", b":\n"])


@given(st.lists(st.tuples(st.lists(_LINE, min_size=1), st.lists(_NOISE))))
def test_events_come_back_as_they_were_sent(sent: list[tuple[list[str], list[bytes]]]) -> None:
    lines: list[bytes] = []
    for data, noise in sent:
        lines += noise
        lines += [f"data: {line}\n".encode() for line in data]
        lines.append(b"\n")

    events = list(event_data(lines))

    assert events == ["\n".join(data) for data, _ in sent]


def test_event_that_is_cut_is_dropped() -> None:
    assert list(event_data([b"data: whole\r\n", b"\r\n", b"data: ha"])) == ["whole"]


@pytest.mark.parametrize(
    ("url", "prefix"),
    [
        ("http://mac.local:8000", ""),
        ("http://mac.local:8000/v1", ""),
        ("https://mac.local/llm/", "/llm"),
        ("https://mac.local/llm/v1/", "/llm"),
    ],
)
def test_base_url_of_other_clients_will_do(url: str, prefix: str) -> None:
    assert Door(url).prefix == prefix


def test_refusal_brings_its_message_and_status() -> None:
    answer = (404, b'{"error": {"message": "No such thing.", "code": null}}')

    with fake_appliance(answer) as fake, pytest.raises(ApiError, match="No such") as caught:
        ApplianceClient(Door(fake.url)).get("/health", Health)

    assert caught.value.status == 404
    assert caught.value.code is Exit.FAILED


@pytest.mark.parametrize(
    ("status", "content"),
    [(200, b"<html>"), (200, b"[]"), (200, b'{"status": "\xff"}'), (502, b"<html>"), (500, b"")],
)
def test_stranger_is_doubted(status: int, content: bytes) -> None:
    expected = pytest.raises(CommandFailed, match="is it an appliance")

    with fake_appliance((status, content)) as fake, expected:
        ApplianceClient(Door(fake.url)).get("/health", Health)


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:1", "http://127.0.0.1:port", "http://[::", "http://"]
)
def test_address_that_leads_nowhere_is_told(url: str) -> None:
    with pytest.raises(CommandFailed, match="no appliance answers at http") as caught:
        ApplianceClient(Door(url)).get("/health", Health)

    assert caught.value.code is Exit.NOT_REACHABLE


def test_key_that_cannot_be_one_is_not_shown() -> None:
    env = {"VLLM_MLX_URL": "http://127.0.0.1:1", "VLLM_MLX_API_KEY": "secret\nlines"}

    done = run_command("status", env=env)

    assert done.returncode == 2
    assert "VLLM_MLX_API_KEY" in done.stderr
    assert "secret" not in done.stderr
