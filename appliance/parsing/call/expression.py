"""Read calls that are written as expressions, alone or in a list: `f(a=1)`, `call:f{a:1}`. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from appliance.parsing.argument import ObjectReader
from appliance.parsing.call.head import skip_space
from appliance.parsing.literal import PYTHON, Dialect, LiteralReader
from appliance.parsing.parsed import CallArguments, CallClosed, CallOpened, Parsed
from appliance.parsing.syntax import MOST_HELD, Stage
from appliance.parsing.toolbox import Toolbox

_LONGEST_ARGUMENT = 128
"""How many characters the name of an argument has at most, which tells a call from text."""
_LIST_END = "]"
_PRINT_END = ")"
_GAP = re.compile(r"\s*+[,;]?\s*+")


@dataclass(frozen=True, slots=True)
class Shape:
    """What calls of one kind look like, up to where their arguments begin.

    `head` is all of it, with the groups `name` and `bracket` (which opens the arguments), and may
    have `list` (the bracket of a list of calls), `print` (a call round this one) and, looking
    ahead, `value` (the first argument, if it comes without a name).
    `halves` are what the beginning of such a head may be. `separator` is what stands between a
    declared name and what a model may put before it.
    """

    head: re.Pattern[str]
    halves: tuple[re.Pattern[str], ...]
    dialects: Mapping[str, Dialect]
    separator: str = ""


def half_pattern(*parts: str) -> re.Pattern[str]:
    """Return what any beginning of the parts, one behind the other, matches in full."""
    pattern = ""
    for part in reversed(parts):
        pattern = f"(?:{part}{pattern})?"
    return re.compile(pattern + r"\Z")


class ExpressionReader:
    """Reads one call, or some in a row; see CallReader. What follows the last is left as it is.

    Behind the first what calls no function is text, with the white space behind it.
    """

    opens = None

    def __init__(
        self, shape: Shape, tools: Toolbox, pieces: list[Parsed], *, ends: tuple[str, ...] = ()
    ) -> None:
        """`ends` are marks that end the row if they follow it, one behind the other."""
        self.stage = Stage.HEAD
        self.is_broken = False
        self._shape = shape
        self._tools = tools
        self._pieces = pieces
        self._limit = MOST_HELD + tools.longest_name + _LONGEST_ARGUMENT
        self._ends = list(ends)
        self._is_row_over = False
        self._waits = False
        self._arguments: _Arguments | None = None
        self._others = LiteralReader(PYTHON)
        """The arguments of what calls no function."""
        self._head_size = 0
        """What of its name and bracket is still to be passed."""

    def passes(self, text: str) -> bool:
        """Take what is the same in JSON as in a literal; see CallReader."""
        return self._arguments is not None and self._arguments.passes(text)

    def read(self, text: str, at: int, *, is_last: bool) -> int:
        """Read on; see CallReader."""
        self._waits = False
        if self.stage is Stage.ASIDE:
            return self._pass_others(text, at, is_last)
        while not self._waits and self.stage in (Stage.HEAD, Stage.BODY):
            if self._arguments is not None:
                at = self._read_arguments(self._arguments, text, at, is_last)
            elif self.stage is Stage.HEAD:
                at = self._read_head(text, at, is_last)
            else:
                at = self._read_on(text, at, is_last)
        return at

    def _read_head(self, text: str, at: int, is_last: bool) -> int:
        """Open a call once it is one for certain, until then take nothing."""
        found = self._shape.head.match(text, at, at + self._limit)
        if found is not None and self._open(found):
            return found.end()
        if found is not None and self.stage is Stage.BODY:
            return self._set_aside(found)
        can_follow = len(text) - at < self._limit and not is_last
        self._waits = found is None and can_follow and self._may_begin(text[at:])
        if not self._waits:
            self.stage = Stage.TEXT if self.stage is Stage.HEAD else Stage.OVER
        return at

    def _set_aside(self, found: re.Match[str]) -> int:
        """Begin to pass what calls no function; return where that is."""
        self.stage = Stage.ASIDE
        first = "" if found.groupdict().get("value") else None
        self._others = LiteralReader(self._shape.dialects[found["bracket"]], first)
        gap = _GAP.match(found[0])
        at = found.start() + (gap.end() if gap else 0)
        self._head_size = found.end() - at
        return at

    def _pass_others(self, text: str, at: int, is_last: bool) -> int:
        at = self._others.read(text, at + self._head_size)
        self._head_size = 0
        if self._others.is_done:
            at = skip_space(text, at)
            if is_last or at < len(text):
                self.stage = Stage.BODY
        elif self._others.is_broken:
            self.stage = Stage.OVER
        elif is_last:
            self.stage = Stage.OVER
            at = len(text)
        return at

    def _read_on(self, text: str, at: int, is_last: bool) -> int:
        """Read what stands behind a call: what ends the row, or the next call."""
        end = self._ends[0] if self._ends else ""
        gap = _GAP.match(text, at, at + self._limit)
        start = gap.end() if gap else at
        if end and text.startswith(end, start):
            self._ends.pop(0)
            self._is_row_over = self._is_row_over or end != _PRINT_END
            return start + len(end)
        may_end = end.startswith(text[start : start + len(end)]) and start < at + self._limit
        if end and may_end and not is_last:
            self._waits = True
            return at
        if end != _PRINT_END and not self._is_row_over:
            return self._read_head(text, at, is_last)
        self.stage = Stage.OVER
        return at

    def _may_begin(self, head: str) -> bool:
        for half in self._shape.halves:
            found = half.match(head)
            name = found["name"] if found else None
            if found and (name is None or self._may_name(name, found.end("name") < len(head))):
                return True
        return False

    def _may_name(self, name: str, is_whole: bool) -> bool:
        if self.stage is Stage.BODY:
            return True
        if is_whole:
            return self._resolve(name) is not None
        may_be_prefixed = bool(self._shape.separator)
        return may_be_prefixed or any(each.startswith(name) for each in self._tools.names)

    def _resolve(self, name: str) -> str | None:
        """Return the declared name that is meant: this one, or the only one that it ends with."""
        separator, names = self._shape.separator, self._tools.names
        if name in names or not separator:
            return name if name in names else None
        name = name.removesuffix(".call")
        found = [each for each in names if f"{separator}{name}".endswith(separator + each)]
        return found[0] if len(found) == 1 else None

    def _open(self, found: re.Match[str]) -> bool:
        """Open a call if it is one of a declared function, with arguments that have names."""
        groups = found.groupdict()
        name = self._resolve(found["name"])
        schema = self._tools.parameters(name) if name else {}
        first = _only_property(schema) if groups.get("value") else None
        if name is None or (groups.get("value") and first is None):
            return False
        if groups.get("list"):
            self._ends.insert(0, _LIST_END)
        if groups.get("print"):
            self._ends.insert(0, _PRINT_END)
        self.stage = Stage.BODY
        self._pieces.append(CallOpened(name))
        literals = LiteralReader(self._shape.dialects[found["bracket"]], first)
        self._arguments = _Arguments(literals, ObjectReader(schema=schema))
        return True

    def _read_arguments(self, arguments: "_Arguments", text: str, at: int, is_last: bool) -> int:
        at = arguments.read(text, at)
        if arguments.taken:
            self._pieces.append(CallArguments(arguments.taken))
        self._waits = not (arguments.is_over or is_last)
        if self._waits:
            return at
        self._arguments = None
        self._pieces.append(CallClosed(arguments.is_sound))
        self.is_broken = not arguments.is_sound
        if self.is_broken:
            self.stage = Stage.OVER
        return at if arguments.is_over else len(text)


class _Arguments:
    """The arguments of one call: literals, written as JSON, which is then read as such."""

    def __init__(self, literals: LiteralReader, written: ObjectReader) -> None:
        self.taken = ""
        self._literals = literals
        self._written = written
        self._held = ""

    @property
    def is_over(self) -> bool:
        """Say whether they have ended, or turned out to be none."""
        return self._literals.is_done or self._literals.is_broken

    @property
    def is_sound(self) -> bool:
        """Say whether they are whole and a JSON object."""
        return self._literals.is_done and self._written.is_done and self._written.is_sound

    def passes(self, text: str) -> bool:
        """Take `text`, if all of it is more of the JSON text, as it stands."""
        return not self._held and self._literals.passes(text) and self._written.passes(text)

    def read(self, text: str, at: int) -> int:
        """Read on from `at` and return how far it came; `taken` is more of the JSON text."""
        at = self._literals.read(text, at)
        written = self._held + self._literals.taken
        self._held = written[self._written.read(written, 0) :]
        self.taken = self._written.taken
        return at


def _only_property(schema: dict[str, Any]) -> str | None:
    """Return the name of the one property that there is, if it is one."""
    properties = schema.get("properties")
    if not isinstance(properties, dict) or len(properties) != 1:
        return None
    return str(next(iter(properties)))
