"""Say how an answer is read, and what its engine must hold it to."""

import asyncio
from dataclasses import dataclass

import msgspec

from appliance.chat.client import TextProcess
from appliance.chat.grammar import Grammar
from appliance.chat.request import ChatRequest, Thinking, Tool
from appliance.chat.thinking import wants_no_thought
from appliance.chat.traits import Traits
from appliance.engine.wire import ThoughtRule
from appliance.errors import InvalidRequest, ModelNotReady
from appliance.parsing.detect import choose_format
from appliance.parsing.format import AnswerFormat
from appliance.parsing.grammar.answer import answer_grammar, bound_form
from appliance.parsing.grammar.check import check_grammar
from appliance.pipeline.answer import AS_TEXT, Reading
from appliance.registry.lease import Lease
from appliance.registry.wording import Voice


@dataclass(frozen=True, slots=True)
class Bounds:
    """What of a Submit frame bounds the answer, and how it is read; the defaults leave it free."""

    reading: Reading = AS_TEXT
    grammar: Grammar | None = None
    thought: ThoughtRule | None = None
    shown: tuple[str, ...] = ()


def bounded_request(request: ChatRequest, lease: Lease | Voice, text: TextProcess) -> ChatRequest:
    """Return the request with the budget of thought that holds for it; for a ready lease.

    Raises InvalidRequest for one that cannot be kept, and ModelNotReady.
    """
    traits = _traits(request, lease, text)
    has_marks = _form(request, lease, traits).thought is not None
    most = lease.spec.chat.thinking_budget
    thinking = bounded_thinking(request.thinking, traits, most, has_marks=has_marks)
    return msgspec.structs.replace(request, thinking=thinking)


def bounded_thinking(
    thinking: Thinking, traits: Traits, most: int | None, *, has_marks: bool
) -> Thinking:
    """Return the wishes with a budget of at most `most`. Pure.

    It is 0 where no thoughts are wanted of a template that has no switch for them: the mark that
    ends them is then what there is. InvalidRequest names a budget that nothing can keep, since the
    thoughts have no marks.
    """
    is_off, has_switch = wants_no_thought(thinking), traits.thinking_variable is not None
    budgets = [each for each in (thinking.budget, most) if each is not None]
    if has_marks and traits.thinks and is_off and not has_switch:
        budgets.append(0)
    is_lost = traits.thinks and not has_marks and not (is_off and has_switch)
    if is_lost and thinking.budget_param is not None:
        reason = f"{thinking.budget_param}: this model's thoughts have no mark that ends them."
        raise InvalidRequest(reason, param=thinking.budget_param)
    return msgspec.structs.replace(thinking, budget=min(budgets, default=None))


async def check_bounds(request: ChatRequest, lease: Lease | Voice, text: TextProcess) -> None:
    """Raise what `find_bounds` would, if the model's files tell how it writes."""
    try:
        traits = _traits(request, lease, text)
    except ModelNotReady:
        return
    await _find_grammar(request, _form(request, lease, traits))


async def find_bounds(
    request: ChatRequest, lease: Lease | Voice, text: TextProcess, tail: str
) -> Bounds:
    """Return what bounds the answer to a prompt that ends with `tail`; for a ready lease.

    Scripted models are bound by nothing. Raises InvalidRequest naming the field that asks for what
    no grammar can say.
    """
    traits = _traits(request, lease, text)
    form = _form(request, lease, traits)
    reading = Reading(
        form,
        form.begun(tail),
        has_short_ids=traits.spelling.ids == "short",
        guards_repetition=lease.spec.chat.repetition_guard,
    )
    if lease.spec.is_scripted():
        return Bounds(reading)
    grammar = await _find_grammar(request, form)
    rule = thought_rule(request, reading, tail, traits, is_bound=grammar is not None)
    return Bounds(reading, grammar, rule, form.marks())


def thought_rule(
    request: ChatRequest, reading: Reading, tail: str, traits: Traits, *, is_bound: bool
) -> ThoughtRule | None:
    """Return how the thought is told apart, if that matters and there may be one. Pure.

    `is_bound`: the answer has a grammar. `tail` is how the prompt ends.
    """
    thought, budget = reading.form.thought, request.thinking.budget
    if thought is None or (budget is None and not is_bound):
        return None
    is_open = reading.begun == thought.opening
    is_over = tail.rstrip().endswith(thought.closing.rstrip())
    is_off = traits.thinking_variable is not None and wants_no_thought(request.thinking)
    if is_bound and not is_open and (is_over or is_off):
        return None  # the form begins at once: a thought that nobody wants has no place before it
    tools = () if is_bound or request.tool_choice.mode == "none" else request.tools
    bare = tuple(Tool(tool.name, parameters=tool.parameters) for tool in tools)
    return ThoughtRule(reading.form, reading.begun, budget, bare)


def _traits(request: ChatRequest, lease: Lease | Voice, text: TextProcess) -> Traits:
    """Return what the template can do; a script, and a prompt without messages, has none."""
    if lease.spec.is_scripted() or request.prompt is not None:
        return Traits()
    return text.traits(lease.text_name)


def _form(request: ChatRequest, lease: Lease | Voice, traits: Traits) -> AnswerFormat:
    """Return how the model writes; what goes on with a prompt without messages is all text."""
    has_messages = request.prompt is None
    form = choose_format(lease.spec.chat, traits) if has_messages else AnswerFormat()
    return form if lease.spec.is_scripted() else bound_form(form, request)


async def _find_grammar(request: ChatRequest, form: AnswerFormat) -> Grammar | None:
    """Return what the answer must follow, None if it is free.

    It is made in a thread, as schemas can be large.
    """
    return await asyncio.to_thread(_make_grammar, request, form) if form.is_bound else None


def _make_grammar(request: ChatRequest, form: AnswerFormat) -> Grammar | None:
    grammar = answer_grammar(request, form)
    if grammar is None:
        return None
    param = "tools" if request.structure is None else request.structure.param
    check_grammar(grammar, param)
    return msgspec.structs.replace(grammar, param=param)
