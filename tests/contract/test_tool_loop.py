"""A loop of five turns with tools ends alike through every official SDK, streamed and not."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from anthropic import Anthropic, beta_tool
from openai import OpenAI

from tests.appliance_server import RunningAppliance, running_appliance
from tests.contract.tool_loop import (
    TASK,
    Ask,
    Turn,
    chat_loop,
    messages_loop,
    responses_loop,
    run_loop,
)
from tests.dialect.case import call_text
from tests.dialect.script import cut, rule, script_text

pytestmark = pytest.mark.slow

MANIFEST = """\
version: 1
models:
  - name: chat
    source: scripted:script.yaml
    chat: {tool_parser: hermes, reasoning_parser: qwen3}
    residency: {preload: true}
"""


def adds(*totals: int) -> str:
    return "\n".join(call_text("add", {"total": total}) for total in totals)


SAYS = {
    f"^{TASK}$": f"<think>\nOne by one.\n</think>\n\nI begin.\n{adds(0)}",
    "^total 1$": f"<think>\n</think>\n\n{adds(1)}",
    "^total 2$": f"Two at once.\n{adds(2, 3)}",
    "^total 4$": f"<think>\nNearly.\n</think>\n\n{adds(4)}",
    "^total 5$": adds(5),
    "^total 6$": "<think>\nDone.\n</think>\n\nIt is **six**. ✓",
}
"""What the model answers to each last message; it ends only if every result came in its place."""

LOOPS: dict[str, Callable[[OpenAI, Anthropic, bool], Ask]] = {
    "chat": lambda openai, _, is_streamed: chat_loop(openai, is_streamed=is_streamed),
    "responses, stored": lambda openai, _, is_streamed: responses_loop(
        openai, is_streamed=is_streamed, is_stored=True
    ),
    "responses, replayed": lambda openai, _, is_streamed: responses_loop(
        openai, is_streamed=is_streamed, is_stored=False
    ),
    "messages": lambda _, anthropic, is_streamed: messages_loop(anthropic, is_streamed=is_streamed),
}


@pytest.fixture(scope="module")
def appliance() -> Iterator[RunningAppliance]:
    script = script_text(rule(match, cut(raw, 5)) for match, raw in SAYS.items())
    with running_appliance(MANIFEST, {"script.yaml": script}) as running:
        yield running


@pytest.fixture
def openai(appliance: RunningAppliance) -> Iterator[OpenAI]:
    with OpenAI(
        base_url=f"{appliance.url}/v1",
        api_key="any",
        max_retries=0,
        _strict_response_validation=True,
    ) as client:
        yield client


@pytest.fixture
def anthropic(appliance: RunningAppliance) -> Iterator[Anthropic]:
    with Anthropic(
        base_url=appliance.url, api_key="any", max_retries=0, _strict_response_validation=True
    ) as client:
        yield client


def without_ids(turns: list[Turn]) -> list[Turn]:
    return [replace(turn, ids=()) for turn in turns]


@pytest.mark.parametrize("name", LOOPS)
def test_loop_of_five_turns_ends_alike_streamed_and_not(
    openai: OpenAI, anthropic: Anthropic, name: str
) -> None:
    whole = run_loop(LOOPS[name](openai, anthropic, False))
    stream = run_loop(LOOPS[name](openai, anthropic, True))

    assert without_ids(stream) == without_ids(whole)
    assert [turn.calls for turn in whole] == [(0,), (1,), (2, 3), (4,), (5,), ()]
    assert [turn.thought for turn in whole] == ["One by one.", "", "", "Nearly.", "", "Done."]
    assert [turn.text for turn in whole][:3] == ["I begin.", "", "Two at once."]
    assert (whole[-1].text, whole[-1].finish) == ("It is **six**. ✓", "stop")
    assert {turn.finish for turn in whole[:-1]} == {"calls"}
    names = [name for turn in whole for name in turn.ids]
    assert len(set(names)) == 6


def test_conversation_costs_the_same_through_every_sdk(
    openai: OpenAI, anthropic: Anthropic
) -> None:
    turns = [run_loop(loop(openai, anthropic, False)) for loop in LOOPS.values()]

    usages = [[turn.usage for turn in each] for each in turns]

    assert usages == [usages[0]] * len(LOOPS)
    prompts = [prompt for prompt, _ in usages[0]]
    assert prompts == sorted(set(prompts)), "every turn sees more than the one before"


def test_tool_runner_of_the_sdk_reaches_the_end(anthropic: Anthropic) -> None:
    added = []

    @beta_tool
    def add(total: int) -> str:
        """Add one."""
        added.append(total)
        return f"total {total + 1}"

    runner = anthropic.beta.messages.tool_runner(
        model="chat", max_tokens=1000, tools=[add], messages=[{"role": "user", "content": TASK}]
    )
    last = runner.until_done()

    assert added == [0, 1, 2, 3, 4, 5]
    assert last.content[-1].type == "text" and last.content[-1].text == "It is **six**. ✓"
