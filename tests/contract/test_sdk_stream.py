"""The official SDKs' own helpers read every kind of stream, with their validation on."""

from collections.abc import Iterator

import anthropic
import openai
import pytest

from tests.appliance_server import RunningAppliance, running_appliance
from tests.dialect.script import rule, script_text

pytestmark = pytest.mark.slow

MANIFEST = """\
version: 1
server: {heartbeat: 100ms}
models:
  - name: chat
    source: scripted:script.yaml
    chat: {tool_parser: hermes, reasoning_parser: qwen3}
    residency: {preload: true}
"""

RULES = [
    rule("silent", ["<think>", "hm", "</think>", "lat", "e"], first_delay="400ms"),
    rule("slow", ["so ", "late"], piece_delay="300ms"),
    rule("failing", ["good ", "bad "], fail_at=1),
    rule("nothing", []),
    rule("cut", ["<think>", "hm", "</think>", "a b ", "c STOP d"]),
]


@pytest.fixture(scope="module")
def appliance() -> Iterator[RunningAppliance]:
    with running_appliance(MANIFEST, {"script.yaml": script_text(RULES)}) as running:
        yield running


@pytest.fixture
def by_openai(appliance: RunningAppliance) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(
        base_url=f"{appliance.url}/v1",
        api_key="any",
        max_retries=0,
        _strict_response_validation=True,
    ) as client:
        yield client


@pytest.fixture
def by_anthropic(appliance: RunningAppliance) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(
        base_url=appliance.url, api_key="any", max_retries=0, _strict_response_validation=True
    ) as client:
        yield client


@pytest.mark.parametrize(
    ("text", "said"), [("silent", "late"), ("slow", "so late"), ("nothing", "")]
)
def test_chat_helper_reads_a_stream_with_heartbeats(
    by_openai: openai.OpenAI, text: str, said: str
) -> None:
    with by_openai.chat.completions.stream(
        model="chat", messages=[{"role": "user", "content": text}]
    ) as stream:
        kinds = {event.type for event in stream}
        completion = stream.get_final_completion()

    assert completion.choices[0].message.content == said
    assert completion.choices[0].finish_reason == "stop"
    assert "chunk" in kinds


@pytest.mark.parametrize(
    ("text", "said"), [("silent", "late"), ("slow", "so late"), ("nothing", "")]
)
def test_responses_helper_reads_a_stream_with_heartbeats(
    by_openai: openai.OpenAI, text: str, said: str
) -> None:
    with by_openai.responses.stream(model="chat", input=text) as stream:
        response = stream.get_final_response()

    assert (response.output_text, response.status) == (said, "completed")


@pytest.mark.parametrize(
    ("text", "said"), [("silent", "late"), ("slow", "so late"), ("nothing", "")]
)
def test_messages_helper_reads_a_stream_with_heartbeats(
    by_anthropic: anthropic.Anthropic, text: str, said: str
) -> None:
    with by_anthropic.messages.stream(
        model="chat", max_tokens=99, messages=[{"role": "user", "content": text}]
    ) as stream:
        message = stream.get_final_message()

    assert "".join(block.text for block in message.content if block.type == "text") == said
    assert message.stop_reason == "end_turn"


def test_completions_are_read_streamed_and_not(by_openai: openai.OpenAI) -> None:
    whole = by_openai.completions.create(model="chat", prompt="slow")
    # OpenAI's own chunks have no finish_reason before the last, which the SDK's type leaves out.
    lenient = by_openai.with_options(_extra_kwargs={"_strict_response_validation": False})
    chunks = list(lenient.completions.create(model="chat", prompt="slow", stream=True))

    assert whole.choices[0].text == "so late"
    assert "".join(chunk.choices[0].text for chunk in chunks if chunk.choices) == "so late"


def test_stop_string_is_told_in_every_sdk(
    by_openai: openai.OpenAI, by_anthropic: anthropic.Anthropic
) -> None:
    chat = by_openai.chat.completions.create(
        model="chat", messages=[{"role": "user", "content": "cut"}], stop="STOP"
    )
    message = by_anthropic.messages.create(
        model="chat",
        max_tokens=99,
        messages=[{"role": "user", "content": "cut"}],
        stop_sequences=["no", "STOP"],
    )

    assert chat.choices[0].message.content == "a b c "
    assert chat.choices[0].finish_reason == "stop"
    assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", "STOP")


def test_late_failure_is_the_sdk_own_error(
    by_openai: openai.OpenAI, by_anthropic: anthropic.Anthropic
) -> None:
    with pytest.raises(openai.APIError) as in_chat:
        list(
            by_openai.chat.completions.create(
                model="chat", messages=[{"role": "user", "content": "failing"}], stream=True
            )
        )
    responses = list(by_openai.responses.create(model="chat", input="failing", stream=True))
    with (
        pytest.raises(anthropic.APIStatusError) as in_messages,
        by_anthropic.messages.stream(
            model="chat", max_tokens=99, messages=[{"role": "user", "content": "failing"}]
        ) as stream,
    ):
        stream.until_done()

    assert in_chat.value.code == "generation_failed"
    assert responses[-1].type == "response.failed"
    assert responses[-1].response.status == "failed"
    assert "script" in str(responses[-1].response.error)
    assert "script" in str(in_messages.value)


def test_embeddings_are_refused_in_words_that_the_sdk_reads(by_openai: openai.OpenAI) -> None:
    with pytest.raises(openai.PermissionDeniedError, match="embeddings") as caught:
        by_openai.embeddings.create(model="chat", input=["a", "b"])

    assert caught.value.code == "endpoint_disabled"


def test_embeddings_of_an_unknown_model_are_not_found(by_openai: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError):
        by_openai.embeddings.create(model="nobody", input="a")
