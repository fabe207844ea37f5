"""Read and bind calls that are JSON objects, one after another, in a list or not. Pure.

`{"name": "f", "arguments": {…}}` is what Hermes and Qwen write; others have further members or
other keys, and write the arguments before the name, or encode them a second time.
"""

import json
import re
from dataclasses import dataclass
from enum import Enum, auto
from functools import lru_cache
from typing import NamedTuple

from appliance.chat.request import Tool
from appliance.parsing.argument import (
    ArgumentReader,
    EncodedReader,
    ObjectReader,
    pass_arguments,
)
from appliance.parsing.call.head import skip_space
from appliance.parsing.call.json_object import decode_call, decode_name
from appliance.parsing.call.json_value import ValuePasser
from appliance.parsing.grammar.rules import Rules
from appliance.parsing.mark import mark_finder
from appliance.parsing.parsed import CallArguments, CallClosed, CallOpened, Parsed
from appliance.parsing.syntax import MOST_HELD, CallReader, Stage
from appliance.parsing.toolbox import Toolbox

_FENCE = "```"
_STRING = r'"(?:[^"\\]|\\.)*"'
_MEMBER = rf"{_STRING}\s*:\s*(?:{_STRING}|[-+.\w]+)"
_MEMBERS = rf"(?:{_MEMBER}\s*,\s*)*?"

_FIRST = re.compile(r"\s*(?:```(?:json)?\s*)?(?:\[\s*)?")
_FIRST_BEGUN = re.compile(r"\s*(?:``?|```js?|```jso)\Z")
_NEXT = re.compile(r"\s*[,;]?\s*")
_OBJECT = re.compile(r'\{\s*"')
_OBJECT_BEGUN = re.compile(r'\{\s*(?:"|\Z)|\Z')
_BEHIND = rf'[\s}}]*(?P<member>,\s*{_STRING}\s*:\s*(?=["{{\[\w+.-]))?'
_REST = re.compile(_BEHIND)
_ENCODED_REST = re.compile(rf'[\s"]*{_BEHIND}')
_NO_REST = re.compile("(?P<member>(?!))?")
_MEMBER_BEGUN = re.compile(
    r'\s*(?:;\s*|,\s*(?:"(?:[^"\\]|\\.)*\\?(?:"\s*(?::\s*)?)?)?)?\Z', re.DOTALL
)
_LIST_END = re.compile(r"\s*\]\s*")
_GAP = re.compile(r"(\$\w+|<\|.+?\|>|</?\w+>|\[/?[A-Z_]+\])")


@dataclass(frozen=True, slots=True)
class Spelling:
    """How a family writes calls when it writes them well.

    In `item` stand `$name` and `$arguments` for what is a JSON value, and `$id` for an id.
    """

    item: str = '{"name": $name, "arguments": $arguments}'
    before: str = ""
    between: str = "\n"
    after: str = ""
    id_pattern: str = "[a-zA-Z0-9]{9}"


@dataclass(frozen=True, slots=True)
class JsonBody:
    """A way of writing calls as JSON objects.

    `marks` may open them anywhere, `bare` at the start of an answer, where these are the beginning
    of the JSON text itself or a fence round it. Without `name_keys` a call is an object of one
    member, whose key is the name. `is_list`: all stand in a list; None: they may. Only `spelling`
    says where white space is; all is read in any spelling of JSON.
    """

    marks: tuple[str, ...] = ()
    closings: tuple[str, ...] = ()
    bare: tuple[str, ...] = ()
    name_keys: tuple[str, ...] = ("name",)
    argument_keys: tuple[str, ...] = ("arguments", "parameters")
    is_list: bool | None = None
    spelling: Spelling = Spelling()

    @property
    def text_opening(self) -> str | None:
        """Return what says whether calls are bare; see CallSyntax."""
        return "" if self.bare else None

    def openings(self, tools: Toolbox) -> tuple[str, ...]:
        """Return the marks; see CallSyntax."""
        return self.marks

    def starts(self, tools: Toolbox) -> tuple[str, ...]:
        """Return the marks; see CallSyntax."""
        return self.bare

    def reader(self, opening: str, tools: Toolbox, pieces: list[Parsed]) -> CallReader:
        """Return a reader; see CallSyntax."""
        return _JsonReader(self, opening, tools, pieces)

    def grammar(self, rules: Rules, tools: Toolbox, *, is_single: bool) -> str:
        """Add rules; see CallSyntax."""
        spelling = self.spelling
        item = rules.rule(" | ".join(self._item(rules, tools, tool) for tool in tools.tools))
        more = "" if is_single else f"({self._text(rules, spelling.between)} {item})*"
        before, after = (self._text(rules, text) for text in (spelling.before, spelling.after))
        return rules.rule(" ".join(filter(None, (before, item, more, after))))

    def _item(self, rules: Rules, tools: Toolbox, tool: Tool) -> str:
        parameters = tools.parameters(tool.name) or {"type": "object"}
        values = {
            "$name": rules.text(json.dumps(tool.name, ensure_ascii=False)),
            "$arguments": rules.json(parameters),
            "$id": rules.regex(self.spelling.id_pattern),
        }
        return self._text(rules, self.spelling.item, values)

    def _text(self, rules: Rules, text: str, values: dict[str, str] | None = None) -> str:
        parts = _GAP.split(text)
        known = values or {}
        return " ".join(
            known.get(part) or (rules.mark(part) if at % 2 else rules.text(part))
            for at, part in enumerate(parts)
            if part
        )


class _Patterns(NamedTuple):
    named: re.Pattern[str]
    argued: re.Pattern[str]


@lru_cache(maxsize=64)
def _patterns(name_keys: tuple[str, ...], argument_keys: tuple[str, ...]) -> _Patterns:
    """Return what finds the name in an object, and from there on the start of its arguments."""
    if not name_keys:
        named, argued = rf"\{{\s*({_STRING})", r"\s*:"
    else:
        names, arguments = ("|".join(map(re.escape, keys)) for keys in (name_keys, argument_keys))
        inner = r'(?:"function"\s*:\s*\{\s*)?'
        named = rf'\{{\s*{_MEMBERS}{inner}"(?:{names})"\s*:\s*({_STRING})'
        argued = rf'\s*,\s*{_MEMBERS}"(?:{arguments})"\s*:'
    return _Patterns(re.compile(named), re.compile(rf'{argued}\s*("?)\s*(?=\{{)'))


class _Part(Enum):
    """What of a call is read next."""

    HEAD = auto()
    ARGUMENTS = auto()
    REST = auto()
    MEMBER = auto()


class _JsonReader:
    """Reads one call after another, each as CallReader says of the only one.

    Behind the first an object that is no call is text, with the white space behind it.
    """

    def __init__(
        self, syntax: JsonBody, opening: str, tools: Toolbox, pieces: list[Parsed]
    ) -> None:
        self.stage = Stage.HEAD
        self.is_broken = False
        self.opens = None
        self._syntax = syntax
        self._patterns = _patterns(syntax.name_keys, syntax.argument_keys)
        self._closings = syntax.closings
        self._is_list = False
        self._tools = tools
        self._pieces = pieces
        self._opening = opening
        self._lead = opening if opening in syntax.bare else ""
        self._before = _FIRST
        self._part = _Part.HEAD
        self._arguments: ArgumentReader = ObjectReader()
        self._value = ValuePasser("", ())
        self._forget_object()

    def passes(self, text: str) -> bool:
        """Take more of the arguments; see CallReader."""
        return self._arguments.passes(text)

    def read(self, text: str, at: int, *, is_last: bool) -> int:
        """Read on; see CallReader."""
        if self.stage is Stage.ASIDE:
            return self._pass_object(text, at, is_last)
        part = None
        while part is not self._part and self.stage in (Stage.HEAD, Stage.BODY):
            part = self._part
            if part is _Part.HEAD:
                at = self._read_head(text, at, is_last)
            elif part is _Part.ARGUMENTS:
                at = self._read_arguments(text, at, is_last)
            elif part is _Part.MEMBER:
                at = self._pass_member(text, at, is_last)
            else:
                at = self._read_rest(text, at, is_last)
        return at

    def _forget_object(self) -> None:
        self._object = ObjectReader()
        self._object_text: list[str] = []
        self._object_end = 0

    def _read_head(self, text: str, at: int, is_last: bool) -> int:
        """Look for the name and the start of the arguments; nothing is taken before both."""
        limit = MOST_HELD + self._tools.longest_name
        head = self._lead + text[at : at + limit]
        is_last = is_last or len(text) - at >= limit
        before = self._before.match(head)
        start = before.end() if before else 0
        named = self._patterns.named.match(head, start)
        name = decode_name(named[1]) if named else None
        if not self._may_begin(head, start) or (named and name not in self._tools.names):
            return self._stop(at, head, start)
        argued = self._patterns.argued.match(head, named.end()) if named else None
        if argued and name is not None:
            self._open(name, is_encoded=bool(argued[1]))
            return self._leave_head(at, head, argued.end())
        end = self._read_whole(head, start)
        if end == 0 and (is_last or self._object.is_done):
            return self._stop(at, head, start)
        return self._leave_head(at, head, end) if end else at

    def _may_begin(self, head: str, start: int) -> bool:
        is_list = self._syntax.is_list
        if self._before is _NEXT:
            return _OBJECT_BEGUN.match(head, start) is not None
        if head.startswith("{", start) and is_list not in (None, "[" in head[:start]):
            return False
        return bool(_OBJECT_BEGUN.match(head, start) or _FIRST_BEGUN.match(head))

    def _stop(self, at: int, head: str, start: int) -> int:
        """End where no call begins, or only pass an object, if it stands behind one."""
        if self.stage is Stage.HEAD:
            self.stage = Stage.TEXT
        elif _OBJECT.match(head, start) is None:
            self.stage = Stage.OVER
        else:
            self._part, self._rest, self.stage = _Part.REST, _NO_REST, Stage.ASIDE
            self._begin_value("{")
            self._forget_object()
            at += start
        return at

    def _begin_value(self, first: str) -> None:
        self._value = ValuePasser(first, (*self._syntax.marks, *self._closings))

    def _pass_value(self, text: str, at: int, is_last: bool) -> int:
        at = self._value.read(text, at)
        return len(text) if is_last and not self._value.is_done else at

    def _pass_object(self, text: str, at: int, is_last: bool) -> int:
        at = self._pass_value(text, at, is_last)
        at = skip_space(text, at) if self._value.is_done else at
        if is_last or (self._value.is_done and at < len(text)):
            self.stage = Stage.BODY
        return at

    def _pass_member(self, text: str, at: int, is_last: bool) -> int:
        at = self._pass_value(text, at, is_last)
        if self._value.is_done:
            self._part = _Part.REST
        elif is_last:
            self.stage = Stage.OVER
        return at

    def _leave_head(self, at: int, head: str, size: int) -> int:
        if self._before is _FIRST:
            before = head[: head.index("{")]
            self._is_list = "[" in before
            self._closings += (_FENCE,) if _FENCE in self._opening + before else ()
        at += size - len(self._lead)
        self._before, self._lead = _NEXT, ""
        self._forget_object()
        self.stage = Stage.BODY
        return at

    def _open(self, name: str, *, is_encoded: bool) -> None:
        self._part = _Part.ARGUMENTS
        self._pieces.append(CallOpened(name))
        schema = self._tools.parameters(name)
        if is_encoded:
            self._arguments, self._rest = EncodedReader(schema), _ENCODED_REST
        else:
            closing = self._closings[0] if self._closings else ""
            self._arguments, self._rest = ObjectReader(closing, schema), _REST

    def _read_whole(self, head: str, start: int) -> int:
        """Take a short call that is complete, whatever the order of its keys; return its end."""
        if head.startswith("{", start):
            self._object_end = self._object.read(head, max(self._object_end, start))
            self._object_text.append(self._object.taken)
        if not self._object.is_done:
            return 0
        syntax, whole = self._syntax, "".join(self._object_text)
        found = decode_call(whole, syntax.name_keys, syntax.argument_keys)
        if found is None or found[0] not in self._tools.names:
            return 0
        name, arguments = found
        reader = ObjectReader(schema=self._tools.parameters(name))
        reader.read(arguments, 0)
        self._pieces += [CallOpened(name), CallArguments(reader.taken), CallClosed(True)]
        self._part, self._rest = _Part.REST, _REST
        return self._object_end

    def _read_arguments(self, text: str, at: int, is_last: bool) -> int:
        at, is_sound = pass_arguments(self._arguments, text, at, self._pieces, is_last=is_last)
        if is_sound is not None:
            self.is_broken = not is_sound
            self._part = _Part.REST
        return at

    def _read_rest(self, text: str, at: int, is_last: bool) -> int:
        """Drop what ends the object, and the list, up to a closing mark or the next object."""
        limit = MOST_HELD + max(map(len, self._closings), default=0)
        rest = text[at : at + limit]
        is_last = is_last or len(text) - at >= limit
        found = self._rest.match(rest)
        end = found.end() if found else 0
        if found and found["member"]:
            self._part, self._rest = _Part.MEMBER, _REST
            self._begin_value(rest[end])
            return at + end
        if not is_last and _MEMBER_BEGUN.match(rest, end):
            return at
        following = _NEXT.match(rest, end)
        if following and rest.startswith("{", following.end()) and not self.is_broken:
            self._part = _Part.HEAD
            return at + end
        return self._close(rest, at, end, is_last)

    def _close(self, rest: str, at: int, end: int, is_last: bool) -> int:
        """Read on behind the last object: `rest` begins at `at`, and from its `end` on is new."""
        is_behind_text = self._rest is _NO_REST
        listed = _LIST_END.match(rest, end) if self._is_list or not is_behind_text else None
        end = listed.end() if listed else end
        closing = next((each for each in self._closings if rest.startswith(each, end)), None)
        drops_junk = bool(self._closings) and not (listed or is_behind_text)
        mark = self._find_mark(rest, end) if drops_junk else None
        if closing is not None:
            end += len(closing)
        elif mark is not None:
            end = mark.end() if mark[0] in self._closings else end
        elif not is_last and (drops_junk or self._may_close(rest[end:])):
            return at
        self.stage = Stage.OVER
        return at + end

    def _find_mark(self, rest: str, end: int) -> re.Match[str] | None:
        """Find a mark behind what is not known to end a call, which is then dropped up to it."""
        marks = (*self._syntax.marks, *self._closings)
        found = mark_finder(*marks).search(rest, end)
        return found if found and found[0] in marks else None

    def _may_close(self, rest: str) -> bool:
        return any(each.startswith(rest) for each in self._closings)
