"""Messages over a language model: what is counted, what is too long, what is clamped."""

from collections.abc import Iterator
from typing import Any

import pytest
from anthropic import Anthropic, BadRequestError
from anthropic.types import ToolParam

from tests.appliance_server import running_appliance
from tests.packages import sdist_models_folder
from tests.tiny_models import write_worded_model

pytestmark = [pytest.mark.mlx, pytest.mark.registry]


@pytest.fixture(scope="module")
def claude(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Anthropic]:
    model = write_worded_model(tmp_path_factory.mktemp("worded"))
    manifest = f"""\
version: 1
models:
  - name: chat
    source: path:{model}
    engine: {{max_context_tokens: 600}}
    residency: {{preload: true}}
    sampling: {{temperature: 0}}
  - name: thinker
    like: chat
    chat: {{template: "{sdist_models_folder() / "templates/Qwen-Qwen3-0.6B.jinja"}"}}
"""
    with (
        running_appliance(manifest, {}) as running,
        Anthropic(base_url=running.url, api_key="any", max_retries=0) as anthropic,
    ):
        yield anthropic


def asked(text: str, **fields: object) -> dict[str, Any]:
    return {"model": "chat", "messages": [{"role": "user", "content": text}], **fields}


def test_count_is_the_real_prompts_length(claude: Anthropic) -> None:
    body = asked("What is the capital of France?", system="Be brief.")

    counted = claude.messages.count_tokens(**body).input_tokens
    usage = claude.messages.create(max_tokens=20, **body).usage

    assert counted == usage.input_tokens + (usage.cache_read_input_tokens or 0)


TOOL: ToolParam = {
    "name": "weather",
    "description": "Tell the weather.",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
}
CALL = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Bern"}}


@pytest.mark.parametrize(
    "fields",
    [
        {"tools": [TOOL]},
        {"tools": [TOOL], "tool_choice": {"type": "none"}},
        {"thinking": {"type": "disabled"}},
        {"thinking": {"type": "enabled", "budget_tokens": 1024}, "tools": [TOOL]},
        {"tools": [TOOL], "messages": [
            {"role": "user", "content": "Is it warm?"},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "I look.", "signature": "x"}, CALL]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": "18C"},
                {"type": "text", "text": "Well?"}]},
        ]},
    ],
    ids=["tools", "no choice", "no thoughts", "thoughts", "history"],
)  # fmt: skip
def test_count_is_the_real_prompts_length_whatever_it_is_made_of(
    claude: Anthropic, fields: dict[str, Any]
) -> None:
    body = {**asked("Is it warm?"), "model": "thinker", **fields}

    counted = claude.messages.count_tokens(**body).input_tokens
    usage = claude.messages.create(max_tokens=1, **body).usage

    assert counted == usage.input_tokens + (usage.cache_read_input_tokens or 0)
    plain = claude.messages.count_tokens(**asked("Is it warm?") | {"model": "thinker"})
    is_same = fields.get("tool_choice") is not None
    assert (counted == plain.input_tokens) == is_same


def test_media_are_not_counted(claude: Anthropic) -> None:
    image = {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}
    messages: Any = [{"role": "user", "content": [image]}]

    with pytest.raises(BadRequestError, match=r"takes only text.* messages\[0\].content\[0\]"):
        claude.messages.count_tokens(model="chat", messages=messages)


def test_answer_is_cut_where_the_context_ends(claude: Anthropic) -> None:
    asks = f"{'word ' * 400}Count from one to three hundred."
    body = asked(asks, max_tokens=1000)

    with claude.messages.stream(**body) as events:
        streamed = events.get_final_message()
    usage = claude.messages.create(**body).usage

    assert streamed.usage.input_tokens + streamed.usage.output_tokens <= 600
    assert usage.output_tokens == streamed.usage.output_tokens


@pytest.mark.parametrize("is_streamed", [True, False])
def test_prompt_that_is_too_long_is_told_in_the_known_words(
    claude: Anthropic, *, is_streamed: bool
) -> None:
    body = asked("word " * 700, max_tokens=10, stream=is_streamed)

    with pytest.raises(BadRequestError, match=r"prompt is too long: .*\d+ tokens > 600 maximum"):
        claude.messages.create(**body)
