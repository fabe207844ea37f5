"""Try a chat template on small conversations, to find out what it can show and how.

It is a program of somebody else's: call this where one that never ends can be ended.
"""

import re
from collections.abc import Iterable
from itertools import product
from typing import Any, Literal

from msgspec.structs import replace

from appliance.chat.request import Message, Tool, ToolCall
from appliance.chat.sample import take_samples
from appliance.chat.template import ChatTemplate
from appliance.chat.traits import EFFORTS, Spelling, Traits
from appliance.errors import InvalidRequest

_SYSTEM = Message("system", "systemmark")
_LATER_SYSTEM = Message("system", "latermark")
_ASK = Message("user", "askmark")
_ASK_AGAIN = Message("user", "againmark")
_SAY = Message("assistant", "saymark")
_SAY_MORE = Message("assistant", "moremark")
_CALL = ToolCall("call_one_0001", "lookmark", '{"wherekey": "placemark"}')
_NEXT_CALL = ToolCall("call_two_0002", "lookmark", '{"wherekey": "nextmark"}')
_BROKEN_CALL = ToolCall("call_one_0001", "lookmark", "brokenmark")
_DO = Message("assistant", tool_calls=(_CALL,))
_DO_BOTH = Message("assistant", tool_calls=(_CALL, _NEXT_CALL))
_THOUGHT = "thoughtmark"
_DO_ALL = Message("assistant", "saymark", tool_calls=(_CALL,), thought=_THOUGHT)
_DO_BROKEN = Message("assistant", tool_calls=(_BROKEN_CALL,))
_GOT = Message("tool", "gotmark", name="lookmark", tool_call_id="call_one_0001")
_GOT_NEXT = Message("tool", "laststep", name="lookmark", tool_call_id="call_two_0002")

_PLACE = {"placekey": {"type": "string"}}
_BARE_TOOLS = (
    Tool("lookmark"),
    Tool("waitmark", parameters={"type": "object", "properties": _PLACE}),
)
_TOOL = Tool(
    "lookmark",
    "describemark",
    {
        "type": "object",
        "properties": {"placekey": {"type": "string", "description": "where"}},
        "required": ["placekey"],
    },
)

_THOUGHT_KEYS = ("reasoning_content", "reasoning", "thinking", "thought")
_SWITCHES: tuple[tuple[str, bool | int | str, bool | int | str], ...] = (
    ("enable_thinking", True, False),
    ("thinking", True, False),
    ("reasoning", True, False),
    ("thinking_mode", "enabled", "disabled"),
    ("thinking_budget", -1, 0),
    ("reasoning_effort", "high", "no_think"),
)
_EFFORT_VARIABLES = ("reasoning_effort", "thinking_effort")
_USUAL_EFFORTS = ("low", "medium", "high")
_NO_EFFORT = "nosuchword"
_NUMBERED = "<|tool_call_begin|>"
_END_OF_THOUGHT = re.compile(r"</(seed:)?think(ing)?>|\[/THINK\]|END_THINKING|>analysis")


def find_traits(template: ChatTemplate) -> Traits:
    """Return what `template` can show; the defaults if it is none."""
    source = template.source
    if not source:
        return Traits()
    trial = _Trial(template)
    trial.find_spelling()
    traits = trial.find_thinking(Traits(template=source))
    return trial.find_samples(trial.find_conversations(traits))


class _Trial:
    """One template that is being tried, with the spelling found so far."""

    def __init__(self, template: ChatTemplate) -> None:
        self._template = template
        self._source = template.source
        self._spelling = Spelling()
        self._values: dict[str, Any] = {}
        self._tools: tuple[Tool, ...] = ()

    def _text(self, *messages: Message, tools: tuple[Tool, ...] = ()) -> str | None:
        """Return what the template makes of it, None if it refuses."""
        return self._render(messages, tools, self._values)

    def _text_with(self, name: str, value: object) -> str | None:
        """Return what the template makes of a question, with a variable of its own."""
        return self._render((_ASK,), (), self._values | {name: value})

    def _render(
        self, messages: tuple[Message, ...], tools: tuple[Tool, ...], values: dict[str, Any]
    ) -> str | None:
        try:
            return self._template.render(messages, tools, values, self._spelling)
        except InvalidRequest:
            return None

    def _shows(self, *messages: Message, tools: tuple[Tool, ...] = ()) -> bool:
        """Say whether the prompt has all texts, arguments and results, in their order."""
        text = self._text(*messages, tools=tools)
        return text is not None and _is_in_order(text, _marks(messages))

    def _answers(self, *messages: Message) -> bool:
        """Say whether the prompt shows what comes behind a call, whatever it shows of the call."""
        text = self._text(_ASK, _DO, *messages, tools=self._tools)
        return text is not None and _is_in_order(text, _marks(messages))

    def _trips(self, *messages: Message) -> bool:
        """Say whether the prompt has all of the messages while tools are declared."""
        return self._shows(*messages, tools=self._tools)

    def _try(self, *spellings: Spelling) -> Iterable[Spelling]:
        """Set one spelling after the other; who stops leaves the last one in force."""
        for self._spelling in spellings:
            yield self._spelling

    def find_spelling(self) -> None:
        """Find what has to be found first: how to write anything at all, tools and calls."""
        usual = Spelling()
        plain = (usual, Spelling(lists_no_tools=True), Spelling(has_functions=True))
        if not any(self._text(_ASK) for _ in self._try(*plain)):
            self._spelling = usual
        self._find_tools()
        before = self._spelling
        forms = [
            replace(before, has_null_content=is_null, ids=ids, arguments=arguments)
            for is_null, ids, arguments in product(
                (False, True), ("any", "short"), ("object", "text")
            )
        ]
        if not any(self._shows_call() for _ in self._try(*forms)):
            self._spelling = before
        elif self._spelling.arguments == "object" and not self._trips(_ASK, _DO_BROKEN, _GOT):
            self._spelling = replace(self._spelling, arguments="mapping")
        if self._numbers_calls():
            self._spelling = replace(self._spelling, ids="numbered")

    def _find_tools(self) -> None:
        before = self._spelling
        forms = [
            replace(before, tools=tools, fills_tools=fills)
            for fills, tools in product((False, True), ("nested", "flat"))
        ]
        if any(self._shows_tools(*_BARE_TOOLS) for _ in self._try(*forms)):
            self._tools = (_TOOL,)
        else:
            self._spelling = before

    def _shows_tools(self, *tools: Tool) -> bool:
        text = self._text(_ASK, tools=tools) or ""
        return all(tool.name in text for tool in tools)

    def _shows_call(self) -> bool:
        whole = self._text(_ASK, _DO, _GOT, tools=self._tools)
        text = whole or self._text(_ASK, _DO, tools=self._tools)
        # A mapping that is written as Python writes it is not what the model was taught.
        return text is not None and "placemark" in text and "'wherekey'" not in text

    def _numbers_calls(self) -> bool:
        """Say whether a call's id is where the family of Kimi K2 has the place of the call."""
        text = self._text(_ASK, _DO, tools=self._tools) or ""
        return any(f"{_NUMBERED}{id}<|" in text for id in ("functions.lookmark:0", _CALL.id))

    def find_thinking(self, traits: Traits) -> Traits:
        """Find how thoughts are switched, and how earlier ones are shown."""
        for name, on, off in _SWITCHES:
            if name not in self._source or (isinstance(off, str) and off not in self._source):
                continue
            texts = [self._text_with(name, value) for value in (on, off)]
            if None not in texts and texts[0] != texts[1]:
                traits = replace(traits, thinking_variable=name, thinking_on=on, thinking_off=off)
                self._values = {name: on}
                break
        traits = self._find_efforts(traits)
        self._find_thought()
        thinks = (
            traits.thinking_variable is not None
            or traits.effort_variable is not None
            or self._spelling.thought is not None
            or _THOUGHT_KEYS[0] in self._source
            or _END_OF_THOUGHT.search(self._source) is not None
        )
        return replace(traits, thinks=thinks)

    def _find_efforts(self, traits: Traits) -> Traits:
        for name in _EFFORT_VARIABLES:
            if name not in self._source:
                continue
            words = (*EFFORTS, _NO_EFFORT)
            texts = {word: self._text_with(name, word) for word in words}
            known = {text for text in texts.values() if text is not None}
            efforts = tuple(word for word in EFFORTS if _is_effort(word, texts))
            if len(known) > 1 and efforts:
                return replace(traits, effort_variable=name, efforts=efforts)
        return traits

    def _find_thought(self) -> None:
        before = self._spelling
        names = [key for key in _THOUGHT_KEYS if key in self._source]
        names += ["blocks"] if "'thinking'" in self._source else []
        forms = [replace(before, thought=name) for name in names]
        if not any(self._shows_thought() for _ in self._try(*forms)):
            self._spelling = before

    def _shows_thought(self) -> bool:
        earlier = self._text(_ASK, replace(_SAY, thought=_THOUGHT), _ASK_AGAIN)
        calling = self._text(_ASK, replace(_DO, thought=_THOUGHT), _GOT, tools=self._tools)
        return any(text is not None and _THOUGHT in text for text in (earlier, calling))

    def find_conversations(self, traits: Traits) -> Traits:
        """Find which messages may follow which; the last, since it needs all the rest."""
        self._values = {}
        has_calls = self._shows_call()
        return replace(
            traits,
            spelling=self._spelling,
            shows_tools=bool(self._tools),
            system=self._count_system(),
            late_system=self._takes_late_system(),
            repeats=self._shows(_ASK, _ASK_AGAIN)
            and self._shows(_ASK, _SAY, _SAY_MORE, _ASK_AGAIN),
            answer_first=self._shows(_SAY, _ASK)
            and (not has_calls or self._trips(_DO, _GOT, _SAY, _ASK)),
            needs_question=self._needs_question(),
            calls=has_calls,
            results=self._answers(_GOT),
            parallel_calls=self._trips(_ASK, _DO_BOTH, _GOT, _GOT_NEXT),
            text_beside_call=self._trips(_ASK, replace(_DO, content="saymark"), _GOT),
            thought_beside_call=self._text(_ASK, _DO_ALL, _GOT, tools=self._tools) is not None,
            question_after_result=self._answers(_GOT, _ASK_AGAIN),
        )

    def find_samples(self, traits: Traits) -> Traits:
        """Take down how answers are written; with the spelling that all the rest has found."""
        return replace(traits, samples=take_samples(self._render, traits))

    def _count_system(self) -> Literal["none", "one", "several"]:
        if self._shows(_SYSTEM, _LATER_SYSTEM, _ASK):
            return "several"
        asked = self._text(_SYSTEM, _ASK) or ""
        # Some show it beside the last message only, and only if that is a question.
        called = self._text(_SYSTEM, _ASK, _DO, _GOT, tools=self._tools) or asked
        has_all = "systemmark" in asked and "systemmark" in called and "askmark" in asked
        return "one" if has_all else "none"

    def _needs_question(self) -> bool:
        declared = self._text(_SYSTEM, tools=self._tools) or ""
        return not (
            self._shows(_SYSTEM, _SAY)
            and self._shows(_SYSTEM)
            and all(tool.name in declared for tool in self._tools)
        )

    def _takes_late_system(self) -> bool:
        return (
            self._shows(_ASK, _SAY, _LATER_SYSTEM, _ASK_AGAIN)
            and self._shows(_SYSTEM, _ASK, _SAY, _LATER_SYSTEM, _ASK_AGAIN)
            and self._shows(_SYSTEM, _ASK, _LATER_SYSTEM)
        )


def _is_in_order(text: str, marks: Iterable[str]) -> bool:
    position = 0
    for mark in marks:
        position = text.find(mark, position) + 1
        if position == 0:
            return False
    return True


def _marks(messages: Iterable[Message]) -> Iterable[str]:
    """Yield what the prompt for `messages` must have, in its order."""
    for message in messages:
        if message.content:
            yield message.content
        for call in message.tool_calls:
            yield next(
                mark for mark in ("placemark", "nextmark", "brokenmark") if mark in call.arguments
            )


def _is_effort(word: str, texts: dict[str, str | None]) -> bool:
    """Say whether a template knows an effort: by refusing others, or by doing more than show it."""
    text, other = texts[word], texts[_NO_EFFORT]
    if text is None:
        return False
    if other is None or word in _USUAL_EFFORTS:
        return True
    return text.replace(word, "") != other.replace(_NO_EFFORT, "")
