"""Say by what each family's calls are rendered, and which of them its syntax can write at all."""
# ruff: noqa: RUF001 - the bars of these tokens are no pipes

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from dataclasses import replace as changed
from functools import cache
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from appliance.chat.probe import find_traits
from appliance.chat.request import Message, Tool, ToolCall
from appliance.chat.sample import answer_text
from appliance.chat.template import ChatTemplate
from appliance.manifest.spec import ChatSpec
from appliance.parsing.detect import choose_format
from appliance.parsing.format import AnswerFormat
from tests.chat.gallery import SPECIAL_TOKENS, Template, read_sources
from tests.parsing.proof import reference
from tests.parsing.proof.call_set import CallSet, Reach, Value

DETECTED = Path(__file__).parent.parent / "golden" / "detected.txt"
"""What is found out about every template; `python -m tests.parsing.proof.detection` writes it."""

_ASK = Message("user", "askmark")
_PLACE = {"placekey": {"type": "string", "description": "where"}}
_TOOL = Tool("lookmark", "look", {"type": "object", "properties": _PLACE, "required": []})

_ENDS = re.compile(
    r"<[|｜]?(im_end|END_OF_TURN_TOKEN|START_OF_TURN_TOKEN|eo[tm]_id|eo[tm]|end_of_(text|sentence|msg)"
    r"|end▁of▁sentence|end|calls|message_sep|role_end|SPECIAL_12|hy_eos:opensource|tool_response"
    r"|seed:eos|turn|/s|/assistant)[|｜]?>|<sep>|\[e~\["
)
"""What ends a turn: a special token of the model, at which its text has ended."""
_LAST_END = re.compile(rf"({_ENDS.pattern})\s*\Z")


@dataclass(frozen=True)
class Family:
    """One template's, or one reference's, way of writing the calls of a format."""

    name: str
    form: AnswerFormat
    reach: Reach
    write: Callable[[CallSet], str] = field(repr=False)
    prompt_tail: str = ""

    def begun(self, each: CallSet, text: str) -> str:
        """Return the mark with which the prompt began this answer.

        One without a thought goes on with a thought that was begun only if it closes it.
        """
        begun, thought = self.form.begun(self.prompt_tail), self.form.thought
        if thought is None or begun != thought.opening or each.thought:
            return begun
        return begun if text.lstrip().startswith(thought.closing) else ""


class _Writer:
    """Renders answers by a model's own chat template."""

    def __init__(self, name: str) -> None:
        template = ChatTemplate({"default": read_sources()[name]}, SPECIAL_TOKENS, name)
        self.traits = find_traits(template)
        self._template = Template(name, template, self.traits)
        variable = self.traits.thinking_variable
        self._values: dict[str, Any] = {variable: self.traits.thinking_on} if variable else {}
        self.prompt = self._render((_ASK,))
        self._end = self._find_end()

    def write(self, each: CallSet) -> str:
        """Return the answer as it stands behind `prompt`, or behind most of it."""
        calls = tuple(
            ToolCall(f"call_{number}_0001", name, json.dumps(arguments))
            for number, (name, arguments) in enumerate(each.calls)
        )
        turn = Message("assistant", each.before or None, thought=each.thought or None)
        text = self._answer(replace(turn, tool_calls=calls)).removesuffix(self._end)
        text = _LAST_END.sub("", text)
        return f"{text}\n{each.after}" if each.after else text

    def places(self) -> tuple[bool, bool]:
        """Say whether thoughts, and texts, stand before a call in the same turn."""
        call = (ToolCall("call_0_0001", "lookmark", "{}"),)
        shown = []
        for turn in (Message("assistant", thought="saidmark"), Message("assistant", "saidmark")):
            text = self._answer(replace(turn, tool_calls=call))
            _, mark, rest = text.partition("saidmark")
            shown.append(bool(mark) and "lookmark" in _ENDS.split(rest)[0])
        return shown[0], shown[1]

    def _answer(self, turn: Message) -> str:
        whole = self._render((_ASK, turn), add_generation_prompt=False)
        text = answer_text(self.prompt, whole)
        return text.removeprefix("<|CHATBOT_TOKEN|>").removeprefix("\n")

    def _find_end(self) -> str:
        """Return what follows a call where the model has ended."""
        call = ToolCall("call_0_0001", "lookmark", '{"placekey": "placemark"}')
        text = self._answer(Message("assistant", tool_calls=(call,)))
        behind = text.rpartition("placemark")[2]
        end = _ENDS.search(behind)
        return behind[end.start() :] if end else ""

    def _render(self, messages: tuple[Message, ...], **values: object) -> str:
        tools = (_TOOL,) if self.traits.shows_tools else ()
        values = self._values | values
        return self._template.template.render(messages, tools, values, self.traits.spelling)


def _tagged(*closings: str) -> Callable[[str, Value, int], bool]:
    """Return what texts between tags can say.

    None that has the closing tag in it, nor the text `null` where null may be meant.
    """

    def can_say(kind: str, value: Value, depth: int) -> bool:
        if kind == "text_or_null" and value == "null":
            return False
        return not (isinstance(value, str) and any(closing in value for closing in closings))

    return can_say


def _without(*marks: str) -> Callable[[str, Value, int], bool]:
    """Return what texts can say between quotes, where nothing is escaped."""
    return lambda kind, value, depth: (
        not (isinstance(value, str) and any(mark in value for mark in marks))
    )


def _nested_tags(kind: str, value: Value, depth: int) -> bool:
    """Say what MiniMax M3 can: tags within tags, where nothing is neither a list nor an object."""
    if isinstance(value, dict | list):
        return bool(value)
    return value is not None and _tagged("]<]minimax[>[")(kind, value, 0)


_ANY = Reach(has_thoughts=True)
_ALONE = Reach(has_before=False, has_after=False)
"""Where bare JSON, or bare Python, is all there is in an answer."""
_TAGGED = Reach(can_say=_tagged("</parameter>"), has_thoughts=True)
_KEYED = changed(_TAGGED, can_say=_tagged("</arg_value>"))
_DSML = changed(_TAGGED, can_say=_tagged("</｜DSML｜parameter>"))
_LAST = Reach(has_after=False, has_thoughts=True)
"""Where a text behind a call would be a turn, or a message, of its own."""

_REACHES = {
    "ByteDance-Seed-OSS": _TAGGED,
    "CohereForAI-c4ai-command-r-plus-tool_use": Reach(can_say=_without("\u2028")),
    "GLM-4.6": _KEYED,
    "GLM-4.7-Flash": _KEYED,
    "Kimi-K3": Reach(can_say=_tagged("<|close|>argument<|sep|>"), has_thoughts=True),
    "LFM2.5-8B-A1B": Reach(can_say=_without("'", "\\", "\n"), has_thoughts=True),
    "MiniMax-M2": _TAGGED,
    "MiniMax-M3": Reach(can_say=_nested_tags, has_thoughts=True),
    "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": _TAGGED,
    "Qwen3-Coder": _TAGGED,
    "Qwen3.5-4B": _TAGGED,
    "Spark2.5": _KEYED,
    "StepFun3.5-Flash": _TAGGED,
    "deepseek-ai-DeepSeek-V3.2": _DSML,
    "deepseek-ai-DeepSeek-V4": _DSML,
    "deepseek-ai-DeepSeek-V4-Flash-0731": _DSML,
    "deepseek-ai-DeepSeek-R1-Distill-Llama-8B": changed(_ANY, most_calls=2),
    "google-gemma-4-31B-it": Reach(can_say=_without('<|"|>'), sorts_keys=True, has_thoughts=True),
    "google-gemma-4-31B-it-interleaved": Reach(
        can_say=_without('<|"|>'), sorts_keys=True, has_thoughts=True
    ),
    "inclusionai-ling-3.0-flash": _KEYED,
    "meetkai-functionary-medium-v3.2": _LAST,
    "meta-llama-Llama-3.1-8B-Instruct": _ALONE,
    "meta-llama-Llama-3.2-3B-Instruct": _ALONE,
    "meta-llama-Llama-3.3-70B-Instruct": _ALONE,
    "muse-glimmer": Reach(can_say=_tagged("</atem:parameter>"), has_after=False),
    "openai-gpt-oss-120b": _LAST,
    "openbmb-MiniCPM5-1B": Reach(can_say=_tagged("]]>", "</param>"), has_thoughts=True),
    "poolside-Laguna-S-2.1": _KEYED,
    "poolside-Laguna-XS-2.1": _KEYED,
    "poolside-Laguna-XS.2": _KEYED,
    "tencent-Hy3": Reach(can_say=_tagged("</arg_value:opensource>"), has_thoughts=True),
    "upstage-Solar-Open-100B": _LAST,
}
"""What templates can write that cannot write everything."""

REFERENCES: dict[str, tuple[str, Reach, Callable[[CallSet], str]]] = {
    "granite 3": ("granite", Reach(), reference.listed("<|tool_call|>", "")),
    "hunyuan a13b": ("hunyuan", Reach(), reference.listed("<tool_calls>", "</tool_calls>")),
    "internlm": (
        "internlm",
        Reach(),
        reference.repeated("<|action_start|><|plugin|>\n", "<|action_end|>", "", "parameters"),
    ),
    "json": ("json", _ALONE, reference.repeated("", "", "\n")),
    "xlam": ("xlam", _ALONE, reference.listed("", "")),
    "phi4": ("phi4", Reach(), reference.listed("<|tool_call|>", "<|/tool_call|>")),
    "pythonic": ("pythonic", _ALONE, reference.python_list("", "")),
    "llama4": ("llama4", Reach(), reference.python_list("<|python_start|>", "<|python_end|>")),
    "lfm2": ("lfm2", Reach(), reference.python_list("<|tool_call_start|>", "<|tool_call_end|>")),
    "function gemma": ("function_gemma", Reach(), reference.said(reference.function_gemma)),
    "gemma3": ("gemma3", Reach(), reference.said(reference.gemma3)),
}
"""Formats of which no template at hand shows calls: their name, reach and writer."""


def names() -> tuple[str, ...]:
    """Return the names of the templates that write calls."""
    lines = DETECTED.read_text().splitlines()
    return tuple(line.split()[0] for line in lines if line.endswith(" sample"))


def main_names() -> tuple[str, ...]:
    """Return the names of one family for each way of writing."""
    lines = [line.split() for line in DETECTED.read_text().splitlines()]
    shown = {tools: name for name, _, tools, how in reversed(lines) if how == "sample"}
    shown |= {tools: name for name, (tools, _, _) in REFERENCES.items() if tools not in shown}
    return tuple(shown[tools] for tools in sorted(shown))


@cache
def family(name: str) -> Family:
    """Return a family; one whose template is at hand is written by that."""
    if name in REFERENCES:
        tools, reach, write = REFERENCES[name]
        return Family(name, AnswerFormat("none", tools), reach, write)
    return _template(name, _REACHES.get(name, _ANY))


def _template(name: str, reach: Reach) -> Family:
    writer = _Writer(name)
    form = choose_format(ChatSpec(), writer.traits)
    has_thoughts, has_before = writer.places()
    reach = changed(
        reach,
        has_thoughts=reach.has_thoughts and has_thoughts and form.reasoning != "none",
        has_before=reach.has_before and has_before,
        most_calls=reach.most_calls if writer.traits.parallel_calls else 1,
    )
    return Family(name, form, reach, writer.write, writer.prompt[-256:])
