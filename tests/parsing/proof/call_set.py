"""Draw answers that call functions: what is said, thought and called, without any syntax."""
# ruff: noqa: RUF001 - the bars of these tokens are no pipes

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from appliance.chat.request import Tool

Value = Any
Arguments = dict[str, Value]

NAMES = ("a", "a_b", "B2", "c-d", "ns.a", "name", "x" * 60)
KEYS = ("q", "to", "a_1", "name", "type", "arguments")
TEXTS = (
    "",
    "Bern",
    "ü☃😀\u2028",
    'it\'s "so"',
    "'a' `b`",
    "\\ \\n \\u0041 \\",
    "1\n2\r\n\t3",
    "a < b>c & <i>d</i> &lt;",
    '{"name": "a"}',
    "[a(q='x')]",
    "null",
    "true",
    "-3.50",
    "}]}{[",
    "```json\n{}\n```",
    "<tool_call>a</tool_call>",
    "<think>hm</think>",
    "</parameter></invoke>",
    "</arg_value><arg_key>",
    "[TOOL_CALLS]a[ARGS]{}",
    "<|tool_call_end|>",
    "<｜tool▁call▁end｜>",
    "</｜DSML｜parameter>",
    '<tool_call|><|"|>',
    "<|call|><|end|>",
    "<|channel|>final<|message|>",
    "</TOOLCALL><|END_ACTION|>",
    "]<]minimax[>[",
)
NUMBERS = (0, 7, -3, 2**53 + 1, -(10**20))
FRACTIONS = (0.5, -2.25, 1e-7, 1.5e300, 3.0)
BEFORE = (
    "So.",
    "a < b, [1] {x} \\ ☃",
    "1.\n\n2 `<tool_call>` <function=x> [TOOL_CALLS]?",
)
AFTER = ("Done.", "a < b.\nMore ☃.")
_WORDS = ("one", "1 2")
THOUGHTS = ("Hm.", "1 < 2\n\nSo [a] {b} ☃")


@dataclass(frozen=True)
class CallSet:
    """One answer. `calls` are names with arguments, in their order; "" is nothing said."""

    tools: tuple[Tool, ...]
    calls: tuple[tuple[str, Arguments], ...]
    thought: str = ""
    before: str = ""
    after: str = ""


@dataclass(frozen=True)
class Reach:
    """What one way of writing can say at all: see `family` for why.

    `can_say(kind, value, depth)` is asked about every value, nested ones first.
    """

    can_say: Callable[[str, Value, int], bool] = lambda kind, value, depth: True
    can_name: Callable[[str], bool] = lambda name: True
    most_calls: int = 4
    has_thoughts: bool = False
    has_before: bool = True
    has_after: bool = True
    sorts_keys: bool = False

    def can_call(self, arguments: Arguments) -> bool:
        """Say whether all of these arguments can be written."""
        return all(self._can_write(value, 0) for value in arguments.values())

    def _can_write(self, value: Value, depth: int) -> bool:
        parts = list(value.values()) if isinstance(value, dict) else value
        if isinstance(parts, list) and not all(self._can_write(it, depth + 1) for it in parts):
            return False
        return self.can_say(_KINDS[type(value)], value, depth)


def draw_call_sets(seed: str, count: int, reach: Reach) -> Iterator[CallSet]:
    """Yield so many answers; the same for the same seed."""
    for number in range(count):
        yield _Draw(random.Random(f"{seed} {number}"), reach).call_set()


class _Draw:
    """The dice for one answer."""

    def __init__(self, dice: random.Random, reach: Reach) -> None:
        self._dice = dice
        self._reach = reach

    def call_set(self) -> CallSet:
        dice, reach = self._dice, self._reach
        count = min(dice.choice((1,) * 26 + (2, 2, 2, 3, 4)), reach.most_calls)
        names = [name for name in NAMES if reach.can_name(name)]
        tools: dict[str, Tool] = {name: Tool(name, "d") for name in dice.sample(names, 2)}
        calls = []
        for _ in range(count):
            name = dice.choice(names[:-1] if dice.random() < 0.97 else names)
            sizes = (0, 0, 1, 1, 1, 1, 1, 1, 1, 2) if count == 1 else (0, 0, 1)
            properties, arguments = self._object(KEYS, dice.choice(sizes), depth=0)
            known = (tools.get(name, Tool(name)).parameters or {}).get("properties", {})
            if any(known.get(key, schema) != schema for key, schema in properties.items()):
                arguments = {}
            properties = properties | known
            tools[name] = Tool(name, "d", {"type": "object", "properties": properties})
            calls.append((name, arguments))
        return CallSet(
            tuple(_described(tool) for tool in tools.values()),
            tuple(calls),
            thought=self._maybe(THOUGHTS, reach.has_thoughts),
            before=self._maybe(BEFORE, reach.has_before),
            after=self._maybe(AFTER, reach.has_after),
        )

    def _maybe(self, texts: tuple[str, ...], is_possible: bool) -> str:
        return self._dice.choice(texts) if is_possible and self._dice.random() < 0.08 else ""

    def _object(
        self, keys: tuple[str, ...], count: int, depth: int
    ) -> tuple[dict[str, Any], Arguments]:
        drawn = {}
        for key in self._dice.sample(keys, count):
            schema, value = self._value(depth)
            # What a key is, its name says, so that all calls of a function agree about most.
            drawn[f"{key}{_SHORT[_kind(schema)]}"] = schema, value
        if self._reach.sorts_keys:
            drawn = dict(sorted(drawn.items()))
        schemas = {key: schema for key, (schema, _) in drawn.items()}
        return schemas, {key: value for key, (_, value) in drawn.items()}

    def _value(self, depth: int) -> tuple[dict[str, Any], Value]:
        kinds = [self._text, self._text, self._text, self._number, self._fraction, self._flag]
        if depth < 2:
            kinds += [self._nested, self._list]
        while True:
            schema, value = self._dice.choice(kinds)(depth)
            if self._reach.can_say(_kind(schema), value, depth):
                return schema, value

    def _text(self, depth: int) -> tuple[dict[str, Any], Value]:
        dice = self._dice
        kind = dice.choice(("plain",) * 8 + ("pair", "enum", "nullable"))
        if kind == "enum":
            return {"type": "string", "enum": [*_WORDS]}, dice.choice(_WORDS)
        if kind == "nullable":
            return {"type": ["string", "null"]}, dice.choice((None, *TEXTS))
        parts = dice.sample(TEXTS, 2) if kind == "pair" else [dice.choice(TEXTS)]
        return {"type": "string"}, "".join(parts)

    def _number(self, depth: int) -> tuple[dict[str, Any], Value]:
        return {"type": "integer"}, self._dice.choice(NUMBERS)

    def _fraction(self, depth: int) -> tuple[dict[str, Any], Value]:
        return {"type": "number"}, self._dice.choice(FRACTIONS)

    def _flag(self, depth: int) -> tuple[dict[str, Any], Value]:
        return {"type": ["boolean", "null"]}, self._dice.choice((True, False, None))

    def _nested(self, depth: int) -> tuple[dict[str, Any], Value]:
        size = self._dice.choice((0, 1, 2))
        properties, values = self._object(KEYS, size, depth + 1)
        return {"type": "object", "properties": properties}, values

    def _list(self, depth: int) -> tuple[dict[str, Any], Value]:
        schema, value = self._value(depth + 1)
        return {"type": "array", "items": schema}, [value] * self._dice.choice((0, 1, 2))


_SHORT = {"string": "", "text_or_null": "_n", "integer": "_i", "number": "_f", "boolean": "_b",
          "object": "_o", "array": "_l", "enum": "_e"}  # fmt: skip


_KINDS = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "boolean",
          dict: "object", list: "array"}  # fmt: skip


def _kind(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return "enum"
    kind = schema["type"]
    if isinstance(kind, list):
        return "text_or_null" if "string" in kind else "boolean"
    return str(kind)


def _described(tool: Tool) -> Tool:
    parameters = tool.parameters or {"type": "object", "properties": {}}
    return Tool(tool.name, tool.description, _with_words(parameters))


def _with_words(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema with a description everywhere, without which some templates fail."""
    schema = {"description": "d"} | schema
    if "properties" in schema:
        properties = {key: _with_words(each) for key, each in schema["properties"].items()}
        schema = schema | {"properties": properties, "required": []}
    if "items" in schema:
        schema = schema | {"items": _with_words(schema["items"])}
    return schema
