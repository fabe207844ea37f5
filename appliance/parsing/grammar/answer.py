"""Say what an answer may be, in the terms of the model that writes it. Pure."""

from dataclasses import replace

import msgspec

from appliance.chat.grammar import Grammar
from appliance.chat.request import ChatRequest, Structure, Tool
from appliance.errors import InvalidRequest
from appliance.parsing.call.named import NamedSyntax
from appliance.parsing.format import CALLS, AnswerFormat
from appliance.parsing.grammar.rules import Rules
from appliance.parsing.grammar.schema import enforceable
from appliance.parsing.grammar.structure import structure_rule
from appliance.parsing.syntax import CallSyntax
from appliance.parsing.toolbox import Toolbox

_NO_ARGUMENTS = {"type": "object", "properties": {}, "additionalProperties": False}


def forced_form(form: AnswerFormat, request: ChatRequest) -> AnswerFormat:
    """Return how an answer to the request is written and read.

    Where calls are demanded of a model whose template shows none, they are plain JSON.
    """
    is_forced = request.tool_choice.mode in ("required", "named")
    return replace(form, tools="json") if is_forced and not CALLS[form.tools] else form


def answer_grammar(request: ChatRequest, form: AnswerFormat) -> Grammar | None:
    """Return what the answer may be behind its thought; None: anything.

    The calls are those that `tool_choice` demands, one or more, or one alone without
    `allows_parallel_calls`; or the text has the form `structure`, or calls stand in its place; or
    the text is free and calls in it are right, if there are strict tools. Arguments are valid for
    their parameters, so far as these can be enforced for tools that are not strict. Raises
    InvalidRequest, which names the field, the keyword and its place, for what cannot be enforced;
    takes some milliseconds for each schema, so call it in a thread.
    """
    mode = request.tool_choice.mode
    syntaxes = CALLS[forced_form(form, request).tools]
    is_forced = mode in ("required", "named")
    has_calls = is_forced or (mode == "auto" and bool(request.tools) and bool(syntaxes))
    is_free = not is_forced and request.structure is None
    if is_free and not (has_calls and any(tool.strict for tool in request.tools)):
        return None
    writer = _Writer(form)
    if has_calls:
        writer.add_calls(syntaxes, _bound_tools(request), is_single=_is_single(request))
    if is_free:
        return writer.free_answer()
    if not is_forced and request.structure is not None:
        writer.add_structure(request.structure)
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
        self._rules = Rules()
        self._options: list[str] = []
        self._calls = ""
        self._syntaxes: tuple[CallSyntax, ...] = ()
        self._tools = Toolbox()
        self._is_single = False

    def add_calls(
        self, syntaxes: tuple[CallSyntax, ...], tools: Toolbox, *, is_single: bool
    ) -> None:
        """Let calls be the answer, in the first of the syntaxes."""
        self._syntaxes, self._tools, self._is_single = syntaxes, tools, is_single
        self._calls = syntaxes[0].grammar(self._rules, tools, is_single=is_single)
        self._options.append(self._calls)

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
        rules, own = self._rules, self._syntaxes[0]
        openings = [mark for each in self._syntaxes for mark in each.openings(self._tools)]
        opening = self._text_opening()
        led = None if opening else rules.after_text(self._calls, own.openings(self._tools))
        if led is not None:
            text = rules.text_without(dict.fromkeys(openings))
            return rules.build(f"({led}){'?' if self._is_single else '*'} {text}")
        starts = () if opening else own.starts(self._tools)
        text = rules.text_without(dict.fromkeys(openings), starts)
        return rules.build(f"{self._options[0]} | {opening} {text}")

    def _text_opening(self) -> str:
        """Return the marks that stand before a text that is for the user."""
        own, thought = next(iter(CALLS[self._form.tools]), None), self._form.thought
        if isinstance(own, NamedSyntax) and own.is_begun:
            return self._rules.text(own.speech)
        parts = []
        for mark in thought.answer_opening if thought else ():
            # A frame has been written before, by the prompt, unless there was a thought.
            frames = [each for each in thought.frames if mark.startswith(each)] if thought else []
            frame = max(frames, key=len, default="")
            parts += [f"({self._rules.mark(frame)})?"] if frame else []
            parts.append(self._rules.mark(mark.removeprefix(frame)))
        return " ".join(parts)
