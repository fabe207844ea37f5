"""Read calls that are tags: one for the function, and in it one for each parameter. Pure."""

import re
from dataclasses import dataclass
from functools import lru_cache

from appliance.chat.request import Tool
from appliance.parsing.call.body import BodyReader
from appliance.parsing.call.head import SPACE, Glance, HeadMarks, skip_space
from appliance.parsing.call.plain_value import RAW, PlainValue, ValueReader
from appliance.parsing.call.spelling import spell
from appliance.parsing.call.value_grammar import ValueRules
from appliance.parsing.coercion import property_schema, quote, value_types
from appliance.parsing.grammar.kind import Schema
from appliance.parsing.grammar.rules import Rules
from appliance.parsing.parsed import Parsed
from appliance.parsing.syntax import CallReader
from appliance.parsing.toolbox import Toolbox

_LONGEST_KEY = 256
_FREE_KEY = r"[A-Za-z_][A-Za-z0-9_\-]*"


@dataclass(frozen=True, slots=True)
class TaggedSyntax:
    """One family's tags. Pairs are what its template writes before and after a thing.

    `block`: one call, or all of them if it `is_shared`; `between` stands between two. `call`: all
    parameters; `{}` is the function's name, a second one the call's number. `parameter`: one value;
    `{}` is its name, a second one one of `kinds`, the first of which is for texts, and the others
    are types or any word for all the rest. `nothing`: what is there in place of no parameters.
    All white space is that of the template. In reading there may be more or less of it, but only
    the line ends that a parameter's tags have on the value's side are no part of the value.
    `has_entities`: values are XML, with entities or in CDATA. `has_python_words`: what is no text
    is True, False or None.
    """

    call: tuple[str, str]
    parameter: tuple[str, str]
    block: tuple[str, str] = ("", "")
    between: str = ""
    nothing: str = ""
    kinds: tuple[str, ...] = ()
    is_shared: bool = False
    has_entities: bool = False
    has_python_words: bool = False

    @property
    def closings(self) -> tuple[str, ...]:
        """What may be left over behind a call."""
        return _tags(self).ends

    @property
    def text_opening(self) -> None:
        """Return None: calls have an opening; see CallSyntax."""
        return None

    def openings(self, tools: Toolbox) -> tuple[str, ...]:
        """Return the block's and the call's."""
        del tools
        head = _tags(self).head
        return tuple(filter(None, (head.block, head.call)))

    def starts(self, tools: Toolbox) -> tuple[str, ...]:
        """Return the functions' names if nothing but one mark stands before these."""
        head = _tags(self).head
        return () if head.block or head.name_end else tuple(sorted(tools.names))

    def reader(self, opening: str, tools: Toolbox, pieces: list[Parsed]) -> CallReader:
        """Return a reader for one call."""
        return TaggedReader(self, opening, tools, pieces)

    def grammar(self, rules: Rules, tools: Toolbox, *, is_single: bool) -> str:
        """Add the rules for calls; see CallSyntax."""
        call = rules.rule(" | ".join(_CallRules(self, rules, tool).call() for tool in tools.tools))
        opening, closing, between = (spell(rules, each) for each in (*self.block, self.between))
        if self.is_shared:
            more = "" if is_single else f"({between} {call})*"
            return rules.rule(f"{opening} {call} {more} {closing}")
        one = rules.rule(f"{opening} {call} {closing}")
        return one if is_single else rules.rule(f"{one} ({between} {one})*")


class _Tags:
    """What is looked for in reading calls of one syntax."""

    def __init__(self, syntax: TaggedSyntax) -> None:
        call, name_end, *number_end = map(str.strip, syntax.call[0].split("{}"))
        self.parameter, *key_ends = syntax.parameter[0].split("{}")
        self.key = _key_pattern(self.parameter, *key_ends)
        self.call_end = syntax.call[1].strip()
        self.ends = tuple(filter(None, (self.call_end, syntax.block[1].strip())))
        self.head = HeadMarks(
            block=syntax.block[0].strip(),
            call=call,
            name_end=name_end,
            number_end=number_end[0] if number_end else "",
            bodies=(self.parameter, *self.ends),
        )
        self.margin = "\n" if syntax.parameter[1].startswith("\n") else ""
        self.value_end = syntax.parameter[1].strip()
        self.value_ends = (self.margin + self.value_end, self.value_end)
        self.size = self.head.size + sum(map(len, syntax.parameter))


@lru_cache(maxsize=64)
def _tags(syntax: TaggedSyntax) -> _Tags:
    return _Tags(syntax)


def _key_pattern(opening: str, *ends: str) -> re.Pattern[str]:
    """Return what a parameter's opening is like; its groups are the name and the kind."""
    *middle, end = ends
    steps = re.split(r"\s+|(?<=>)(?=<)", end.strip())
    stops = "|".join(map(re.escape, (steps[0], *middle, "\n")))
    kind = rf"(?:{re.escape(middle[0])}(\w+))?" if middle else "()"
    last = SPACE.pattern.join(map(re.escape, steps))
    return re.compile(f"{re.escape(opening)}((?:(?!{stops}).)+){kind}{last}")


class _CallRules:
    """The rules of calls of one function."""

    def __init__(self, syntax: TaggedSyntax, rules: Rules, tool: Tool) -> None:
        self._syntax = syntax
        self._rules = rules
        self._name = tool.name
        self._values = ValueRules(
            rules,
            tool,
            has_kinds=bool(syntax.kinds),
            has_python_words=syntax.has_python_words,
            is_xml=syntax.has_entities,
        )

    def call(self) -> str:
        """Return what stands for a call, without a block."""
        before, behind, *last = self._syntax.call[0].split("{}")
        number = [self._rules.regex("[1-9][0-9]{0,2}"), spell(self._rules, *last)] if last else []
        head = [spell(self._rules, before), self._rules.text(self._name)]
        tail = [spell(self._rules, behind), *number, self._parameters()]
        return " ".join((*head, *tail, spell(self._rules, self._syntax.call[1])))

    def _parameters(self) -> str:
        properties, required, others = self._values.schema.members(self._values.schema.root)
        if properties:
            self._values.schema.refuse(*filter(self._is_lost, properties))
            rules = {
                name: self._parameter(self._rules.text(name), schema)
                for name, schema in properties.items()
            }
            return " ".join(
                rule if name in required else f"({rule})?" for name, rule in rules.items()
            )
        if others and self._values.schema.root:
            # The same name twice, which breaks a call, cannot be ruled out.
            self._values.schema.refuse("additionalProperties")
            return f"({self._parameter(self._rules.regex(_FREE_KEY), others)})*"
        return spell(self._rules, self._syntax.nothing)

    def _is_lost(self, name: str) -> bool:
        """Say whether a parameter's name would be read as another, or as none."""
        opening = self._syntax.parameter[0].format(name, *self._syntax.kinds[:1])
        found = _tags(self._syntax).key.match(opening)
        return found is None or found[1] != name or len(name) > _LONGEST_KEY

    def _parameter(self, key: str, schema: Schema) -> str:
        before, middle, *last = self._syntax.parameter[0].split("{}")
        choices: dict[str, list[str]] = {}
        for kind, value in self._values.choices(schema, self._syntax.parameter[1]):
            choices.setdefault(self._kind(kind), []).append(value)
        opening = f"{spell(self._rules, before)} {key} {spell(self._rules, middle)}"
        values = [
            f"{spell(self._rules, kind, *last)} ({' | '.join(each)})".lstrip()
            for kind, each in choices.items()
        ]
        return self._rules.rule(f"{opening} ({' | '.join(values)})")

    def _kind(self, kind: str) -> str:
        """Return the word for a JSON type in a parameter's tag, "" if there is none."""
        kinds = self._syntax.kinds
        if kind == "string" or not kinds:
            return kinds[0] if kinds else ""
        kind = "number" if kind == "integer" else kind
        return kind if kind in kinds else kinds[-1]


class TaggedReader(BodyReader):
    """Reads one call; see CallReader.

    A parameter that comes twice breaks the call, as does text between parameters.
    """

    def __init__(
        self, syntax: TaggedSyntax, opening: str, tools: Toolbox, pieces: list[Parsed]
    ) -> None:
        self._syntax = syntax
        self._tags = _tags(syntax)
        super().__init__(self._tags.head, opening, tools, pieces)
        self._keys: set[str] = set()
        self._types: frozenset[str] | None = None
        """Those of the value that begins."""

    def _step(self, text: str, at: int, is_last: bool) -> int:
        if self._value is not None:
            return self._read_value(self._value, text, at, is_last)
        if self._types is not None:
            return self._begin_value(self._types, text, at, is_last)
        return self._read_key(text, at)

    def _read_key(self, text: str, at: int) -> int:
        tags = self._tags
        limit = _LONGEST_KEY + tags.size
        at = skip_space(text, at)
        window = text[at : at + limit]
        found = tags.key.match(window)
        if found and found[1] not in self._keys:
            self._begin_parameter(found[1], found[2])
            return at + found.end()
        glance = Glance(window)
        mark = None if found else glance.meet(*tags.ends, tags.parameter)
        if mark in tags.ends:
            self._taken.append("}" if self._keys else "{}")
            self._close(is_sound=True)
            # A block's end that stands for the call's is left to who drops such marks.
            return at + glance.at if mark == tags.call_end else at
        if (glance.is_short or mark == tags.parameter) and len(window) < limit:
            self._is_waiting = True
        else:
            self._close(is_sound=False)
        return at

    def _begin_parameter(self, key: str, kind: str | None) -> None:
        types = value_types(property_schema(key, self._schema), self._schema)
        if kind and kind == self._syntax.kinds[0] and "string" in types:
            types = frozenset(("string",))
        self._types = types
        self._taken.append(f"{',' if self._keys else '{'}{quote(key)}:")
        self._keys.add(key)

    def _begin_value(self, types: frozenset[str], text: str, at: int, is_last: bool) -> int:
        """Pass what belongs to the tag before a value, and settle what will end it."""
        tags, has_entities = self._tags, self._syntax.has_entities
        opening = RAW[0] if has_entities else tags.margin
        rest = text[at : at + len(opening)]
        if not is_last and len(rest) < len(opening) and opening.startswith(rest):
            self._is_waiting = True
            return at
        is_there = rest == opening
        is_raw = has_entities and is_there
        ends = (RAW[1] + tags.value_end,) if is_raw else tags.value_ends
        value = PlainValue(types, has_entities=has_entities and not is_raw)
        self._taken.append(value.open())
        self._value = ValueReader(value, ends, (tags.parameter, *tags.ends))
        self._types = None
        return at + len(opening) if is_there else at
