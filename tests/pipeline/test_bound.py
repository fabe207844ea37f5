"""What an engine is told of an answer's thought, and by how much its model bounds it."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from appliance.chat.client import TextProcess
from appliance.chat.request import ChatRequest, Structure, Thinking, Tool, ToolChoice
from appliance.chat.traits import Traits
from appliance.engine.wire import ThoughtRule
from appliance.errors import InvalidRequest
from appliance.manifest.spec import ChatSpec, ModelSpec
from appliance.parsing.format import AnswerFormat
from appliance.pipeline.answer import Reading
from appliance.pipeline.bound import (
    Bounds,
    bounded_thinking,
    check_bounds,
    find_bounds,
    thought_rule,
)
from appliance.registry.wording import Voice
from tests.chat.tiny import CHATML, write_model

TEMPLATE = CHATML + "<think>\n{# </think> #}"
SPEC = ModelSpec(
    name="m",
    source="path:/m",
    chat=ChatSpec(reasoning_parser="qwen3", tool_parser="hermes"),
)
FORM = AnswerFormat("qwen3", "hermes")
SWITCHED = Traits(thinks=True, thinking_variable="enable_thinking")
ALWAYS = Traits(thinks=True)
BEGUN = "assistant\n<think>\n"
OVER = "assistant\n<think>\n\n</think>\n\n"
RULE = ThoughtRule(FORM)
OPEN_RULE = ThoughtRule(FORM, "<think>")


@pytest.mark.parametrize(
    ("thinking", "traits", "tail", "expected"),
    [
        pytest.param(Thinking(), SWITCHED, "assistant\n", RULE, id="may come"),
        pytest.param(Thinking(), ALWAYS, BEGUN, OPEN_RULE, id="has begun"),
        pytest.param(Thinking(), SWITCHED, OVER, None, id="is over"),
        pytest.param(Thinking(False), SWITCHED, "assistant\n", None, id="not wanted"),
        pytest.param(Thinking(False), ALWAYS, "assistant\n", RULE, id="not to be switched off"),
        pytest.param(Thinking(False), SWITCHED, BEGUN, OPEN_RULE, id="begun all the same"),
    ],
)
def test_form_begins_where_the_thought_has_ended(
    thinking: Thinking, traits: Traits, tail: str, expected: ThoughtRule | None
) -> None:
    request = ChatRequest("m", thinking=thinking)
    reading = Reading(FORM, FORM.begun(tail))

    assert thought_rule(request, reading, tail, traits, is_bound=True) == expected
    assert thought_rule(request, reading, tail, traits, is_bound=False) is None


@pytest.mark.parametrize("tail", ["assistant\n", BEGUN, OVER])
def test_budget_bounds_the_thought_of_a_free_answer(tail: str) -> None:
    request = ChatRequest("m", thinking=Thinking(budget=16))
    reading = Reading(FORM, FORM.begun(tail))

    rule = thought_rule(request, reading, tail, SWITCHED, is_bound=False)

    assert rule == ThoughtRule(FORM, "<think>" if tail == BEGUN else "", 16)


@pytest.mark.parametrize(("mode", "has_calls"), [("auto", True), ("none", False)])
def test_budget_is_for_what_is_no_call(mode: str, *, has_calls: bool) -> None:
    tool = Tool("f", "what it does", {"type": "object"}, strict=False)
    choice = ToolChoice(mode)  # type: ignore[arg-type]
    request = ChatRequest("m", tools=(tool,), tool_choice=choice, thinking=Thinking(budget=0))

    rule = thought_rule(request, Reading(FORM), "", ALWAYS, is_bound=False)

    assert rule is not None
    assert rule.tools == (has_calls * (Tool("f", parameters={"type": "object"}),))


def test_answer_without_thoughts_has_no_rule() -> None:
    request = ChatRequest("m", thinking=Thinking(budget=16))

    assert thought_rule(request, Reading(), "", Traits(), is_bound=True) is None


@pytest.mark.parametrize(
    ("asked", "most", "expected"),
    [(None, None, None), (9, None, 9), (None, 5, 5), (9, 5, 5), (3, 5, 3), (0, 5, 0), (9, 0, 0)],
)
def test_budget_of_a_request_is_at_most_its_models(
    asked: int | None, most: int | None, expected: int | None
) -> None:
    bounded = bounded_thinking(Thinking(budget=asked), SWITCHED, most, has_marks=True)

    assert bounded.budget == expected


@pytest.mark.parametrize("thinking", [Thinking(False), Thinking(effort="none")])
@pytest.mark.parametrize(
    ("traits", "has_marks", "budget"),
    [(ALWAYS, True, 0), (ALWAYS, False, None), (SWITCHED, True, None), (Traits(), True, None)],
)
def test_unwanted_thought_without_a_switch_is_ended_by_its_mark(
    thinking: Thinking, traits: Traits, budget: int | None, *, has_marks: bool
) -> None:
    assert bounded_thinking(thinking, traits, None, has_marks=has_marks).budget == budget


@pytest.mark.parametrize("budget", [0, 9])
def test_budget_of_thoughts_without_marks_is_refused_if_asked_for(budget: int) -> None:
    asked = Thinking(budget=budget, budget_param="thinking.budget_tokens")
    usual = Thinking(budget=budget)

    with pytest.raises(InvalidRequest) as refusal:
        bounded_thinking(asked, ALWAYS, None, has_marks=False)

    assert refusal.value.param == "thinking.budget_tokens"
    assert bounded_thinking(usual, ALWAYS, None, has_marks=False) == usual
    assert bounded_thinking(asked, Traits(), None, has_marks=False) == asked


SCHEMA = Structure("schema", {"type": "integer"}, "guided_json")
BAD_SCHEMA = Structure("schema", {"type": "string", "pattern": "(?=a)"}, "guided_json")


BoundsOf = Callable[..., Bounds]


@pytest.fixture(scope="module")
def bounds_of(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BoundsOf]:
    """Say what bounds the answer of a model that thinks, and writes calls as Qwen does."""
    text = TextProcess()

    def find(request: ChatRequest, spec: ModelSpec = SPEC, tail: str = BEGUN) -> Bounds:
        found = find_bounds(request, Voice(spec, "m"), text, tail)
        return runner.run(asyncio.wait_for(found, 30))

    with asyncio.Runner() as runner:
        runner.run(text.start())
        try:
            folder = write_model(tmp_path_factory.mktemp("model"), TEMPLATE)
            runner.run(text.configure("m", folder, None))
            yield find
        finally:
            runner.run(text.close())


def test_free_answer_is_only_shown_its_marks(bounds_of: BoundsOf) -> None:
    bounds = bounds_of(ChatRequest("m"))

    assert (bounds.grammar, bounds.thought) == (None, None)
    assert {"<think>", "</think>", "<tool_call>", "</tool_call>"} <= set(bounds.shown)
    assert bounds.reading == Reading(FORM, "<think>")


def test_form_is_a_grammar_behind_the_thought(bounds_of: BoundsOf) -> None:
    bounds = bounds_of(ChatRequest("m", structure=SCHEMA))

    assert bounds.grammar is not None
    assert bounds.thought == ThoughtRule(bounds.reading.form, "<think>")


def test_form_of_a_text_that_is_gone_on_with_begins_at_once(bounds_of: BoundsOf) -> None:
    bounds = bounds_of(ChatRequest("m", prompt="1 + 1 = ", structure=SCHEMA), tail="")

    assert bounds.grammar is not None
    form = AnswerFormat(is_bound=True)
    assert (bounds.thought, bounds.shown, bounds.reading) == (None, (), Reading(form))


@pytest.mark.parametrize(
    ("choice", "strict", "is_bound"),
    [
        (ToolChoice(), None, False),
        (ToolChoice(), True, True),
        (ToolChoice("none"), True, False),
        (ToolChoice("required"), None, True),
        (ToolChoice("named", "f"), None, True),
    ],
)
def test_calls_are_bound_where_they_are_a_must_or_strict(
    bounds_of: BoundsOf, choice: ToolChoice, strict: bool | None, *, is_bound: bool
) -> None:
    request = ChatRequest("m", tools=(Tool("f", strict=strict),), tool_choice=choice)

    bounds = bounds_of(request)

    assert (bounds.grammar is not None) is bounds.reading.form.is_bound is is_bound


def test_form_that_cannot_be_kept_is_refused_by_its_field(bounds_of: BoundsOf) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        bounds_of(ChatRequest("m", structure=BAD_SCHEMA))

    assert refusal.value.param == "guided_json"


@pytest.mark.parametrize("is_configured", [True, False])
def test_early_refusal_is_for_models_whose_template_is_known(
    tmp_path: Path, *, is_configured: bool
) -> None:
    async def check() -> None:
        text = TextProcess()
        await text.start()
        try:
            if is_configured:
                await text.configure("m", write_model(tmp_path, TEMPLATE), None)
            await check_bounds(ChatRequest("m", structure=BAD_SCHEMA), Voice(SPEC, "m"), text)
        finally:
            await text.close()

    expected = pytest.raises(InvalidRequest) if is_configured else contextlib.nullcontext()
    with expected:
        asyncio.run(asyncio.wait_for(check(), 30))


def test_script_is_bound_by_nothing(bounds_of: BoundsOf) -> None:
    chat = ChatSpec(reasoning_parser="qwen3", tool_parser="none", repetition_guard=True)
    spec = ModelSpec(name="m", source="scripted:a.yaml", chat=chat)
    request = ChatRequest("m", tools=(Tool("f"),), tool_choice=ToolChoice("required"))

    bounds = bounds_of(msgspec.structs.replace(request, structure=BAD_SCHEMA), spec, "")

    assert bounds == Bounds(Reading(AnswerFormat("qwen3"), guards_repetition=True))
