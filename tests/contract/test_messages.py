"""Messages as the official SDK sees it, with its validation on."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from typing import Any, cast

import httpx
import pytest
from anthropic import Anthropic, APIStatusError
from anthropic.types import Message, ToolUseBlock

from tests.appliance_server import RunningAppliance, running_appliance

MANIFEST = f"""\
version: 1
server:
  heartbeat: 200ms
  limits: {{max_body: 1MiB, max_output_tokens: 1000}}
auth_keys:
  - {{name: agent, key: {{sha256: {sha256(b"agent").hexdigest()}}}, roles: [inference]}}
  - {{name: watch, key: {{sha256: {sha256(b"watch").hexdigest()}}}, roles: [metrics]}}
models:
  - name: chat
    aliases: [claude-opus-x, claude-haiku-x]
    source: scripted:script.yaml
    residency: {{preload: true}}
    chat: {{reasoning_parser: qwen3, tool_parser: hermes}}
  - {{name: lazy, source: "scripted:script.yaml"}}
"""
SCRIPT = """\
- match: "18 degrees"
  pieces: ["It is ", "18 degrees."]
- match: "capital"
  pieces: ["The capital ", "of France ", "is Par", "is."]
- match: "unicode"
  pieces: ["a\\u2028b", "\\r\\n", "👋", "é\\n\\n", "data: x"]
- match: "ponder"
  pieces: ["<think>\\nLet me ", "see.\\n</th", "ink>\\n\\nForty", "-two."]
- match: "weather"
  pieces:
    - "<think>\\nA tool.\\n</think>\\n\\nI will look.\\n"
    - "<tool_call>\\n{\\"name\\": \\"wea"
    - "ther\\", \\"arguments\\": {\\"city\\": \\"Pa"
    - "ris\\", \\"days\\": [1, 2]}}\\n</tool_call>"
- match: "prefill"
  pieces: ["late"]
  first_delay: 1500ms
- match: "fail at once"
  pieces: ["never"]
  fail_at: 0
- match: "fail later"
  pieces: ["good ", "bad ", "worse "]
  fail_at: 2
- match: "silent"
  pieces: []
"""
WEATHER: dict[str, Any] = {
    "name": "weather",
    "description": "Tell the weather of a city.",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
}
FRANCE = "The capital of France is Paris."


@pytest.fixture(scope="module")
def served() -> Iterator[RunningAppliance]:
    with running_appliance(MANIFEST, {"script.yaml": SCRIPT}) as running:
        yield running


@pytest.fixture
def claude(served: RunningAppliance) -> Iterator[Anthropic]:
    with Anthropic(
        base_url=served.url, api_key="agent", max_retries=0, _strict_response_validation=True
    ) as anthropic:
        yield anthropic


def asked(text: str, **fields: object) -> dict[str, Any]:
    messages = [{"role": "user", "content": text}]
    return {"model": "chat", "max_tokens": 100, "messages": messages, **fields}


def post(url: str, body: object, **headers: str) -> httpx.Response:
    """Send what the SDK would not."""
    sent = body if isinstance(body, bytes) else json.dumps(body).encode()
    return httpx.post(
        f"{url}/v1/messages", content=sent, headers={"x-api-key": "agent", **headers}, timeout=30
    )


def ask(claude: Anthropic, body: dict[str, Any], *, is_streamed: bool) -> Message:
    if not is_streamed:
        return cast(Message, claude.messages.create(**body))
    with claude.messages.stream(**body) as events:
        for _ in events:
            pass
        return events.get_final_message()


def content(message: Message) -> dict[str, Any]:
    """Return what is the same each time that an answer is given: all but its ids."""
    return message.model_dump(
        exclude={"id": True, "content": {"__all__": {"id"}}}, exclude_none=True, mode="json"
    )


def test_message_is_answered(claude: Anthropic) -> None:
    answer = claude.messages.create(**asked("What is the capital of France?"))

    assert [block.to_dict() for block in answer.content] == [{"type": "text", "text": FRANCE}]
    assert (answer.stop_reason, answer.model) == ("end_turn", "chat")
    usage = answer.usage
    assert (usage.input_tokens, usage.output_tokens) == (6, 4)
    assert (usage.cache_read_input_tokens, usage.cache_creation_input_tokens) == (0, 0)


@pytest.mark.parametrize("text", ["capital", "unicode", "silent", "ponder", "weather", "an  echo"])
def test_stream_and_whole_answer_agree(claude: Anthropic, text: str) -> None:
    body = asked(text, tools=[WEATHER])

    streamed, whole = (ask(claude, body, is_streamed=each) for each in (True, False))

    assert content(streamed) == content(whole)


@pytest.mark.parametrize("is_streamed", [True, False])
def test_tool_is_used_and_its_result_read(claude: Anthropic, *, is_streamed: bool) -> None:
    body = asked("What is the weather?", tools=[WEATHER])
    called = ask(claude, body, is_streamed=is_streamed)
    use = next(block for block in called.content if isinstance(block, ToolUseBlock))
    result = {"type": "tool_result", "tool_use_id": use.id, "content": "18 degrees"}
    body["messages"] += [
        {"role": "assistant", "content": called.content},
        {"role": "user", "content": [result]},
    ]
    answer = ask(claude, body, is_streamed=is_streamed)

    assert [block.type for block in called.content] == ["thinking", "text", "tool_use"]
    assert called.stop_reason == "tool_use"
    assert (use.name, use.input) == ("weather", {"city": "Paris", "days": [1, 2]})
    assert use.id.startswith("toolu_")
    assert (answer.content[0].to_dict()["text"], answer.stop_reason) == (
        "It is 18 degrees.",
        "end_turn",
    )


def test_arguments_arrive_in_pieces(claude: Anthropic) -> None:
    body: dict[str, Any] = asked("weather", tools=[WEATHER])

    with claude.messages.stream(**body) as events:
        pieces = [event.partial_json for event in events if event.type == "input_json"]

    assert len(pieces) > 1
    assert json.loads("".join(pieces)) == {"city": "Paris", "days": [1, 2]}


@pytest.mark.parametrize("is_streamed", [True, False])
def test_omitted_thought_goes_there_and_back(claude: Anthropic, *, is_streamed: bool) -> None:
    body = asked("ponder", thinking={"type": "adaptive", "display": "omitted"})
    answer = ask(claude, body, is_streamed=is_streamed)
    body["messages"] += [
        {"role": "assistant", "content": answer.content},
        {"role": "user", "content": "capital"},
    ]

    thought, said = (block.to_dict() for block in answer.content)
    assert (thought["thinking"], bool(thought["signature"])) == ("", True)
    assert said["text"] == "Forty-two."
    assert claude.messages.create(**body).content[0].to_dict()["text"] == FRANCE


@pytest.mark.parametrize("is_streamed", [True, False])
@pytest.mark.parametrize(
    ("fields", "text", "reason"),
    [
        ({"stop_sequences": ["zz", "Paris"]}, "The capital of France is ", "stop_sequence"),
        ({"max_tokens": 2}, "The capital of France ", "max_tokens"),
        ({"stop_sequences": ["zz"]}, FRANCE, "end_turn"),
    ],
)
def test_stop_reason_is_told(
    claude: Anthropic, fields: dict[str, Any], text: str, reason: str, *, is_streamed: bool
) -> None:
    body = asked("capital", **fields)

    answer = ask(claude, body, is_streamed=is_streamed)

    assert answer.content[0].to_dict()["text"] == text
    assert answer.stop_reason == reason
    assert answer.stop_sequence == ("Paris" if reason == "stop_sequence" else None)


def test_count_is_what_the_answer_says(claude: Anthropic) -> None:
    fields: dict[str, Any] = asked("How is the weather?", system="Be brief.", tools=[WEATHER])
    limit = fields.pop("max_tokens")

    counted = claude.messages.count_tokens(**fields)
    beta = claude.beta.messages.count_tokens(**fields)

    usage = claude.messages.create(max_tokens=limit, **fields).usage
    assert counted.input_tokens == beta.input_tokens == usage.input_tokens


def test_counting_loads_no_model(served: RunningAppliance, claude: Anthropic) -> None:
    messages: Any = [{"role": "user", "content": "one two three"}]

    counted = claude.messages.count_tokens(model="lazy", messages=messages)

    model = httpx.get(f"{served.url}/v1/models/lazy", headers={"x-api-key": "agent"}).json()
    assert counted.input_tokens == 3
    assert model["state"] == "absent"


def test_agents_request_is_understood(claude: Anthropic) -> None:
    """Its shape is that of coding agents: betas, marks, a system message among the others."""
    mark = {"cache_control": {"type": "ephemeral"}}
    system = [
        {"type": "text", "text": "x-anthropic-billing-header: cc_version=1; cch=0123;"},
        {"type": "text", "text": "You are an agent.", **mark},
        {"type": "text", "text": "Use tools.", **mark},
    ]
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "the capital?", **mark}] * 2},
        {"role": "system", "content": [{"type": "text", "text": "Mode: plan."}]},
    ]

    body: dict[str, Any] = {
        "model": "claude-opus-x",
        "max_tokens": 1000,
        "messages": messages,
        "system": system,
        "tools": [{**WEATHER, "name": f"tool_{number}"} for number in range(27)],
        "thinking": {"type": "adaptive"},
        "metadata": {"user_id": "user_1"},
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        "betas": ["context-management-2025-06-27", "interleaved-thinking-2025-05-14"],
        "extra_query": {"beta": "true"},
    }

    answer = claude.beta.messages.create(**body)

    assert answer.content[0].to_dict()["text"] == FRANCE
    assert answer.model == "claude-opus-x"
    assert answer.usage.input_tokens == 12


def test_requests_beside_each_other_are_answered(claude: Anthropic) -> None:
    names = ["claude-opus-x", "claude-haiku-x", "chat"]

    with ThreadPoolExecutor() as pool:
        bodies = [asked("capital", model=name) for name in names]
        answers = list(pool.map(lambda body: ask(claude, body, is_streamed=True), bodies))

    assert [answer.model for answer in answers] == names
    assert {answer.content[0].to_dict()["text"] for answer in answers} == {FRANCE}


def test_silence_is_broken_by_pings(served: RunningAppliance) -> None:
    body = post(served.url, asked("prefill", stream=True)).text

    names = [line for line in body.split("\n") if line.startswith("event: ")]
    assert names.count("event: ping") >= 2
    assert names[-1] == "event: message_stop"
    assert next(name for name in names if name != "event: ping") == "event: message_start"


def test_late_failure_is_an_error_event(served: RunningAppliance, claude: Anthropic) -> None:
    raw = post(served.url, asked("fail later", stream=True)).text
    with pytest.raises(APIStatusError) as caught:
        ask(claude, asked("fail later"), is_streamed=True)

    *_, last, end = raw.split("\n\n")
    assert last.startswith("event: error\n") and end == ""
    assert "message_stop" not in raw
    error: Any = caught.value.body
    assert (error["type"], error["error"]["type"]) == ("error", "api_error")


@pytest.mark.parametrize("is_streamed", [True, False])
def test_failure_of_the_engine_is_no_text(claude: Anthropic, *, is_streamed: bool) -> None:
    with pytest.raises(APIStatusError) as caught:
        ask(claude, asked("fail at once"), is_streamed=is_streamed)

    error: Any = caught.value.body
    assert error["error"]["type"] == "api_error"


@pytest.mark.parametrize(
    ("key", "status", "kind"),
    [
        ("stranger", 401, "authentication_error"),
        ("watch", 403, "permission_error"),
        ("", 401, "authentication_error"),
    ],
)
def test_wrong_key_is_told_in_the_dialect(
    served: RunningAppliance, key: str, status: int, kind: str
) -> None:
    refused = post(served.url, asked("hi"), **{"x-api-key": key})

    assert (refused.status_code, refused.json()["error"]["type"]) == (status, kind)
    assert refused.json()["request_id"] == refused.headers["request-id"]
