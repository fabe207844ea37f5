"""One text of a model means the same in every dialect, however it came in pieces."""

import json
from collections.abc import Iterator
from dataclasses import replace

import httpx
import pytest

from tests.appliance_server import running_appliance
from tests.dialect.answer import Answer, Dialect, Json
from tests.dialect.case import EXAMPLES, MARKERS, Case, drawn_cases
from tests.dialect.script import rule, script_text
from tests.dialect.table import DIALECTS, ask_stream, ask_whole

# Five answers of each text in each dialect; test_format has some of the kind in the fast part.
pytestmark = pytest.mark.slow

MANIFEST = """\
version: 1
models:
  - name: chat
    source: scripted:script.yaml
    chat: {tool_parser: hermes, reasoning_parser: qwen3}
    residency: {preload: true}
"""

NUM_DRAWN = 12


def script(cases: list[Case]) -> str:
    """Return one script in which every case says its text in each of its splits."""
    rules = [
        rule(f"^case {number} split {index}$", pieces)
        for number, case in enumerate(cases)
        for index, pieces in enumerate(case.splits())
    ]
    return script_text([*rules, rule("^cut$", ["<think>", "a", "</think>", "b"], finish="length")])


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    return [*EXAMPLES.values(), *drawn_cases(NUM_DRAWN)]


@pytest.fixture(scope="module")
def client(cases: list[Case]) -> Iterator[httpx.Client]:
    with (
        running_appliance(MANIFEST, {"script.yaml": script(cases)}) as running,
        httpx.Client(base_url=running.url, timeout=30) as http,
    ):
        yield http


def check(client: httpx.Client, dialect: Dialect, number: int, case: Case) -> Answer:
    """Ask for a case in all its splits, streamed and whole, and return the one answer of all."""
    asks = [f"case {number} split {index}" for index in range(3)]
    whole = ask_whole(client, dialect, asks[0])
    answers = [ask_stream(client, dialect, text) for text in asks]
    answers.append(ask_whole(client, dialect, asks[1]))

    for answer, split in zip(answers, [*case.splits(), list(case.raw)], strict=True):
        assert replace(answer, usage=whole.usage) == whole, (case.raw, split)
        assert answer.usage == (4, len(split))
        assert all(answer.deltas), "an empty delta"
        if not has_marker(*_said(whole)):
            assert not has_marker(*answer.deltas)
    return whole


def has_marker(*texts: str) -> bool:
    return any(marker in text for marker in MARKERS for text in texts)


def _said(answer: Answer) -> list[str]:
    return [answer.text, answer.thought, json.dumps([call.arguments for call in answer.calls])]


def check_meaning(answer: Answer, dialect: Dialect, case: Case) -> None:
    if dialect.name == "completions":
        assert (answer.text, answer.finish) == (case.raw, "stop")
        return
    assert (answer.text, answer.thought) == (case.text, case.thought), case.raw
    assert (answer.calls, answer.finish) == (case.calls, case.finish), case.raw
    assert len(set(answer.ids)) == len(case.calls)
    prefix = "toolu_" if dialect.name == "messages" else "call_"
    assert all(name.startswith(prefix) for name in answer.ids)


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
@pytest.mark.parametrize("name", EXAMPLES)
def test_example_means_the_same_in_every_split(
    client: httpx.Client, dialect: Dialect, name: str
) -> None:
    case = EXAMPLES[name]

    answer = check(client, dialect, list(EXAMPLES).index(name), case)

    if case.text is not None:
        check_meaning(answer, dialect, case)


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
def test_mixture_means_the_same_in_every_split(
    client: httpx.Client, cases: list[Case], dialect: Dialect
) -> None:
    for number, case in list(enumerate(cases))[len(EXAMPLES) :]:
        answer = check(client, dialect, number, case)

        check_meaning(answer, dialect, case)


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
def test_answer_that_was_cut_says_so(client: httpx.Client, dialect: Dialect) -> None:
    whole = ask_whole(client, dialect, "cut")
    stream = ask_stream(client, dialect, "cut")

    assert stream == whole
    assert whole.finish == "length"


def test_call_is_text_where_no_tools_are_offered(client: httpx.Client) -> None:
    case = EXAMPLES["text and call"]
    text = f"case {list(EXAMPLES).index('text and call')} split 1"

    for dialect in DIALECTS:
        fields: Json = {} if dialect.name == "completions" else {"tools": []}
        whole, stream = (ask(client, dialect, text, **fields) for ask in (ask_whole, ask_stream))

        assert stream == whole
        assert (whole.text, whole.calls, whole.finish) == (case.raw, (), "stop"), dialect.name
