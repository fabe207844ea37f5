"""Read and bound calls that are written as in Python: `[f(a=1, b="x"), g()]`. Pure."""

import re
from dataclasses import dataclass

from appliance.parsing.call.expression import ExpressionReader, Shape, half_pattern
from appliance.parsing.call.json_body import JsonBody, Spelling
from appliance.parsing.call.literal_grammar import PYTHON_NOTATION, call_rule
from appliance.parsing.grammar.rules import Rules
from appliance.parsing.literal import PYTHON
from appliance.parsing.parsed import Parsed
from appliance.parsing.syntax import CallReader
from appliance.parsing.toolbox import Toolbox

_NAME = r"(?P<name>[\w.:/-]+)"
_BEFORE = (r"\s*+", r"[,;]?", r"\s*+", r"\[?", r"\s*+")
_PRINT = (*"print", r"\s*+", r"\(", r"\s*+")
_BEHIND = (_NAME, r"\s*+", r"\(", r"\s*+", r"[\w.$@-]+", r"\s*+")
_HEAD = re.compile(
    rf"\s*+[,;]?\s*+(?P<list>\[)?\s*+(?P<print>print\s*+\(\s*+)?{_NAME}\s*+(?P<bracket>\()"
    r"""(?=\s*+(?:\)|[\w.$@-]+\s*+=|(?P<value>["'\[{]|-?\d+\s*+[,)]|(?:True|False|None)\s*+[,)])))"""
)
_LISTED = Shape(
    _HEAD,
    (half_pattern(*_BEFORE, *_PRINT, *_BEHIND), half_pattern(*_BEFORE, *_BEHIND)),
    {"(": PYTHON},
)
_MARKED = Shape(_HEAD, _LISTED.halves, _LISTED.dialects, separator=".")


@dataclass(frozen=True, slots=True)
class PythonSyntax:
    """Calls as Python has them, between marks; without marks a list of them begins the answer.

    `before` and `behind` are what the family itself writes between its marks and the calls,
    `between` what separates them. Behind a mark the brackets of a list may be missing, each call
    may be printed, and may be one of a module: `print(api.f(a=1))`.
    """

    opening: str = ""
    closing: str = ""
    before: str = "["
    between: str = ", "
    behind: str = "]"

    @property
    def closings(self) -> tuple[str, ...]:
        """See CallSyntax."""
        return (self.closing,) if self.closing and not self._reads_closing else ()

    @property
    def text_opening(self) -> str | None:
        """See CallSyntax."""
        return None if self.opening else ""

    def openings(self, tools: Toolbox) -> tuple[str, ...]:
        """See CallSyntax."""
        return (self.opening,) if self.opening else ()

    def starts(self, tools: Toolbox) -> tuple[str, ...]:
        """See CallSyntax."""
        return () if self.opening else (self.before,)

    def reader(self, opening: str, tools: Toolbox, pieces: list[Parsed]) -> CallReader:
        """See CallSyntax."""
        if not self.opening:
            return ExpressionReader(_LISTED, tools, pieces, ends=("]",))
        ends = (self.closing,) if self._reads_closing else ()
        return ExpressionReader(_MARKED, tools, pieces, ends=ends)

    @property
    def _reads_closing(self) -> bool:
        """Say whether the closing mark could be taken for the start of the opening one."""
        return bool(self.closing) and self.opening.startswith(self.closing)

    def grammar(self, rules: Rules, tools: Toolbox, *, is_single: bool) -> str:
        """See CallSyntax."""
        call = call_rule(rules, tools, PYTHON_NOTATION)
        more = "" if is_single else f" ({rules.text(self.between)} {call})*"
        body = f"{rules.text(self.before)} {call}{more} {rules.text(self.behind)}"
        marks = [rules.mark(mark) if mark else "" for mark in (self.opening, self.closing)]
        return rules.rule(f"{marks[0]} {body} {marks[1]}")


PYTHONIC = PythonSyntax()
"""A list that begins the answer: Llama 4, and others that were taught no marks."""

LLAMA4 = PythonSyntax("<|python_start|>", "<|python_end|>")
"""Llama 4, where it marks what it calls."""

LFM2 = PythonSyntax("<|tool_call_start|>", "<|tool_call_end|>")
"""LFM2 and LFM2.5."""

LFM2_JSON = JsonBody(
    marks=(LFM2.opening,),
    closings=(LFM2.closing,),
    spelling=Spelling(before=f"{LFM2.opening}[", between=", ", after=f"]{LFM2.closing}"),
)
"""LFM2, where its system prompt asks for JSON."""

GEMMA3 = PythonSyntax("```tool_code", "```", before="\n", between="\n", behind="\n")
"""Gemma 3: a fence with one call a line."""

OLMO = PythonSyntax("<function_calls>", "</function_calls>", before="", between="\n", behind="")
"""Olmo 3: one call a line."""

GEMMA4_FALLBACK = PythonSyntax("<|tool_call>", "<tool_call|>")
"""Gemma 4, where it has forgotten its own notation."""

LLAMA3_BUILTIN = PythonSyntax("<|python_tag|>", before="", behind="")
"""Llama 3.1, for functions that it was taught: `search.call(query="x")`."""
