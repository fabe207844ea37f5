"""Declare how each model family writes its thoughts and its calls, by the manifest's names."""

from dataclasses import dataclass
from functools import lru_cache

from appliance.chat.request import Tool
from appliance.parsing.call import channel_family as channel
from appliance.parsing.call import gemma, pythonic
from appliance.parsing.call import json_family as listed
from appliance.parsing.call import named_family as named
from appliance.parsing.call import tagged_family as tagged
from appliance.parsing.grammar.rules import Rules
from appliance.parsing.syntax import CallSyntax
from appliance.parsing.toolbox import Toolbox

_TRIAL = Toolbox(
    [Tool("f", parameters={"type": "object", "properties": {"a": {"type": "string"}}})]
)


@dataclass(frozen=True, slots=True)
class ThoughtFormat:
    """The marks round a thought, and those that such a model puts round its answer.

    `frames` mean nothing wherever they stand in the answer's text, the pair `wrapper` only where
    it begins it. `answer_opening` are marks between a thought, or the prompt, and that text; they
    are read as a call's opening is. `is_implied`: every answer begins with a thought, whose opening
    may be missing.
    """

    opening: str
    closing: str
    frames: tuple[str, ...] = ()
    wrapper: tuple[str, str] | None = None
    answer_opening: tuple[str, ...] = ()
    is_implied: bool = False


_THINK = ThoughtFormat("<think>", "</think>")
_COHERE_FRAMES = ("<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>")
_KIMI_K3_FRAMES = (
    "<|open|>response<|sep|>",
    "<|close|>response<|sep|>",
    "<|close|>message<|sep|>",
)

THOUGHTS: dict[str, ThoughtFormat | None] = {
    "none": None,
    "qwen3": _THINK,
    "deepseek_r1": _THINK,
    "glm": ThoughtFormat("<think>", "</think>", wrapper=("<|begin_of_box|>", "<|end_of_box|>")),
    "kimi": _THINK,
    "minimax": _THINK,
    "step": _THINK,
    "mistral": ThoughtFormat("[THINK]", "[/THINK]"),
    "gemma4": ThoughtFormat("<|channel>thought", "<channel|>", frames=("<channel|>",)),
    "harmony": ThoughtFormat(
        "<|channel|>analysis<|message|>",
        "<|end|>",
        frames=("<|end|>", "<|return|>", "<|call|>", "<|start|>assistant"),
        answer_opening=("<|start|>assistant<|channel|>final<|message|>",),
    ),
    "apriel": ThoughtFormat(
        "Here are my reasoning steps:\n",
        "[BEGIN FINAL RESPONSE]",
        frames=("[END FINAL RESPONSE]",),
        is_implied=True,
    ),
    "cohere": ThoughtFormat("<|START_THINKING|>", "<|END_THINKING|>", frames=_COHERE_FRAMES),
    "granite": ThoughtFormat("<think>", "</think>", wrapper=("<response>", "</response>")),
    "hunyuan": ThoughtFormat("<think:opensource>", "</think:opensource>"),
    "kimi_k3": ThoughtFormat(
        "<|open|>think<|sep|>", "<|close|>think<|sep|>", frames=_KIMI_K3_FRAMES
    ),
    "minimax_m3": ThoughtFormat("<mm:think>", "</mm:think>"),
    "muse": ThoughtFormat(
        " to=self<|message|>",
        "<|eom|>",
        frames=("<|eom|>", "<|eot|>", "<|start|>assistant"),
        answer_opening=("<|start|>assistant to=user<|message|>",),
    ),
    "seed": ThoughtFormat("<seed:think>", "</seed:think>"),
    "solar": ThoughtFormat(
        "<|think|>", "<|end|>", frames=("<|end|>", "<|begin|>assistant", "<|content|>")
    ),
}
"""The marks round thoughts, by the names that a manifest's `reasoning_parser` may have."""

_CODER = (tagged.QWEN3_CODER, named.FUNCTION, tagged.MINICPM5)
_GLM = (tagged.GLM47, tagged.GLM46, tagged.LING3)
_LLAMA3 = (
    listed.LLAMA,
    named.FUNCTION,
    pythonic.LLAMA3_BUILTIN,
)
_DSML = (tagged.DEEPSEEK_V32, tagged.DEEPSEEK_V4)

CALLS: dict[str, tuple[CallSyntax, ...]] = {
    "none": (),
    "hermes": (listed.HERMES, *_CODER, tagged.GLM46, named.SPOKEN, listed.BARE),
    "qwen3_coder": (*_CODER, listed.HERMES, named.SPOKEN),
    "llama3": _LLAMA3,
    "llama4": (pythonic.LLAMA4, pythonic.PYTHONIC, *_LLAMA3),
    "pythonic": (pythonic.PYTHONIC, pythonic.OLMO),
    "mistral": (named.MISTRAL, named.MISTRAL_ID, listed.MISTRAL),
    "mistral_id": (named.MISTRAL_ID, named.MISTRAL, listed.MISTRAL),
    "mistral_list": (listed.MISTRAL, named.MISTRAL, listed.BARE),
    "deepseek_v3": (named.DEEPSEEK_V3, named.DEEPSEEK_V31),
    "deepseek_v31": (named.DEEPSEEK_V31, named.DEEPSEEK_V3),
    "deepseek_v32": _DSML,
    "deepseek_v4": _DSML[::-1],
    "kimi_k2": (named.KIMI_K2,),
    "kimi_k3": (tagged.KIMI_K3, named.KIMI_K3_OBJECT),
    "glm47": _GLM,
    "glm45": (tagged.GLM46, tagged.GLM47),
    "ling": (tagged.LING3, tagged.GLM46),
    "granite": (listed.GRANITE, listed.HERMES, listed.BARE),
    "nemotron": (listed.NEMOTRON, *_CODER, listed.BARE),
    "xlam": (listed.LIST, listed.MISTRAL, listed.HERMES, listed.BARE),
    "functionary": (named.FUNCTIONARY, named.FUNCTION),
    "functionary_v31": (named.FUNCTION, listed.LLAMA),
    "minimax_m1": (listed.MINIMAX_M1, listed.TOOL_CALLS, listed.BARE),
    "minimax_m2": (tagged.MINIMAX_M2,),
    "minimax_m3": (tagged.MINIMAX_M3, tagged.MINIMAX_M2),
    "step": (tagged.STEP35, named.FUNCTION),
    "seed": (tagged.SEED_OSS, *_CODER),
    "harmony": (channel.HARMONY,),
    "muse": (channel.MUSE, tagged.MUSE_GLIMMER),
    "solar": (named.SOLAR,),
    "gemma3": (pythonic.GEMMA3, pythonic.PYTHONIC, listed.BARE),
    "gemma4": (gemma.GEMMA4, pythonic.GEMMA4_FALLBACK, pythonic.GEMMA3),
    "function_gemma": (gemma.FUNCTION_GEMMA,),
    "phi4": (listed.PHI, listed.FUNCTOOLS, listed.BARE),
    "functools": (listed.FUNCTOOLS, listed.BARE),
    "cohere": (listed.COHERE, listed.COMMAND_R),
    "command_r": (listed.COMMAND_R, listed.COHERE),
    "lfm2": (pythonic.LFM2, pythonic.LFM2_JSON, pythonic.PYTHONIC),
    "poolside": (tagged.GLM46, tagged.GLM47),
    "minicpm5": (tagged.MINICPM5, *_CODER),
    "hunyuan": (tagged.HY3, listed.TOOL_CALLS, listed.MINIMAX_M1),
    "apriel": (listed.TOOL_CALLS, listed.MINIMAX_M1, listed.BARE),
    "apertus": (listed.APERTUS,),
    "internlm": (listed.INTERNLM,),
    "gigachat": (listed.GIGACHAT, listed.GIGACHAT_ROLE),
    "gigachat_v3": (listed.GIGACHAT_ROLE, listed.GIGACHAT),
    "json": (listed.BARE, listed.HERMES),
}
"""The ways of writing calls, by the names that `tool_parser` may have: the family's own first."""

_NUM_OWN = {"muse": 2}
"""How many of these are the family's own, if not one: a header, and the calls that it heads."""

_FRAMING = frozenset(("harmony", "functionary", "muse"))
"""Formats whose marks stand round all that is said, so that they are read without tools, too."""

_IN_THOUGHT = frozenset(("harmony", "muse", "minimax_m2", "solar"))
"""Formats whose models write calls before they have closed a thought."""


def calls_beside_structure(tools: str) -> tuple[CallSyntax, ...]:
    """Return how calls are written that stand in a structure's place: as the family itself does.

    None are where that is JSON without a mark, which could as well be the structure.
    """
    return tuple(each for each in _own_calls(tools) if "{" not in each.starts(_TRIAL))


def _own_calls(tools: str) -> tuple[CallSyntax, ...]:
    return CALLS[tools][: _NUM_OWN.get(tools, 1)]


@dataclass(frozen=True, slots=True)
class AnswerFormat:
    """How answers are read: `reasoning` and `tools` are names that a manifest may have.

    `has_structure`: behind its thoughts an answer is calls, or a text of the form that the caller
    wants, in which no mark means anything. `is_bound`: there is a grammar for it, so that only
    what the family itself writes behind its thoughts is a call.
    """

    reasoning: str = "none"
    tools: str = "none"
    has_structure: bool = False
    is_bound: bool = False

    @property
    def thought(self) -> ThoughtFormat | None:
        """The marks round thoughts, if there are any."""
        return THOUGHTS[self.reasoning]

    @property
    def has_calls_in_thoughts(self) -> bool:
        """Say whether calls are looked for in thoughts."""
        is_known = self.tools in _IN_THOUGHT or self.reasoning in _IN_THOUGHT
        return is_known and not (self.has_structure or self.is_bound)

    def syntaxes(self, *, has_tools: bool) -> tuple[CallSyntax, ...]:
        """Return the ways in which calls, or what stands round texts, may be written."""
        names = dict.fromkeys((self.reasoning, self.tools))
        syntaxes = (
            syntax
            for name in names
            if name in _FRAMING or (name == self.tools and has_tools)
            for syntax in self._ways(name)
        )
        return tuple(dict.fromkeys(syntaxes))

    def _ways(self, name: str) -> tuple[CallSyntax, ...]:
        if self.has_structure:
            return calls_beside_structure(name)
        return _own_calls(name) if self.is_bound else CALLS[name]

    def begun(self, tail: str) -> str:
        """Return the mark with which a prompt that ends so has begun the answer; "" if none.

        A thought that is implied is begun by every prompt that begins nothing else.
        """
        tail = tail.rstrip()
        marks = [self.thought.opening] if self.thought else []
        marks += [
            mark for syntax in self.syntaxes(has_tools=True) for mark in syntax.openings(_TRIAL)
        ]
        found = next((mark for mark in marks if tail.endswith(mark.rstrip())), "")
        thought = self.thought
        if found or thought is None or not thought.is_implied or tail.endswith(thought.closing):
            return found
        return thought.opening

    def marks(self) -> tuple[str, ...]:
        """Return every mark, which may be a special token of the model or hold some."""
        return _marks(self)


@lru_cache(maxsize=256)
def _marks(form: AnswerFormat) -> tuple[str, ...]:
    marks: dict[str, None] = {}
    thought = form.thought
    if thought is not None:
        wrapper = thought.wrapper or ()
        marks |= dict.fromkeys((thought.opening, thought.closing, *thought.frames, *wrapper))
        marks |= dict.fromkeys(thought.answer_opening)
    for syntax in form.syntaxes(has_tools=True):
        rules = Rules()
        inner = rules.build(syntax.grammar(rules, _TRIAL, is_single=False)).marks
        marks |= dict.fromkeys((*syntax.openings(_TRIAL), *syntax.closings, *inner))
    return tuple(marks)
