"""Choose how a model's answers are read, by trying what its chat template writes itself."""
# ruff: noqa: RUF001 - the bars of these tokens are no pipes

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import msgspec
from llguidance import LLMatcher

from appliance.chat.sample import (
    NESTED_ARGUMENTS,
    NEXT_ARGUMENTS,
    SAMPLE_ARGUMENTS,
    SAMPLE_THOUGHT,
    SAMPLE_TOOL,
)
from appliance.chat.traits import Samples, Traits
from appliance.manifest.spec import ChatSpec
from appliance.parsing.format import CALLS, THOUGHTS, AnswerFormat, ThoughtFormat
from appliance.parsing.grammar.check import byte_tokenizer, spelled_out
from appliance.parsing.grammar.rules import Rules
from appliance.parsing.parsed import CallArguments, CallClosed, CallOpened, Parsed, Text, Thought
from appliance.parsing.parser import AnswerParser
from appliance.parsing.syntax import CallSyntax
from appliance.parsing.toolbox import Toolbox

_TOOLS = Toolbox([SAMPLE_TOOL])

_TOOL_MARKS = (
    ("｜DSML｜", "deepseek_v32"),
    ("]<]minimax[>[", "minimax_m3"),
    ("<minimax:tool_call>", "minimax_m2"),
    ("<seed:tool_call>", "seed"),
    ("<|tools_prefix|>", "apertus"),
    ("<|tool_call:begin|>", "solar"),
    ("<|tool_call_argument_begin|>", "kimi_k2"),
    ("<|open|>", "kimi_k3"),
    ("<atem:invoke", "muse"),
    ("<function name=", "minicpm5"),
    ("tool_sep", "hunyuan"),
    ("<tool_calls>[", "apriel"),
    ("<｜tool▁sep｜>", "deepseek_v31"),
    ("</assistant>", "poolside"),
    ("<arg_key>", "glm47"),
    ("<parameter=", "qwen3_coder"),
    ("<|channel|>commentary", "harmony"),
    ("<|tool_call>call:", "gemma4"),
    ("<TOOLCALL>", "nemotron"),
    ("[TOOL_CALLS]", "mistral"),
    ("<|START_ACTION|>", "cohere"),
    ("Action:", "command_r"),
    ("<|function_call|>", "gigachat"),
    ("function call", "gigachat_v3"),
    ("functools[", "functools"),
    ("<function=", "functionary_v31"),
    (">>>", "functionary"),
    ("<|tool_call_start|>", "lfm2"),
    ("List of tools: ", "lfm2"),
    ("<|tool_call|>", "granite"),
    ("<|python_start|>", "llama4"),
    ("Respond in the format {", "llama3"),
    ("```tool_code", "gemma3"),
    ("<tool_call>", "hermes"),
    ("<tool_calls>", "minimax_m1"),
)
"""What only one family's template has in its text, and then what others have that are built on it.

For templates that write no calls, and for models that were not tried yet.
"""

_KIN = {
    "deepseek_v3": "deepseek_r1",
    "deepseek_v31": "deepseek_r1",
    "deepseek_v32": "deepseek_r1",
    "deepseek_v4": "deepseek_r1",
    "glm45": "glm",
    "glm47": "glm",
    "kimi_k2": "kimi",
    "minimax_m2": "minimax",
}
"""Whose thoughts a family's are, where several families write them alike."""


def choose_format(chat: ChatSpec, traits: Traits) -> AnswerFormat:
    """Return the format that the manifest names; `auto` is the one that the template shows.

    That is the one whose own way of writing reads back the calls, and the thought, that the
    template has written into `traits.samples`; of several that do so the one whose grammar is the
    closest, which tells white space apart, and then the first of the table. Where the template
    wrote none, and while a model was not tried yet, marks in its text tell.
    """
    reasoning, tools = chat.reasoning_parser, chat.tool_parser
    if "auto" not in (reasoning, tools):
        return AnswerFormat(reasoning, tools)
    found = _find_format(traits.template, traits.samples)
    return AnswerFormat(
        found.reasoning if reasoning == "auto" else reasoning,
        found.tools if tools == "auto" else tools,
    )


@lru_cache(maxsize=256)
def _find_format(template: str, samples: Samples) -> AnswerFormat:
    thoughts = _find_thoughts(template, samples)
    tools = _find_tools(template, samples, thoughts[0])
    kin = _KIN.get(tools, tools)
    return AnswerFormat(kin if kin in thoughts else thoughts[0], tools)


def _find_thoughts(template: str, samples: Samples) -> Sequence[str]:
    """Return the ways of writing thoughts that there are the most signs of."""
    signs: tuple[Callable[[str, ThoughtFormat], bool], ...] = (
        lambda name, _: _reads_thought(name, samples),
        lambda _, thought: _begins_answer(thought, samples),
        lambda _, thought: _is_told_of(thought, template),
    )
    for is_shown in signs:
        found = [name for name, thought in THOUGHTS.items() if thought and is_shown(name, thought)]
        if found:
            return found
    return ("none",)


def _reads_thought(name: str, samples: Samples) -> bool:
    form = AnswerFormat(name)
    readings = _readings(form, samples.thought, samples)
    return any(read.thought == SAMPLE_THOUGHT for read in readings)


def _begins_answer(thought: ThoughtFormat, samples: Samples) -> bool:
    """Say whether prompts end with such a thought: begun, or already over."""
    return samples.thinking_tail.rstrip().endswith(
        thought.opening.rstrip()
    ) or samples.plain_tail.rstrip().endswith(thought.closing)


def _is_told_of(thought: ThoughtFormat, template: str) -> bool:
    """Say whether a template's text, which may tell the model how to answer, has its marks."""
    has_opening = thought.is_implied or thought.opening.rstrip() in template
    return has_opening and thought.closing in template


def _find_tools(template: str, samples: Samples, reasoning: str) -> str:
    shown = next((name for mark, name in _TOOL_MARKS if mark in template), "none")
    names = [name for name, syntaxes in CALLS.items() if syntaxes and samples.call]
    for form, is_clean in ((_OwnFormat, True), (_OwnFormat, False), (AnswerFormat, False)):
        forms = (form(reasoning, name) for name in names)
        found = [each for each in forms if _reads_calls(each, samples, is_clean=is_clean)]
        if found:
            return _closest(found, samples, shown)
    return shown


def _closest(forms: list[AnswerFormat], samples: Samples, shown: str) -> str:
    """Return the name of which the grammar allows the most of what the template wrote.

    Of several that allow as much it is `shown`, and else the first.
    """
    if len(forms) == 1:
        return forms[0].tools
    lengths = {each.tools: _allowed_length(each, samples.calls or samples.call) for each in forms}
    return max(lengths, key=lambda name: (lengths[name], name == shown))


def _allowed_length(form: AnswerFormat, text: str) -> int:
    """Return how many bytes of an answer's calls a format's grammar allows."""
    syntax = form.syntaxes(has_tools=True)[0]
    rules = Rules()
    grammar = rules.build(syntax.grammar(rules, _TOOLS, is_single=False))
    lark = LLMatcher.grammar_from_lark(spelled_out(grammar))
    starts = [at for mark in syntax.openings(_TOOLS) if (at := text.find(mark)) >= 0]
    tokens = text[min(starts, default=0) :].encode()
    return LLMatcher(byte_tokenizer(), lark, log_level=0).try_consume_tokens(list(tokens))


def _reads_calls(form: AnswerFormat, samples: Samples, *, is_clean: bool) -> bool:
    """Say whether the calls are read back exactly; `is_clean`: and nothing is left before them."""
    one = NESTED_ARGUMENTS if "innerkey" in samples.call else SAMPLE_ARGUMENTS
    expected = {samples.call: [one], samples.calls: [SAMPLE_ARGUMENTS, NEXT_ARGUMENTS]}
    return all(
        any(
            read.calls == arguments and not (is_clean and read.before.strip())
            for read in _readings(form, text, samples)
        )
        for text, arguments in expected.items()
        if text
    )


@dataclass
class _Reading:
    """What an answer was read as; calls are their arguments."""

    thought: str
    before: str
    calls: list[dict[str, Any]]


def _readings(form: AnswerFormat, text: str, samples: Samples) -> Iterator[_Reading]:
    """Yield what an answer is: as it goes on with what the prompt had begun, and as it stands."""
    for begun in dict.fromkeys((form.begun(samples.thinking_tail), "")):
        parser = AnswerParser(form, _TOOLS, begun=begun)
        yield _fold(parser.feed(text) + parser.end())


def _fold(pieces: list[Parsed]) -> _Reading:
    thought = before = ""
    calls: list[str] = []
    for piece in pieces:
        match piece:
            case Thought():
                thought += piece.text
            case Text() if not calls:
                before += piece.text
            case CallOpened():
                calls.append("")
            case CallArguments():
                calls[-1] += piece.text
            case CallClosed(is_sound=False):
                calls[-1] = "{}"
    return _Reading(thought, before, [msgspec.json.decode(each) for each in calls])


class _OwnFormat(AnswerFormat):
    """A format with its family's own way of writing calls only."""

    __slots__ = ()

    def syntaxes(self, *, has_tools: bool) -> tuple[CallSyntax, ...]:
        """Return the first of its ways."""
        return CALLS[self.tools][:1]
