"""Read and bound calls as Gemma writes them: `call:f{a:<|"|>x<|"|>,b:[1,true]}`. Pure."""

import re
from dataclasses import dataclass
from functools import cache

from appliance.parsing.call.expression import ExpressionReader, Shape, half_pattern
from appliance.parsing.call.literal_grammar import Notation, call_rule
from appliance.parsing.grammar.rules import Rules
from appliance.parsing.literal import Dialect
from appliance.parsing.parsed import Parsed
from appliance.parsing.syntax import CallReader
from appliance.parsing.toolbox import Toolbox

_NAME = r"""(?P<name>[^\s(){}\[\]<>,"'=]+)"""
_HEAD = re.compile(rf"\s*+,?\s*+call\s*+:\s*+{_NAME}\s*+(?P<bracket>[{{(])")
_HALF = half_pattern(r"\s*+", ",?", r"\s*+", *"call", r"\s*+", ":", r"\s*+", _NAME, r"\s*+")


@dataclass(frozen=True, slots=True)
class GemmaSyntax:
    """Calls with a notation of their own, in which `quote` stands on both sides of a string.

    Its names need no quotes, nor do texts that are no other value. Quotes and round brackets as in
    Python are read as well, and a declared name with others before it, joined by colons.
    """

    opening: str = "<|tool_call>"
    closing: str = "<tool_call|>"
    quote: str = '<|"|>'
    response: str = "<|tool_response>"

    @property
    def closings(self) -> tuple[str, ...]:
        """See CallSyntax; some models go on to a result, which is not theirs to write."""
        return (self.closing, self.response)

    @property
    def text_opening(self) -> None:
        """Return None: calls have an opening; see CallSyntax."""
        return None

    def openings(self, tools: Toolbox) -> tuple[str, ...]:
        """See CallSyntax."""
        return (self.opening,)

    def starts(self, tools: Toolbox) -> tuple[str, ...]:
        """See CallSyntax."""
        return ()

    def reader(self, opening: str, tools: Toolbox, pieces: list[Parsed]) -> CallReader:
        """See CallSyntax."""
        return ExpressionReader(_shape(self.quote), tools, pieces)

    @property
    def _notation(self) -> Notation:
        return Notation(
            call=("call:", "{", "}"),
            sign=":",
            colon=":",
            comma=",",
            constants=("true", "false", "null"),
            name=r"[A-Za-z_@$][A-Za-z0-9_@$.\-]{0,127}",
            quote=self.quote,
            has_plain_names=True,
            sorts_names=True,
        )

    def grammar(self, rules: Rules, tools: Toolbox, *, is_single: bool) -> str:
        """See CallSyntax."""
        call = call_rule(rules, tools, self._notation)
        whole = rules.rule(f"{rules.mark(self.opening)} {call} {rules.mark(self.closing)}")
        return whole if is_single else rules.rule(f"{whole} {whole}*")


@cache
def _shape(quote: str) -> Shape:
    dialects = {
        "{": Dialect("}", ":", (quote,), has_bare_text=True, brackets="[{"),
        "(": Dialect(")", "=:", (quote,), has_bare_text=True),
    }
    return Shape(_HEAD, (_HALF,), dialects, separator=":")


GEMMA4 = GemmaSyntax()
FUNCTION_GEMMA = GemmaSyntax(
    "<start_function_call>", "<end_function_call>", "<escape>", "<start_function_response>"
)
