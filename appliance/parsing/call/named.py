"""Read and spell calls that are a function's name and, behind it, a JSON object. Pure."""

import re
from dataclasses import dataclass
from functools import lru_cache

from appliance.chat.request import Tool
from appliance.parsing.call.headed import HeadedReader, in_a_row, object_pattern
from appliance.parsing.call.spelling import Id, spell
from appliance.parsing.grammar.rules import Rules
from appliance.parsing.mark import mark_pattern
from appliance.parsing.parsed import Parsed, Text
from appliance.parsing.syntax import MOST_HELD, CallReader, CallSyntax, Stage
from appliance.parsing.toolbox import Toolbox

_PLAIN_NAME = re.compile(r"[\w.-]++")
_MADE_UP = r"[\w-]*+"


@dataclass(frozen=True, slots=True)
class NamedSyntax:
    """`opening before NAME between OBJECT after closing`; all calls together stand in a `wrapper`.

    The texts are as the family's template writes them; which of them are marks `spell` says. When
    read, those of `before`, `between` and `after`, the wrapper and all white space may be missing,
    and white space may stand anywhere between.
    """

    opening: str
    closing: str = ""
    before: tuple[str, ...] = ()
    between: tuple[str, ...] = ()
    after: str = ""
    wrapper: tuple[str, str] = ("", "")
    gap: tuple[str, ...] = ()
    """What the template writes between two calls."""
    bare: str = ""
    """A call without its opening, up to where `between` may go on; `{}` is the name."""
    speech: str = ""
    """What stands in a call's place where text follows; the mark for both is the opening."""
    resumption: tuple[str, ...] = ()
    """What the template writes between a thought and the calls; the prompt may end with it."""
    is_begun: bool = False
    """Whether prompts end with the first opening."""
    body: CallSyntax | None = None
    """How calls are written in place of the object; only for the grammar."""

    @property
    def closings(self) -> tuple[str, ...]:
        """Return what closes a call, and all of them; see CallSyntax."""
        return tuple(filter(None, (self.closing, self.wrapper[1])))

    @property
    def text_opening(self) -> str | None:
        """Return what stands in a call's place, if there is such; see CallSyntax."""
        return self.speech or None

    def openings(self, tools: Toolbox) -> tuple[str, ...]:
        """Return the wrapper's opening and the call's; see CallSyntax."""
        return tuple(filter(None, (self.wrapper[0], self.opening)))

    def starts(self, tools: Toolbox) -> tuple[str, ...]:
        """Return the starts of calls whose opening is missing; see CallSyntax."""
        return tuple(self.bare.format(name) for name in sorted(tools.names) if self.bare)

    def reader(self, opening: str, tools: Toolbox, pieces: list[Parsed]) -> CallReader:
        """Return a reader; see CallSyntax."""
        return _NamedReader(self, opening, tools, pieces)

    def grammar(self, rules: Rules, tools: Toolbox, *, is_single: bool) -> str:
        """Add the rules for calls; see CallSyntax."""
        body = rules.rule(" | ".join(self._spell(rules, tool) for tool in tools.tools))
        opening = spell(rules, self.opening)
        more = f"({spell(rules, *self.gap, self.opening)} {body})*"
        parts = [
            f"({spell(rules, *self.resumption)})?" if self.resumption else "",
            spell(rules, self.wrapper[0]),
            "" if self.is_begun else opening,
            body,
            "" if is_single else more,
            spell(rules, self.wrapper[1]),
        ]
        return rules.rule(" ".join(filter(None, parts)))

    def _spell(self, rules: Rules, tool: Tool) -> str:
        if self.body is None:
            value = rules.json(tool.parameters or {"type": "object"})
        else:
            value = self.body.grammar(rules, Toolbox([tool]), is_single=True)
        head = spell(rules, *self.before, tool.name, *self.between)
        return f"{head} {value} {spell(rules, self.after, self.closing)}".rstrip()


@lru_cache(maxsize=256)
def _head(syntax: NamedSyntax, odd_names: frozenset[str], is_outside: bool) -> re.Pattern[str]:
    """Return what is like a head; only of names that could be something else it knows each."""
    parts = [_optional(syntax.opening)] if is_outside else []
    parts += [_before(word) for part in syntax.before for word in _words(part)]
    parts.append(f"(?P<name>{mark_pattern(*odd_names)}|{_PLAIN_NAME.pattern})")
    parts += [_optional(word) for part in syntax.between for word in _words(part)]
    parts += [_optional(word) for word in _words(syntax.after)]
    call = in_a_row([*parts, object_pattern(syntax.closing)])
    speech = mark_pattern(*filter(None, [syntax.speech]))
    return re.compile(f"(?P<speech>{speech})|{call}")


def _before(part: str) -> str:
    # What is made up, with no mark behind it, would be the name.
    return rf"(?:{_MADE_UP}(?=[<\[]|\Z))?" if isinstance(part, Id) else _optional(part)


def _optional(part: str) -> str:
    return f"(?:{_MADE_UP if isinstance(part, Id) else mark_pattern(part)})?"


def _words(part: str) -> list[str]:
    return [part] if isinstance(part, Id) else part.split()


class _NamedReader(HeadedReader):
    """Reads one call, or what says that text follows."""

    def __init__(
        self, syntax: NamedSyntax, opening: str, tools: Toolbox, pieces: list[Parsed]
    ) -> None:
        super().__init__(tools, (syntax.after.strip(), syntax.closing), pieces)
        self._speech = syntax.speech
        is_outside = opening == syntax.wrapper[0]
        self._before = "" if is_outside or opening == syntax.opening else opening
        self._limit = MOST_HELD + tools.longest_name + len(syntax.opening) * is_outside
        odd_names = frozenset(name for name in tools.names if not _PLAIN_NAME.fullmatch(name))
        self._head = _head(syntax, odd_names, is_outside)

    def _read_head(self, text: str, at: int, *, is_last: bool) -> int:
        head = self._before + text[at : at + self._limit]
        found = self._head.match(head)
        if found is None or not self._is_possible(found):
            self.stage = Stage.TEXT
            return at
        end = self._take_start(found["name"], found)
        if end is not None:
            return at + end - len(self._before)
        if self._speech and found["speech"] == self._speech:
            self._go_on(Text)
            return at + len(self._speech)
        if is_last or len(text) - at >= self._limit:
            self.stage = Stage.TEXT
        return at

    def _is_possible(self, found: re.Match[str]) -> bool:
        """Say whether the name, if there is one, is a declared one or may still become one."""
        name = found["name"]
        if name is None or name in self._tools.names:
            return True
        return found.end("name") == len(found.string) and any(
            declared.startswith(name) for declared in self._tools.names
        )
