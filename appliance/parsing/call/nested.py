"""Read calls whose arguments are elements in elements, as MiniMax M3 writes them. Pure."""

import json
import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from appliance.chat.request import Tool
from appliance.parsing.call.body import BodyReader
from appliance.parsing.call.head import SPACE, Glance, HeadMarks, skip_space
from appliance.parsing.call.plain_value import PlainValue, ValueReader
from appliance.parsing.call.spelling import spell
from appliance.parsing.call.value_grammar import ValueRules
from appliance.parsing.coercion import item_schema, property_schema, quote, value_types
from appliance.parsing.grammar.kind import Schema
from appliance.parsing.grammar.rules import Rules
from appliance.parsing.parsed import Parsed
from appliance.parsing.syntax import MOST_HELD, CallReader
from appliance.parsing.toolbox import Toolbox

_LONGEST_KEY = 256
_MOST_DEEP = 100
_HOLDERS = ("array", "object")
_BEYOND_ELEMENTS = frozenset(
    (
        *("allOf", "anyOf", "const", "enum", "prefixItems"),
        *("patternProperties", "minProperties", "maxProperties"),
    )
)
"""Keywords that no row of elements can be bound by."""


@dataclass(frozen=True, slots=True)
class NestedSyntax:
    """Calls as elements, whose tags all have the mark `space` before them.

    An element's name is that of a parameter or property, or `item` in a list. `block` and `call`
    are what the template writes before and after all calls, and one; `{}` is the function's name.
    """

    space: str
    block: tuple[str, str]
    call: tuple[str, str]
    item: str = "item"

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
        return head.block, head.call

    def starts(self, tools: Toolbox) -> tuple[str, ...]:
        """Return none."""
        del tools
        return ()

    def reader(self, opening: str, tools: Toolbox, pieces: list[Parsed]) -> CallReader:
        """Return a reader for one call."""
        return NestedReader(self, opening, tools, pieces)

    def grammar(self, rules: Rules, tools: Toolbox, *, is_single: bool) -> str:
        """Add the rules for calls; see CallSyntax."""
        call = rules.rule(" | ".join(_CallRules(self, rules, tool).call() for tool in tools.tools))
        opening, closing = (spell(rules, each) for each in self.block)
        return rules.rule(f"{opening} {call}{'' if is_single else '+'} {closing}")


class _CallRules:
    """The rules of calls of one function."""

    def __init__(self, syntax: NestedSyntax, rules: Rules, tool: Tool) -> None:
        self._syntax = syntax
        self._rules = rules
        self._tool = tool
        self._values = ValueRules(rules, tool)

    def call(self) -> str:
        """Return what stands for a call, without a block."""
        before, behind = (spell(self._rules, each) for each in self._syntax.call[0].split("{}"))
        head = f"{before} {self._rules.text(self._tool.name)} {behind}"
        properties = self._properties(self._values.schema.root)
        return f"{head} {properties} {spell(self._rules, self._syntax.call[1])}"

    def _properties(self, schema: dict[str, Any]) -> str:
        properties, required, _ = self._values.schema.members(schema)
        self._values.schema.refuse(*filter(self._is_lost, properties))
        elements = {key: self._element(key, each) for key, each in properties.items()}
        return " ".join(
            element if key in required else f"({element})?" for key, element in elements.items()
        )

    def _is_lost(self, name: str) -> bool:
        """Say whether an element's name would be read as none."""
        opening = f"{self._syntax.space}<{name}>"
        return len(name) > _LONGEST_KEY or _tags(self._syntax).key.fullmatch(opening) is None

    def _element(self, key: str, schema: Schema) -> str:
        space = self._syntax.space
        opening = f"{spell(self._rules, f'{space}<')} {self._rules.text(f'{key}>')}"
        closing = f"{space}</{key}>"
        content = self._rules.named(
            (self._tool.name, closing, json.dumps(schema, sort_keys=True)),
            lambda: self._content(schema, closing),
        )
        return f"{opening} {content}"

    def _content(self, schema: Schema, closing: str) -> str:
        """Return what an element may hold, with its closing."""
        schema = self._values.schema.resolve(schema)
        options = self._values.schema.options(schema) or [schema]
        holders = [each for each in options if not self._types(each).isdisjoint(_HOLDERS)]
        # Elements of two kinds, and text beside elements, are not always told apart.
        is_clear = len(holders) == 1 and "string" not in self._types(schema)
        elements = self._elements(holders[0]) if is_clear else None
        if elements is None:
            return " | ".join(value for _, value in self._values.choices(schema, closing))
        contents = [f"{elements} {spell(self._rules, closing)}"]
        for option in options:
            if option is not holders[0]:
                contents += [value for _, value in self._values.choices(option, closing)]
        return " | ".join(contents)

    def _elements(self, schema: dict[str, Any]) -> str | None:
        """Return the elements that a value consists of; None: it is to be written as JSON."""
        if not _BEYOND_ELEMENTS.isdisjoint(schema):
            return None
        types = self._types(schema)
        if types == {"object"} and "properties" in schema:
            return self._properties(schema)
        if types == {"array"} and isinstance(items := schema.get("items"), dict):
            least, most = schema.get("minItems", 0), schema.get("maxItems", "")
            if most == 0 or self._values.schema.is_never(items):
                return ""
            return f"({self._element(self._syntax.item, items)}){{{least},{most}}}"
        return None

    def _types(self, schema: Schema) -> frozenset[str]:
        return value_types(schema, self._values.schema.root)


class _Tags:
    """What is looked for in reading calls of one syntax."""

    def __init__(self, syntax: NestedSyntax) -> None:
        call, name_end = syntax.call[0].split("{}")
        self.child = syntax.space + "<"
        key = rf"{re.escape(self.child)}([^<>/\n][^<>\n]*)"
        self.key, self.half_key = re.compile(f"{key}>"), re.compile(key)
        self.call_end = syntax.call[1].strip()
        self.ends = (self.call_end, syntax.block[1].strip())
        bodies = (*self.ends, self.child)
        self.head = HeadMarks(syntax.block[0].strip(), call, name_end, "", bodies)
        self.limit = MOST_HELD + _LONGEST_KEY + self.head.size


@lru_cache(maxsize=16)
def _tags(syntax: NestedSyntax) -> _Tags:
    return _Tags(syntax)


@dataclass(slots=True)
class _Element:
    """One that is open. It has elements in it if it `is_list` or, that being False, an object."""

    closing: str
    schema: Schema
    is_list: bool | None = None
    keys: set[str] = field(default_factory=set)
    num_items: int = 0


class NestedReader(BodyReader):
    """Reads one call; see CallReader.

    What an element without any in it is, and whether those in it are a list, is for the schema to
    say; without one items are a list. A property that comes twice breaks the call, as do text
    between elements and a list's element that is no item.
    """

    def __init__(
        self, syntax: NestedSyntax, opening: str, tools: Toolbox, pieces: list[Parsed]
    ) -> None:
        self._syntax = syntax
        self._tags = _tags(syntax)
        super().__init__(self._tags.head, opening, tools, pieces)
        self._elements: list[_Element] = []

    def _step(self, text: str, at: int, is_last: bool) -> int:
        if self._value is not None:
            return self._read_leaf(self._value, text, at, is_last)
        if not self._elements:
            self._elements.append(_Element(self._tags.call_end, self._schema, is_list=False))
            self._taken.append("{")
        if self._elements[-1].is_list is None:
            return self._begin_content(self._elements[-1], text, at, is_last)
        return self._read_tag(self._elements[-1], text, at)

    def _read_leaf(self, value: ValueReader, text: str, at: int, is_last: bool) -> int:
        at = self._read_value(value, text, at, is_last)
        if self._value is None:
            self._elements.pop()
        return at

    def _begin_content(self, element: _Element, text: str, at: int, is_last: bool) -> int:
        """Find out whether an element that was opened has others in it, text or nothing."""
        types = value_types(element.schema, self._schema)
        window = text[at : at + self._tags.limit]
        glance = Glance(window)
        glance.skip(SPACE)
        found = self._tags.key.match(window, glance.at)
        may_hold = not types.isdisjoint(("array", "object"))
        if may_hold and found:
            has_item = found[1] == self._syntax.item
            element.is_list = "array" in types and (has_item or "object" not in types)
            self._taken.append("[" if element.is_list else "{")
            return at + glance.at
        if may_hold and "string" not in types and glance.meet(element.closing):
            self._taken.append("[]" if "array" in types else "{}")
            self._elements.pop()
            return at + glance.at
        if may_hold and not is_last and self._may_be_tag(window[glance.at :], element.closing):
            self._is_waiting = True
            return at
        value = PlainValue(types)
        self._taken.append(value.open())
        child = self._tags.child
        self._value = ValueReader(value, (element.closing,), (child,), stem=f"{child}/")
        return at

    def _may_be_tag(self, rest: str, *closings: str) -> bool:
        """Say whether an opening tag, or one of those, may begin here with more of it to come."""
        tags = self._tags
        is_part = any(mark.startswith(rest) for mark in (tags.child, *closings))
        return len(rest) < tags.limit and (is_part or tags.half_key.fullmatch(rest) is not None)

    def _read_tag(self, element: _Element, text: str, at: int) -> int:
        at = skip_space(text, at)
        window = text[at : at + self._tags.limit]
        found = self._tags.key.match(window)
        if found and self._begin_element(element, found[1]):
            return at + found.end()
        is_root = len(self._elements) == 1
        closings = self._tags.ends if is_root else (element.closing,)
        glance = Glance(window)
        if glance.meet(*closings):
            self._taken.append("]" if element.is_list else "}")
            self._elements.pop()
            if is_root:
                self._close(is_sound=True)
            # A block's end that stands for the call's is left to who drops such marks.
            return at + glance.at if window.startswith(element.closing) else at
        if not found and self._may_be_tag(window, *closings):
            self._is_waiting = True
        else:
            self._close(is_sound=False)
        return at

    def _begin_element(self, parent: _Element, key: str) -> bool:
        """Open an element in another, if it may be there."""
        is_item = key == self._syntax.item
        is_wrong = not is_item if parent.is_list else key in parent.keys
        if is_wrong or len(self._elements) > _MOST_DEEP:
            return False
        if parent.is_list:
            schema = item_schema(parent.num_items, parent.schema, self._schema)
        else:
            schema = property_schema(key, parent.schema, self._schema)
        self._taken.append("," if parent.num_items else "")
        self._taken.append("" if parent.is_list else f"{quote(key)}:")
        parent.num_items += 1
        parent.keys.add(key)
        self._elements.append(_Element(f"{self._syntax.space}</{key}>", schema))
        return True
