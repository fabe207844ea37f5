"""Rows become thoughts, calls and text with their tokens counted, whatever the rows are."""

import re
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.chat.event import (
    Delta,
    Finished,
    FinishReason,
    GenerationEvent,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
)
from appliance.chat.request import ChatRequest, Tool, ToolChoice
from appliance.engine.wire import End, Row, TokenLogprob
from appliance.parsing.format import AnswerFormat
from appliance.pipeline.answer import Answer, Reading

BOTH = AnswerFormat("qwen3", "hermes")
TOOLS = (Tool("f"), Tool("now"))
CALL = ["<tool_call>", '{"name": "f", ', '"arguments": ', '{"a":', " 1}", "}", "</tool_call>"]
THOUGHT = ["<think>", "p", "</think>"]
CALL_TEXT = "".join(CALL)


@dataclass
class Whole:
    """An answer put together: `calls` are names and arguments, `tokens` those of the text."""

    text: str = ""
    thought: str = ""
    calls: list[tuple[str, str]] = field(default_factory=list)
    tokens: list[bytes] = field(default_factory=list)
    reasoning_tokens: int = 0
    reason: FinishReason = "stop"
    stop: str | None = None

    def add(self, delta: Delta) -> None:
        match delta:
            case TextDelta(text=text, logprobs=logprobs):
                self.text += text
                self.tokens += [token.token for token in logprobs or ()]
            case ReasoningDelta(text=text):
                self.thought += text
            case ToolCallDelta(index=index, name=str(name)):
                assert index == len(self.calls)
                self.calls.append((name, ""))
            case ToolCallDelta(index=index, arguments=arguments):
                name, before = self.calls[index]
                self.calls[index] = (name, before + arguments)


def make_rows(tokens: list[str], sizes: list[int]) -> list[Row]:
    rows, start = [], 0
    for size in [*sizes, len(tokens)]:
        part = tokens[start : start + size]
        logprobs = [TokenLogprob(0, -1.0, token.encode()) for token in part]
        lengths = [len(token) for token in part]
        rows.append(Row("r", "".join(part), len(part), logprobs=logprobs, lengths=lengths))
        start += size
    return rows


def ask(**fields: object) -> ChatRequest:
    return ChatRequest("m", **({"tools": TOOLS, "logprobs": 0} | fields))  # type: ignore[arg-type]


def read(
    request: ChatRequest,
    tokens: list[str],
    sizes: list[int] | None = None,
    *,
    ends: FinishReason = "stop",
    is_in_thought: bool = False,
) -> Whole:
    """Return what comes of tokens in rows of the given sizes; none: a row for each token."""
    begun = "<think>" if is_in_thought else ""
    answer, whole = Answer(request, Reading(BOTH, begun)), Whole()
    for row in make_rows(tokens, [1] * len(tokens) if sizes is None else sizes):
        for delta in answer.push(row):
            whole.add(delta)
        if answer.is_cut:
            break
    else:
        for delta in answer.flush():
            whole.add(delta)
    whole.reasoning_tokens = answer.reasoning_tokens
    whole.reason, whole.stop = answer.reason(ends), answer.stop
    return whole


WORDS = ["<think>", "</think>", "\n", " ", "word", "a", "é", "", "<", "sto", "p", "</", "think>"]
TOKENS = st.lists(
    st.sampled_from([[word] for word in [*WORDS, *CALL]] + [CALL, THOUGHT]),
    max_size=16,
).map(lambda groups: [token for group in groups for token in group])


@settings(deadline=None)
@given(TOKENS, st.lists(st.integers(0, 5), max_size=20), st.booleans(), st.booleans())
def test_answer_does_not_depend_on_the_rows(
    tokens: list[str], sizes: list[int], is_in_thought: bool, allows_parallel_calls: bool
) -> None:
    request = ask(stop=("stop", "a\n"), allows_parallel_calls=allows_parallel_calls)

    whole = read(request, tokens, [], is_in_thought=is_in_thought)

    assert read(request, tokens, sizes, is_in_thought=is_in_thought) == whole
    assert read(request, tokens, is_in_thought=is_in_thought) == whole
    assert "stop" not in whole.text


@settings(deadline=None)
@given(st.lists(st.sampled_from([["word"], ["a"], ["é"], ["\n"], CALL, THOUGHT]), max_size=12))
def test_tokens_of_the_text_are_the_text(groups: list[list[str]]) -> None:
    # A token that lies across a border belongs to where it begins: these lie across none.
    whole = read(ask(), [token for group in groups for token in group])

    assert b"".join(whole.tokens).decode() == whole.text
    assert whole.reasoning_tokens == whole.thought.count("p")


@pytest.mark.parametrize("sizes", [None, [], [2, 2], [0, 3]])
def test_tokens_of_thoughts_are_counted_without_their_marks(sizes: list[int] | None) -> None:
    tokens = ["<think>", "\n", "one", " two", " ", "\n", "</think>", "\n\n", "an", "swer"]

    whole = read(ask(), tokens, sizes)

    assert (whole.thought, whole.text) == ("one two ", "answer")
    assert whole.reasoning_tokens == 3
    assert whole.tokens == [b"an", b"swer"]


def test_thought_cut_short_is_all_thought() -> None:
    whole = read(ask(), ["one", " two"], ends="length", is_in_thought=True)

    assert (whole.thought, whole.text, whole.reasoning_tokens) == ("one two", "", 2)
    assert whole.reason == "length"


def test_token_of_an_unfinished_character_is_where_the_character_is() -> None:
    answer = Answer(ask(logprobs=None), Reading(BOTH, "<think>"))

    answer.push(Row("r", "a", 2, lengths=[1, 0]))
    answer.push(Row("r", "é</think>", 2, lengths=[1, 8]))

    assert answer.reasoning_tokens == 3


def test_tokens_without_text_at_the_end_are_those_of_a_text() -> None:
    texts = [read(ask(), tokens) for tokens in (["a", ""], [*CALL, "\n", ""], ["<think>", "b", ""])]

    assert [whole.tokens for whole in texts] == [[b"a", b""], [], []]


def test_calls_are_numbered_and_their_ids_are_in_openai_form() -> None:
    answer = Answer(ask(), Reading(BOTH))

    deltas = answer.push(make_rows([f"Sure. {CALL_TEXT}\n{CALL_TEXT}"], [])[0])

    calls = [delta for delta in deltas if isinstance(delta, ToolCallDelta)]
    opened = [delta for delta in calls if delta.id is not None]
    assert [(delta.index, delta.name, delta.arguments) for delta in calls] == [
        *((0, "f", ""), (0, None, '{"a": 1}')),
        *((1, "f", ""), (1, None, '{"a": 1}')),
    ]
    assert all(re.fullmatch("call_[0-9A-Za-z]{24}", delta.id or "") for delta in opened)
    assert len({delta.id for delta in opened}) == 2
    assert answer.reason("stop") == "tool_calls"


@pytest.mark.parametrize(
    "fields", [{"tools": ()}, {"tool_choice": ToolChoice("none")}], ids=["no tools", "none"]
)
def test_calls_are_text_where_none_are_wanted(fields: dict[str, object]) -> None:
    whole = read(ask(**fields), CALL)

    assert (whole.text, whole.calls, whole.reason) == (CALL_TEXT, [], "stop")


def test_one_call_ends_an_answer_that_may_have_no_more() -> None:
    whole = read(ask(allows_parallel_calls=False), [*CALL, "\n", *CALL, "after"], [])

    assert (whole.text, whole.calls) == ("", [("f", '{"a": 1}')])
    assert (whole.reason, whole.stop) == ("tool_calls", None)


@pytest.mark.parametrize(("ends", "reason"), [("length", "length"), ("stop", "stop")])
def test_unfinished_call_is_told_by_the_reason(ends: FinishReason, reason: FinishReason) -> None:
    whole = read(ask(), [*CALL, *CALL[:4]], ends=ends)

    assert whole.calls == [("f", '{"a": 1}'), ("f", '{"a":')]
    assert whole.reason == reason


def test_broken_call_is_the_last() -> None:
    answer = Answer(ask(), Reading(BOTH))

    broken = '<tool_call>{"name": "f", "arguments": {"a": oops}}</tool_call>'
    whole = Whole()
    for delta in [*answer.push(make_rows([broken + CALL_TEXT], [])[0]), *answer.flush()]:
        whole.add(delta)

    assert (whole.calls, whole.text) == ([("f", '{"a": oops}')], CALL_TEXT)
    assert answer.has_broken_call
    assert answer.reason("stop") == "stop"


def test_stop_strings_are_looked_for_in_the_text_alone() -> None:
    tokens = ["<think>", "one stop", "</think>", "two", *CALL[:3], '{"a": "stop"}}', "thr"]

    whole = read(ask(stop=("stop", "thre")), [*tokens, "ee stop", " four"], ends="length")

    assert (whole.thought, whole.text) == ("one stop", "two")
    assert whole.calls == [("f", '{"a": "stop"}')]
    assert (whole.stop, whole.reason) == ("thre", "tool_calls")


def test_text_before_a_call_may_not_be_held_for_a_stop_string_any_more() -> None:
    whole = read(ask(stop=("two!",)), ["one tw", *CALL, "o!"])

    assert whole.text == "one two!"
    assert whole.tokens == [b"one tw", b"o!"]


def test_ids_are_short_where_the_template_takes_no_others() -> None:
    answer = Answer(ask(), Reading(BOTH, has_short_ids=True))

    deltas = answer.push(make_rows([CALL_TEXT], [])[0])

    opened = [delta for delta in deltas if isinstance(delta, ToolCallDelta) and delta.id]
    assert [bool(re.fullmatch("[0-9A-Za-z]{9}", delta.id or "")) for delta in opened] == [True]


@pytest.mark.parametrize(
    ("begun", "before", "last"),
    [
        pytest.param("", [], TextDelta, id="text"),
        pytest.param("<think>", [], ReasoningDelta, id="thought"),
        pytest.param("", [*CALL[:4], ' "'], ToolCallDelta, id="arguments"),
        pytest.param("", CALL, TextDelta, id="behind a call"),
    ],
)
def test_answer_that_goes_round_in_circles_is_ended(
    begun: str, before: list[str], last: type[Delta]
) -> None:
    answer = Answer(ask(logprobs=None), Reading(BOTH, begun, guards_repetition=True))
    rows = make_rows(before + ["check "] * 2000, [1] * 2010)

    events: list[GenerationEvent] = []
    for row in rows:
        events += answer.read([row])
        if answer.is_cut:
            break

    finished = events[-1]
    assert finished == Finished("stop", answer.usage, is_repetition=True)
    assert isinstance(events[-2], last)
    assert len(before) + 200 < answer.usage.completion_tokens < 300


def test_answer_that_ends_as_it_begins_to_repeat_has_ended_by_itself() -> None:
    answer = Answer(ask(), Reading(BOTH, guards_repetition=True))
    row = Row("r", "check " * 2000, 2000, end=End("length", 2000))

    events = answer.read([row])

    assert events[-1] == Finished("length", answer.usage)


def test_nobody_ends_an_answer_that_repeats_unless_asked_to() -> None:
    answer = Answer(ask(logprobs=None), Reading(BOTH))

    events = answer.read(make_rows(["check "] * 2000, []))

    assert not answer.is_cut
    assert all(isinstance(event, TextDelta) for event in events)
