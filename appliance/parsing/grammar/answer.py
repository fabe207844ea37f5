"""Say what an answer may be, in the terms of the model that writes it. Pure."""

from dataclasses import replace

import msgspec

from appliance.chat.grammar import Grammar
from appliance.chat.request import ChatRequest, Structure, Tool
from appliance.errors import InvalidRequest
from appliance.parsing.format import CALLS, AnswerFormat, calls_beside_structure
from appliance.parsing.grammar.rules import Rules
from appliance.parsing.grammar.schema import enforceable
from appliance.parsing.grammar.structure import structure_rule
from appliance.parsing.toolbox import Toolbox

_NO_ARGUMENTS = {"type": "object", "properties": {}, "additionalProperties": False}
_MORE = ("{", "}", ",", ";")
"""How that begins which may be read as more of the calls before it, if no mark ends them."""


def bound_form(form: AnswerFormat, request: ChatRequest) -> AnswerFormat:
    """Return how an answer to the request is written and read, where its grammar is kept to.

    Where calls are demanded of a model whose template shows none, they are plain JSON.
    """
    choice, has_structure = request.tool_choice, request.structure is not None
    tools = "json" if choice.is_forced and not CALLS[form.tools] else form.tools
    is_strict = choice.mode == "auto" and any(tool.strict for tool in request.tools)
    has_strict_calls = is_strict and bool(CALLS[tools])
    is_bound = choice.is_forced or has_structure or has_strict_calls
    return replace(form, tools=tools, is_bound=is_bound)


def answer_grammar(request: ChatRequest, form: AnswerFormat) -> Grammar | None:
    """Return what the answer may be behind its thought; None: anything.

    The calls are those that `tool_choice` demands, one or more, or one alone without
    `allows_parallel_calls`; or the text has the form `structure`, or calls stand in its place; or
    the text is free and calls in it are right, if there are strict tools. Arguments are valid for
    their parameters, so far as these can be enforced for tools that are not strict. Raises
    InvalidRequest, which names the field, the keyword and its place, for what cannot be enforced;
    takes some milliseconds for each schema, so call it in a thread.
    """
    form = bound_form(form, request)
    if not form.is_bound:
        return None
    choice, structure = request.tool_choice, request.structure
    has_calls = structure is None or bool(calls_beside_structure(form.tools))
    writer = _Writer(form)
    if choice.is_forced or (choice.mode == "auto" and request.tools and has_calls):
        writer.add_calls(_bound_tools(request), is_single=_is_single(request))
    if choice.is_forced:
        return writer.bound_answer()
    if structure is None:
        return writer.free_answer()
    writer.add_structure(structure)
    return writer.bound_answer()


def _is_single(request: ChatRequest) -> bool:
    return request.tool_choice.mode == "named" or not request.allows_parallel_calls


def _bound_tools(request: ChatRequest) -> Toolbox:
    """Return the tools that may be called, with parameters that can be enforced."""
    choice = request.tool_choice
    tools = [tool for tool in request.tools if choice.mode != "named" or tool.name == choice.name]
    if not tools:
        name = "" if choice.name is None else f" {choice.name!r}"
        raise InvalidRequest(f"There is no tool{name} to call.", param="tool_choice")
    return Toolbox([_bound_tool(tool) for tool in tools])


def _bound_tool(tool: Tool) -> Tool:
    if not tool.parameters:
        return msgspec.structs.replace(tool, parameters=_NO_ARGUMENTS)
    try:
        ready = enforceable(tool.parameters, param="tools", is_strict=bool(tool.strict))
    except InvalidRequest as error:
        raise InvalidRequest(f"Tool {tool.name!r}: {error}", param=error.param) from error
    kind = ready.get("type", "object")
    if kind != "object" and "object" not in kind:
        raise InvalidRequest(f"Tool {tool.name!r}: its parameters are no object.", param="tools")
    return msgspec.structs.replace(tool, parameters={**ready, "type": "object"})


class _Writer:
    """The grammar of one answer under construction. One instance each."""

    def __init__(self, form: AnswerFormat) -> None:
        self._form = form
        self._own = next(iter(CALLS[form.tools]), None)
        self._rules = Rules()
        self._options: list[str] = []
        self._tools = Toolbox()
        self._is_single = False

    def add_calls(self, tools: Toolbox, *, is_single: bool) -> None:
        """Let calls be the answer, as the family itself writes them."""
        assert self._own is not None
        self._tools, self._is_single = tools, is_single
        self._options.append(self._own.grammar(self._rules, tools, is_single=is_single))

    def add_structure(self, structure: Structure) -> None:
        """Let a text of that form be the answer."""
        text = structure_rule(self._rules, structure)
        self._options.append(f"{self._text_opening()} {text}".strip())

    def bound_answer(self) -> Grammar:
        """Return the grammar of an answer that is one of what was added."""
        return self._rules.build(" | ".join(self._options))

    def free_answer(self) -> Grammar:
        """Return the grammar of an answer that is text with calls, which are right.

        In syntaxes without a mark that tells a call from text before it, it is one or the other.
        """
        rules, own, tools = self._rules, self._own, self._tools
        assert own is not None
        calls = self._options[0]
        syntaxes = self._form.syntaxes(has_tools=True)
        marks = [mark for each in syntaxes for mark in each.openings(tools)]
        opening = self._text_opening()
        if opening or own.text_opening is not None:
            return rules.build(f"{calls} | {opening} {self._text_alone(marks)}")
        led = rules.after_text(calls, own.openings(tools))
        text = rules.text_without(marks)
        if own.closings and not self._is_single:
            return rules.build(f"({led})* {text}", marks)
        behind = rules.text_without(marks, () if own.closings else _MORE)
        return rules.build(f"{text} | {led} {behind}", marks)

    def _text_alone(self, marks: list[str]) -> str:
        """Return a text that neither is a call nor has one behind what the reader leaves out."""
        syntaxes = self._form.syntaxes(has_tools=True)
        bare = [each for each in syntaxes if each.text_opening is not None]
        starts = [start for each in bare for start in each.starts(self._tools)]
        thought = self._form.thought
        if starts and thought is not None:
            marks = [*marks, thought.opening]
            starts += [*thought.frames, *(thought.wrapper or ())[:1]]
        return self._rules.text_without(marks, starts)

    def _text_opening(self) -> str:
        """Return the marks that stand before a text that is for the user."""
        own, thought = self._own, self._form.thought
        if own is not None and own.text_opening:
            return self._rules.text(own.text_opening)
        parts = []
        for mark in thought.answer_opening if thought else ():
            # A frame has been written before, by the prompt, unless there was a thought.
            frames = [each for each in thought.frames if mark.startswith(each)] if thought else []
            frame = max(frames, key=len, default="")
            parts += [f"({self._rules.mark(frame)})?"] if frame else []
            parts.append(self._rules.mark(mark.removeprefix(frame)))
        return " ".join(parts)
